"""Where a node stands, for errors that are found below the schema: in strings, numbers, counts."""

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from engine.errors import Location, RequestError
from engine.text.schema.reduce.branches import Node


def place_of(node: Node) -> Location:
    """Where the last schema of a node stands: the innermost of those that meet there."""
    return node[-1][0].location() if node else Location()


@contextmanager
def pointing_at(node: Node) -> Iterator[None]:
    """Give request errors without a place the place of a node."""
    try:
        yield
    except RequestError as error:
        if str(error.location):
            raise
        raise attrs.evolve(error, location=place_of(node)) from None
