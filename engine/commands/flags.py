"""The flags that the commands share, and what they become: a constraint, sampling settings, options.

Only a command reads files: a constraint holds the text of its file. A flag that makes no sense is an
`argparse` error, which ends the program with exit code 2; a source that cannot be served is a RequestError.
"""

import argparse
import json
from pathlib import Path

import attrs
import torch

from engine.errors import ErrorKind, RequestError
from engine.request import (
    Formats,
    JsonOptions,
    OutputConstraint,
    SamplingSettings,
    UnknownKeywords,
    Whitespace,
)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
JSON_OPTIONS = (
    ("--unknown-keywords", UnknownKeywords, "what becomes of keywords that the dialect does not have"),
    ("--formats", Formats, "what becomes of format"),
    ("--whitespace", Whitespace, "white space between JSON tokens: runs up to 32, fixed, or none"),
)


@attrs.frozen
class Source:
    """A constraint as its flags gave it: where its text came from, and the text that an error points into."""

    constraint: OutputConstraint | None = None
    name: str = ""
    text: str = ""


def add_constraint_flags(parser: argparse.ArgumentParser) -> None:
    """Add the constraint kinds, of which one may be given, and how JSON is read."""
    found = parser.add_argument_group("constraint (at most one)")
    kinds = found.add_mutually_exclusive_group()
    kinds.add_argument(
        "--grammar-file", type=Path, metavar="FILE", help="GBNF grammar with the entry rule root"
    )
    kinds.add_argument("--json-schema-file", type=Path, metavar="FILE", help="JSON Schema of the answer")
    kinds.add_argument("--json-object", action="store_true", help="any JSON object")
    kinds.add_argument("--regex", metavar="PATTERN", help="regular expression for the whole answer")
    kinds.add_argument("--choice", action="append", metavar="TEXT", help="one of the answers; repeat it")
    for option, kind, help_text in JSON_OPTIONS:
        default = getattr(JsonOptions(), option.strip("-").replace("-", "_"))
        words = [*map(str, kind)]
        found.add_argument(option, choices=words, help=f"{help_text} (default {default})")


def read_constraint(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Source:
    """Return the constraint of the flags. Raises RequestError, OSError, UnicodeDecodeError."""
    names = [option.strip("-").replace("-", "_") for option, _, _ in JSON_OPTIONS]
    words = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.json_schema_file is not None:
        file = arguments.json_schema_file
        text = file.read_text(encoding="utf-8")
        return Source(OutputConstraint.json_schema(text, **words), str(file), text)
    if arguments.json_object:
        if set(words) - {"whitespace"}:
            parser.error(
                "--json-object takes --whitespace only; --formats and --unknown-keywords are a schema's"
            )
        return Source(OutputConstraint.json_object(**words), "--json-object")
    if words:
        parser.error(f"--{next(iter(words)).replace('_', '-')} goes with --json-schema-file or --json-object")
    if arguments.grammar_file is not None:
        text = arguments.grammar_file.read_text(encoding="utf-8")
        return Source(OutputConstraint.grammar(text), str(arguments.grammar_file), text)
    if arguments.regex is not None:
        return Source(OutputConstraint.regex(arguments.regex), "--regex", arguments.regex)
    if arguments.choice is not None:
        return Source(OutputConstraint.choice(arguments.choice), "--choice")
    return Source()


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """Add the numbers of the sampling law; what is left out is the model's own preset."""
    found = parser.add_argument_group("sampling (left out: the model's generation_config.json)")
    found.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    found.add_argument("--top-k", type=int, metavar="K", help="most likely tokens kept; 0 is the most, 20")
    found.add_argument("--top-p", type=float, metavar="P", help="share of probability kept, in [0, 1]")
    found.add_argument("--min-p", type=float, metavar="P", help="least share of the best token's probability")
    found.add_argument(
        "--presence-penalty", type=float, metavar="X", help="taken off tokens that came already"
    )
    found.add_argument(
        "--frequency-penalty", type=float, metavar="X", help="taken off for each time they came"
    )
    found.add_argument("--seed", type=int, default=0, help="seed of every random choice (default 0)")
    found.add_argument(
        "--logit-bias",
        type=_bias,
        action="append",
        metavar="ID=X",
        help="added to a token's logit; repeat it",
    )
    found.add_argument(
        "--ban", type=int, action="append", metavar="ID", help="a token never to take; repeat it"
    )


def _bias(text: str) -> tuple[int, float]:
    token_id, separator, value = text.partition("=")
    try:
        return int(token_id), float(value)
    except ValueError:
        problem = "no number" if separator else "no '='"
        raise argparse.ArgumentTypeError(f"{text!r} has {problem}; write ID=X, such as 17=-2.5") from None


def read_sampling(arguments: argparse.Namespace, preset: SamplingSettings) -> SamplingSettings:
    """Return the preset with what the flags say."""
    names = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return attrs.evolve(
        preset,
        **given,
        seed=arguments.seed,
        logit_bias=dict(arguments.logit_bias or ()),
        banned_token_ids=arguments.ban or (),
    )


def add_model_flags(parser: argparse.ArgumentParser, *, device: bool = True) -> None:
    """Add which model runs, and on what."""
    found = parser.add_argument_group("model")
    found.add_argument(
        "--model", default="bundled", metavar="DIR", help="model directory, smollm2, or bundled (the default)"
    )
    found.add_argument(
        "--draft-tokens", type=int, metavar="K", help="drafts a round; left out: the drafter's own"
    )
    found.add_argument("--context", type=int, metavar="N", help="most tokens of prompt and answer together")
    found.add_argument("--dtype", choices=DTYPES, help="default float32 on a CPU, bfloat16 on a GPU")
    found.add_argument("--device", default="cpu", metavar="NAME", help="cpu (the default), cuda, cuda:0, ...")
    found.add_argument(
        "--threads", type=int, default=1, metavar="N", help="CPU threads of a step (default 1)"
    )


def read_json(text: str, name: str) -> object:
    """Return parsed JSON. Raises RequestError with the line of the fault."""
    from engine.errors import Location

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = Location(error.lineno, error.colno)
        message, allowed = f"{name} is not JSON: {error.msg}", "a JSON text"
        raise RequestError(
            ErrorKind.INVALID_REQUEST, message, where, allowed=allowed, source="request"
        ) from None
