"""Does an ECMA-262 pattern match somewhere in a text? Answered with sets of positions, by no known engine.

`ends(node, starts)` is the set of positions where a match of the node that began at one of `starts` can end;
it is built bottom-up over the syntax tree, so there is no backtracking and nothing explodes. Assertions only
filter the set. A text is a sequence of code points, as under the `u` flag; `^` and `$` are its two ends.
"""

import functools
import itertools

from oracles.schema.pattern import (
    Chars,
    Choice,
    Edge,
    Look,
    Node,
    PatternError,
    Repeat,
    Sequence,
    Unsupported,
)
from oracles.schema.pattern_parser import parse_pattern

__all__ = ["PatternError", "Unsupported", "full_match", "is_pattern", "search"]


@functools.lru_cache(maxsize=4096)
def _tree(pattern: str) -> Node:
    return parse_pattern(pattern)


def search(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text.

    Raises: PatternError for what is no pattern, Unsupported for back-references and unknown properties.
    """
    return bool(_Matcher(text).ends(_tree(pattern), set(range(len(text) + 1))))


def full_match(pattern: str, text: str) -> bool:
    """Whether the pattern matches the text from its first to its last character."""
    return len(text) in _Matcher(text).ends(_tree(pattern), {0})


def is_pattern(pattern: str) -> bool:
    """Whether the text is a pattern by the letter of the standard, with the u flag (`format: regex`).

    Raises: Unsupported for properties that are not known here.
    """
    try:
        parse_pattern(pattern, strict=True)
    except PatternError:
        return False
    return True


class _Matcher:
    """All questions about one text."""

    def __init__(self, text: str):
        self.text = text
        self.runs: dict[Chars, list[int]] = {}

    def ends(self, node: Node, starts: set[int]) -> set[int]:
        if not starts:
            return starts
        if isinstance(node, Chars):
            runs = self._runs(node)
            return {start + 1 for start in starts if runs[start]}
        if isinstance(node, Sequence):
            for part in node.parts:
                starts = self.ends(part, starts)
            return starts
        if isinstance(node, Choice):
            return set().union(*[self.ends(option, starts) for option in node.options])
        if isinstance(node, Repeat):
            return self._run(node, starts) if isinstance(node.body, Chars) else self._repeat(node, starts)
        if isinstance(node, Edge):
            return {start for start in starts if self._edge(node.kind, start)}
        if isinstance(node, Look):
            return {start for start in starts if self._look(node, start) != node.negated}
        raise Unsupported("a back-reference")

    def _runs(self, chars: Chars) -> list[int]:
        """For every position, how many characters of the class stand there in a row."""
        found = self.runs.get(chars)
        if found is None:
            held = {character: chars.holds(character) for character in set(self.text)}
            found = [0] * (len(self.text) + 1)
            for index in range(len(self.text) - 1, -1, -1):
                if held[self.text[index]]:
                    found[index] = found[index + 1] + 1
            self.runs[chars] = found
        return found

    def _run(self, node: Repeat, starts: set[int]) -> set[int]:
        """Repeat a single character: the ends that one start reaches are an interval."""
        runs = self._runs(node.body)  # type: ignore[arg-type]
        steps = [0] * (len(self.text) + 2)
        for start in starts:
            longest = runs[start] if node.high is None else min(runs[start], node.high)
            if longest >= node.low:
                steps[start + node.low] += 1
                steps[start + longest + 1] -= 1
        return {at for at, depth in enumerate(itertools.accumulate(steps)) if depth}

    def _repeat(self, node: Repeat, starts: set[int]) -> set[int]:
        current, count = starts, 0
        while current and count < node.low:
            following = self.ends(node.body, current)
            count += 1
            if following == current:
                count = node.low  # a fixed point: more copies change nothing
            current = following
        found, fresh = set(current), current
        while fresh and (node.high is None or count < node.high):
            fresh = self.ends(node.body, fresh) - found
            found |= fresh
            count += 1
        return found

    def _edge(self, kind: str, at: int) -> bool:
        if kind == "start":
            return at == 0
        if kind == "end":
            return at == len(self.text)
        before = at > 0 and _is_word(self.text[at - 1])
        after = at < len(self.text) and _is_word(self.text[at])
        return (before != after) == (kind == "word")

    def _look(self, node: Look, at: int) -> bool:
        if not node.behind:
            return bool(self.ends(node.body, {at}))
        return at in self.ends(node.body, set(range(at + 1)))


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
