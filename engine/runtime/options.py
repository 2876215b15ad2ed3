"""The checks on a request's numbers that need no model, and the errors a row can end in."""

import math
from collections.abc import Iterable, Sequence

from engine.errors import DeadEnd, ErrorKind, IntegrityError, NonFiniteLogits, RequestError
from engine.request import RequestOptions, SamplingSettings
from engine.runtime.contract import RowFailure, RowResult


def check_options(prompt_ids: Sequence[int], options: RequestOptions, vocab_size: int) -> None:
    """Raise RequestError for an empty prompt, an id outside the token domain, or a number without a law."""
    settings = options.sampling
    _require(len(prompt_ids) > 0, "the prompt is empty", "no token", "at least one token id")
    for name, token_ids in (
        ("prompt", prompt_ids),
        ("logit_bias", settings.logit_bias),
        ("banned_token_ids", settings.banned_token_ids),
    ):
        _require_in_domain(name, token_ids, vocab_size)
    _require(options.max_tokens >= 0, "max_tokens is negative", str(options.max_tokens), "0 or more")
    for name, value, low, high in _ranges(settings):
        inside = math.isfinite(value) and low <= value <= high
        _require(inside, f"{name} is out of range", str(value), f"a finite number in [{low}, {high}]")
    for value in settings.logit_bias.values():
        _require(math.isfinite(value), "a logit bias is not finite", str(value), "a finite number")


def _ranges(settings: SamplingSettings) -> Iterable[tuple[str, float, float, float]]:
    yield "temperature", settings.temperature, -math.inf, math.inf
    yield "top_p", settings.top_p, 0.0, 1.0
    yield "min_p", settings.min_p, 0.0, 1.0
    yield "presence_penalty", settings.presence_penalty, -math.inf, math.inf
    yield "frequency_penalty", settings.frequency_penalty, -math.inf, math.inf
    yield "seed", settings.seed, -(2**63), 2**64 - 1


def _require_in_domain(name: str, token_ids: Iterable[int], vocab_size: int) -> None:
    outside = [token_id for token_id in token_ids if not 0 <= token_id < vocab_size]
    if outside:
        allowed = f"0 to {vocab_size - 1}"
        _require(False, f"{name} names an id outside the token domain", str(outside[0]), allowed)


def _require(condition: bool, message: str, found: str, allowed: str) -> None:
    if not condition:
        raise RequestError(ErrorKind.INVALID_REQUEST, message, found=found, allowed=allowed, source="request")


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
