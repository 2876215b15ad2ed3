"""Fields of a model's configuration: read, or refused with their place, the same for every architecture."""

from collections.abc import Mapping
from typing import Any

import attrs

from engine.errors import ErrorKind, Location, RequestError


@attrs.frozen
class InvalidModelConfig(RequestError):
    """A model's configuration is not one that this engine computes; the pointer is into it."""


def read_count(document: Mapping[str, Any], name: str, default: int) -> int:
    """Return an integer of at least 1. Raises InvalidModelConfig."""
    value = document.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise invalid_config(name, value, "an integer of at least 1")
    return value


def read_number(document: Mapping[str, Any], name: str, default: float) -> float:
    """Return a number. Raises InvalidModelConfig."""
    value = document.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise invalid_config(name, value, "a number")
    return float(value)


def invalid_config(name: str, found: object, allowed: str) -> InvalidModelConfig:
    """Return the error of one field."""
    return InvalidModelConfig(
        ErrorKind.INVALID_REQUEST,
        "the model's configuration asks for something this engine does not compute",
        Location(pointer=f"/{name}"),
        found="nothing" if found is None else repr(found)[:80],
        allowed=allowed,
        source="request",
    )
