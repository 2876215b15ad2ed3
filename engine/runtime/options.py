"""The checks on a request's numbers that need no model, and the errors a row can end in."""

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from engine.errors import DeadEnd, ErrorKind, IntegrityError, NonFiniteLogits, RequestError
from engine.request import FinishReason, RequestOptions, SamplingSettings
from engine.runtime.contract import RowFailure, RowResult

INT64 = (-(2**63), 2**63 - 1)
FLOAT32_MAX = float(np.finfo(np.float32).max)
Range = tuple[str, object, float, float]


def check_options(prompt_ids: Sequence[int], options: RequestOptions, vocab_size: int) -> None:
    """Raise RequestError for an empty prompt, an id outside the token domain, or a number without a law.

    Everything that passes is a number that the ops can hold: a round never meets a request's mistake.
    """
    settings = options.sampling
    _require(len(prompt_ids) > 0, "the prompt is empty", "no token", "at least one token id")
    for name, token_ids in (
        ("prompt", prompt_ids),
        ("logit_bias", settings.logit_bias),
        ("banned_token_ids", settings.banned_token_ids),
    ):
        _require_in_domain(name, token_ids, vocab_size)
    for name, value, low, high in _integers(options):
        inside = isinstance(value, int | np.integer) and bool(low <= value <= high)
        _require(inside, f"{name} is out of range", _shown(value), f"an integer in [{low}, {high}]")
    for name, value, low, high in _reals(settings):
        number = float(value) if isinstance(value, np.floating) else value  # numpy compares in its own width
        inside = isinstance(number, float | int | np.integer) and bool(
            low <= number <= high
        )  # NaN is outside
        _require(inside, f"{name} is out of range", _shown(value), f"a finite number in [{low}, {high}]")


def _integers(options: RequestOptions) -> Iterable[Range]:
    yield "max_tokens", options.max_tokens, 0, INT64[1]
    yield "top_k", options.sampling.top_k, *INT64
    yield "seed", options.sampling.seed, INT64[0], 2**64 - 1


def _reals(settings: SamplingSettings) -> Iterable[Range]:
    yield "temperature", settings.temperature, -sys.float_info.max, sys.float_info.max
    yield "top_p", settings.top_p, 0.0, 1.0
    yield "min_p", settings.min_p, 0.0, 1.0
    yield "presence_penalty", settings.presence_penalty, -FLOAT32_MAX, FLOAT32_MAX
    yield "frequency_penalty", settings.frequency_penalty, -FLOAT32_MAX, FLOAT32_MAX
    for token_id, value in settings.logit_bias.items():
        yield f"the logit bias of id {token_id}", value, -FLOAT32_MAX, FLOAT32_MAX


def _require_in_domain(name: str, token_ids: Iterable[object], vocab_size: int) -> None:
    for token_id in token_ids:
        if not (isinstance(token_id, int | np.integer) and 0 <= token_id < vocab_size):
            message = f"{name} names an id outside the token domain"
            _require(False, message, _shown(token_id), f"0 to {vocab_size - 1}")


def _shown(value: object) -> str:
    """A caller's value, short: Python refuses to write out the digits of the largest integers."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)[:80]


def _require(condition: bool, message: str, found: str, allowed: str) -> None:
    if not condition:
        raise RequestError(ErrorKind.INVALID_REQUEST, message, found=found, allowed=allowed, source="request")


def budget_of(num_prompt: int, max_tokens: int, max_context: int | None) -> tuple[int, FinishReason]:
    """Return how many tokens an output may have, and why it ends where it has them all.

    Raises RequestError (context_length_exceeded) for a prompt that leaves no room for the first one.
    """
    if max_context is None:
        return max_tokens, FinishReason.LENGTH
    room = max_context - num_prompt
    if room < min(1, max_tokens):
        raise RequestError(
            ErrorKind.CONTEXT_LENGTH_EXCEEDED,
            f"the prompt leaves no room in a context of {max_context} tokens",
            found=f"{num_prompt} prompt tokens",
            allowed=f"at most {max_context - min(1, max_tokens)}",
            source="request",
        )
    return min(room, max_tokens), FinishReason.CONTEXT if room < max_tokens else FinishReason.LENGTH


def dead_end(position: int, num_generated: int, *, by_bans: bool) -> DeadEnd:
    """Return the error of an output that can neither go on nor end at `position`."""
    because = (
        "every token that the constraint allows is banned" if by_bans else "the constraint allows no token"
    )
    return DeadEnd(
        ErrorKind.CONSTRAINT_DEAD_END,
        f"{because} at output position {position}, after {num_generated} generated tokens",
        found="an empty legal set",
        allowed="fewer banned_token_ids" if by_bans else "a constraint that can be continued from here",
        position=position,
        num_generated=num_generated,
    )


def row_error(result: RowResult, num_generated: int) -> RequestError | IntegrityError:
    """Return the error that a failed row's request ends with; `num_generated` tokens stay committed."""
    position = num_generated + result.failed_at
    if result.failure is RowFailure.NON_FINITE:
        message = f"no finite choice among the legal logits at output position {position}"
        return NonFiniteLogits(message, position)
    if result.failure is RowFailure.CORE_FAULT:
        return IntegrityError(
            f"the matching core failed while masks were made at output position {num_generated}"
        )
    return dead_end(position, num_generated, by_bans=result.failure is RowFailure.DEAD_END_BY_BANS)
