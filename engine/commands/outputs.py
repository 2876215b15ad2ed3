"""What a run of `generate` gives, as lines for people and as one JSON object for machines."""

from collections.abc import Sequence
from typing import Any

import attrs

from engine.commands.measure import Measurement
from engine.errors import IntegrityError, RequestError
from engine.frontend.text_codec import TextCodec
from engine.request import ConstraintObservation, FinishReason, GenerationResult

NAME = 13  # columns of a line's name


@attrs.frozen
class Output:
    """One answer, or the error that ended it; then the text is empty."""

    text: str
    token_ids: tuple[int, ...] = ()
    finish: FinishReason | None = None
    num_drafted: int = 0
    num_accepted: int = 0
    constraint: ConstraintObservation | None = None
    error: RequestError | None = None


def outputs_of(measured: Measurement, codec: TextCodec) -> tuple[Output, ...]:
    """Return the outputs of a run. Raises IntegrityError where a fault of the engine's own ended one."""
    return tuple(_output(result, codec) for result in measured.results)


def _output(result: GenerationResult | Exception, codec: TextCodec) -> Output:
    if isinstance(result, IntegrityError):
        raise result
    if isinstance(result, RequestError):
        return Output("", error=result)
    assert isinstance(result, GenerationResult)
    return Output(
        codec.decode(result.token_ids),
        result.token_ids,
        result.finish_reason,
        result.num_drafted,
        result.num_accepted,
        result.constraint,
    )


def record(model: str, spec: str, measured: Measurement, outputs: Sequence[Output]) -> dict[str, Any]:
    """Return everything under stable keys."""
    return {
        "model": model,
        "spec": spec,
        "num_prompt_tokens": len(measured.requests[0][0]),
        "outputs": [_output_record(output) for output in outputs],
        "num_tokens": measured.num_tokens,
        "num_rounds": measured.num_rounds,
        "accepted_length": measured.accepted_length,
        "accepted_by_position": _by_position(measured.stats.accepted_at),
        "reached_by_position": _by_position(measured.stats.reached_at),
        "prepare_seconds": measured.prepare_seconds,
        "prefill_seconds": measured.prefill_seconds,
        "decode_seconds": measured.decode_seconds,
        "decode_tokens_per_second": decode_rate(measured),
    }


def _output_record(output: Output) -> dict[str, Any]:
    found = attrs.asdict(output, filter=lambda field, _: field.name != "error")
    if output.error is not None:
        error = output.error
        found["error"] = {"kind": str(error.kind), "message": error.message, "at": str(error.location)}
    return found


def _by_position(counts: dict[int, int]) -> list[int]:
    return [counts[i] for i in range(max(counts, default=-1) + 1)]


def decode_rate(measured: Measurement) -> float:
    """Tokens a second after the last first token; 0 where there were none."""
    return measured.num_decode_tokens / measured.decode_seconds if measured.num_decode_tokens else 0.0


def output_lines(output: Output, title: str = "") -> list[str]:
    """Return how one output ended, for people."""
    if output.finish is None:
        return []
    lines = [_line("finish", f"{title}{output.finish}, {_count(len(output.token_ids), 'token')}")]
    if output.constraint is not None:
        lines.append(_line("constraint", _constraint_words(output.constraint)))
    return lines


def _constraint_words(seen: ConstraintObservation) -> str:
    state = "ended" if seen.terminated else "complete, may go on" if seen.complete else "incomplete"
    grammar = f"{seen.core}, grammar {seen.cache} in {_milliseconds(seen.prepare_seconds)}"
    masks = f"{_count(seen.mask_positions, 'mask')} in {_milliseconds(seen.mask_seconds)}"
    moves = f"matcher {_milliseconds(seen.matcher_seconds)}"
    return f"{state}; {grammar}; {masks}; {moves}; {seen.mask_upload_bytes / 1024:.1f} KiB of masks"


def run_lines(model: str, spec: str, measured: Measurement) -> list[str]:
    """Return what the run did and took, for people."""
    prompt = _count(len(measured.requests[0][0]), "prompt token")
    first = min(measured.first_token_seconds, default=0.0)
    lines = [
        _line(
            "speed",
            f"{decode_rate(measured):.0f} tokens/s; first token after {_milliseconds(first)} "
            f"({prompt}); model {model}",
        )
    ]
    if spec != "none":
        stats = measured.stats
        lines.append(
            _line(
                "drafts",
                f"{spec}: {measured.accepted_length:.2f} tokens a round; {stats.num_accepted} of "
                f"{_count(stats.num_drafted, 'draft')} accepted in {_count(measured.num_rounds, 'round')}; "
                f"refused by the model {stats.num_rejected_by_target}, "
                f"by the constraint {stats.num_rejected_by_grammar}",
            )
        )
    return lines


def _line(name: str, text: str) -> str:
    return f"{name:<{NAME}}{text}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
