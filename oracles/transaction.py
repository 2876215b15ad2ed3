"""A plain model of one matcher: committed tokens, one open preview at most, look-ahead that leaves no trace.

There is no state besides the two token lists; every answer parses everything again from the first token, so
a rollback cannot be wrong. Rules (contract 6; TXN-3, TXN-4, TXN-6, MASK-8): a preview takes only legal tokens
and nothing after a completion id; masks cannot be asked for while a preview is open; a look-ahead stops at an
empty legal set, at an illegal draft and after a completion id.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from oracles import masks
from oracles.grammar_prefix import Earley

RowKind = Literal["ready", "dead_end", "dead_end_by_bans", "unreachable"]


class OutOfOrderError(Exception):
    """A preview and a look-ahead overlap, or there is no preview to end."""


class RefusedError(Exception):
    """A previewed token is not legal where it stands; nothing is pending afterwards."""


@dataclass(frozen=True)
class Row:
    """One position of a look-ahead window; `legal` is empty unless the position is ready."""

    kind: RowKind
    legal: frozenset[int] = frozenset()


class MatcherModel:
    """The model of one matcher over one parser and one vocabulary."""

    def __init__(self, parser: Earley, token_bytes: masks.TokenBytes, eos_ids: Iterable[int]) -> None:
        self.parser = parser
        self.token_bytes = token_bytes
        self.eos_ids = frozenset(eos_ids)
        self.committed: tuple[int, ...] = ()
        self.pending: tuple[int, ...] | None = None

    def fork(self) -> "MatcherModel":
        """Return an independent model at the same committed tokens; only without an open preview."""
        self._need(self.pending is None)
        twin = MatcherModel(self.parser, self.token_bytes, self.eos_ids)
        twin.committed = self.committed
        return twin

    @property
    def terminated(self) -> bool:
        """Whether a completion id stands at the end of everything taken, the open preview included."""
        taken = self.committed + (self.pending or ())
        return bool(taken) and taken[-1] in self.eos_ids

    @property
    def may_end(self) -> bool:
        """Whether the text taken so far, the open preview included, is a whole string of the language."""
        return self._may_end(self.committed + (self.pending or ()))

    def legal(self) -> frozenset[int]:
        """Return the ids legal after the committed tokens; none once terminated."""
        self._need(self.pending is None)
        return self._legal(self.committed)

    def look_ahead(self, drafts: Sequence[int], banned: Set[int] = frozenset()) -> list[Row]:
        """Return one row for each prefix of `drafts`, the empty one and the whole one included.

        Banned ids stay in the rows' sets; a set they empty is a dead end, a banned draft ends the walk.
        """
        self._need(self.pending is None)
        rows: list[Row] = []
        for index in range(len(drafts) + 1):
            prefix = self.committed + tuple(drafts[:index])
            legal = self._legal(prefix)
            if self._ended(prefix):
                break
            if not legal - banned:
                rows.append(Row("dead_end_by_bans" if legal else "dead_end"))
                break
            rows.append(Row("ready", legal))
            if index == len(drafts) or drafts[index] not in legal - banned:
                break
        return rows + [Row("unreachable")] * (len(drafts) + 1 - len(rows))

    def preview(self, tokens: Sequence[int]) -> None:
        """Take `tokens` for the time being; raises RefusedError and takes none if one is illegal."""
        self._need(self.pending is None)
        taken = self.committed
        for token_id in tokens:
            if token_id not in self._legal(taken):
                raise RefusedError(f"token {token_id} after {taken}")
            taken += (token_id,)
        self.pending = tuple(tokens)

    def confirm(self) -> None:
        """Make the open preview real."""
        self._need(self.pending is not None)
        self.committed, self.pending = self.committed + (self.pending or ()), None

    def discard(self) -> None:
        """Forget the open preview."""
        self._need(self.pending is not None)
        self.pending = None

    def _need(self, condition: bool) -> None:
        if not condition:
            raise OutOfOrderError

    def _ended(self, tokens: tuple[int, ...]) -> bool:
        return any(token_id in self.eos_ids for token_id in tokens)

    def _may_end(self, tokens: tuple[int, ...]) -> bool:
        text = [token_id for token_id in tokens if token_id not in self.eos_ids]
        return self.parser.accepting(masks.state_after(self.parser, text, self.token_bytes))

    def _legal(self, tokens: tuple[int, ...]) -> frozenset[int]:
        if self._ended(tokens):
            return frozenset()
        return frozenset(masks.legal_ids(self.parser, tokens, self.token_bytes, self.eos_ids))
