"""Object clauses to rules: slots in order, each at most once, then free members (JSON-27, JSON-28).

Without counts the members after the first are a chain of optional parts. With bounds on their number, or with
conditions that some member must meet, a state is the next slot, the number of members so far, as far as it
matters, and the conditions met. A name and its colon are two terminals: where a name must not be one of those
declared, the library's masks are fast only if nothing follows in the same terminal (0.1 ms against 7 ms).
"""

import functools
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from engine.errors import Location, RefusedConstruct
from engine.text.expr import EPSILON, NOTHING, Bytes, Expr, Lexeme, Ref, alt, repeat, seq
from engine.text.limits import check_limit
from engine.text.schema.nodes import UNSUPPORTED
from engine.text.schema.reduce.branches import Node
from engine.text.schema.reduce.clauses import Group, ObjectClause, Slot, Witness
from engine.text.schema.source import quoted
from engine.text.schema.strings import QUOTE, StringSet, literal_language, string_lexeme

if TYPE_CHECKING:
    from engine.text.schema.lower.json import Lowerer


BLOCK = 16  # slots whose rules form one chain


def lowered(clause: ObjectClause, lowerer: "Lowerer") -> Expr:
    """The objects of a clause. Raises RequestError."""
    minimum, maximum = _bounds(clause)
    if clause.groups:
        lowerer.has_free_names = True
    if minimum == 0 and maximum is None and not clause.witnesses:
        inside = _plain(clause, lowerer)
    else:
        inside = _Counting(clause, minimum, maximum, lowerer).start()
    layout = lowerer.layout
    full = seq([layout.opening("{"), inside, layout.closing("}")])
    needs_member = clause.min_members or clause.witnesses or any(slot.required for slot in clause.slots)
    return full if needs_member else alt([layout.empty("{}"), full])


def _bounds(clause: ObjectClause) -> tuple[int, int | None]:
    """The bounds on the number of members, without those that the slots keep by themselves."""
    required = sum(slot.required for slot in clause.slots)
    minimum = clause.min_members if clause.min_members > required else 0
    maximum = clause.max_members
    if maximum is not None and not clause.groups and maximum >= len(clause.slots):
        maximum = None
    return minimum, maximum


def _plain(clause: ObjectClause, lowerer: "Lowerer") -> Expr:
    """One member or more."""
    free = alt([_free_member(group, lowerer) for group in clause.groups])
    after: Expr = repeat(seq([lowerer.comma, free]), 0, None) if clause.groups else EPSILON
    firsts: list[Expr] = [seq([free, after])] if clause.groups else []
    blocks = _Blocks(lowerer, after)
    for start in reversed(range(0, len(clause.slots), BLOCK)):
        rest: Expr = EPSILON  # the further members of this block
        for slot in reversed(clause.slots[start : start + BLOCK]):
            member = _member(slot, lowerer)
            first = seq([member, rest, blocks.after])
            firsts = [first] if slot.required else [first, *firsts]
            more = seq([lowerer.comma, member, rest])
            rest = more if slot.required else lowerer.rule(alt([more, rest]))
        blocks.add(rest)
    return alt(firsts)


class _Blocks:
    """What may follow a block of slots: all later blocks, gathered in a tree to keep chains of rules short.

    A core walks chains of rules on its stack, and masks cost more the longer they are.
    """

    def __init__(self, lowerer: "Lowerer", last: Expr) -> None:
        self._lowerer = lowerer
        self._last = last
        self._trees: list[tuple[int, Expr]] = []  # of sizes 2**k, small ones at the end

    @property
    def after(self) -> Expr:
        """All blocks added so far, in the order of the text, and what follows them."""
        return seq([*(tree for _, tree in reversed(self._trees)), self._last])

    def add(self, block: Expr) -> None:
        """Put a block before those that are there."""
        size, tree = 1, block
        while self._trees and self._trees[-1][0] == size:
            size, tree = 2 * size, self._lowerer.rule(seq([tree, self._trees.pop()[1]]))
        self._trees.append((size, tree))


def _member(slot: Slot, lowerer: "Lowerer", extra: Node = ()) -> Expr:
    key = Lexeme(Bytes(quoted(slot.name).encode()))
    node = lowerer.reducer.node([*slot.node, *extra]) if extra else slot.node
    return seq([key, lowerer.colon, lowerer.value(node)])


def _free_member(group: Group, lowerer: "Lowerer", extra: Node = ()) -> Expr:
    key = kept_name(group.names)
    if group.taken:
        never = seq([QUOTE, literal_language([quoted(name)[1:-1] for name in group.taken]), QUOTE])
        key = Lexeme(key.body, key.also, (alt([*key.never, never]),))  # two would cost 3 ms a mask
    node = lowerer.reducer.node([*group.node, *extra]) if extra else group.node
    return seq([key, lowerer.colon, lowerer.value(node)])


@functools.lru_cache(maxsize=1024)
def kept_name(names: StringSet) -> Lexeme:
    """The terminal of a set of member names: in canonical escapes, so that a name has one spelling."""
    return string_lexeme(names, canonical=True)


State = tuple[int, int, frozenset[int]]  # next slot, members so far, conditions met


class _Counting:
    def __init__(self, clause: ObjectClause, minimum: int, maximum: int | None, lowerer: "Lowerer") -> None:
        self._clause = clause
        self._minimum = minimum
        self._maximum = maximum
        self._lowerer = lowerer
        self._cap = minimum if maximum is None else max(minimum, maximum)
        self._cap = max(self._cap, 1)
        self._names: dict[State, str] = {}
        self._place = Location(pointer=clause.pointer)

    def start(self) -> Expr:
        """One member or more."""
        check_limit("object_conditions", len(self._clause.witnesses), UNSUPPORTED, self._place)
        waiting: list[State] = [(0, 0, frozenset())]
        num_steps = 0
        while waiting:
            state = waiting.pop()
            if state not in self._names:
                self._names[state] = f"o{len(self._lowerer.rules)}-{len(self._names)}"
                self._lowerer.rules[self._names[state]] = NOTHING
                check_limit("object_states", len(self._names), UNSUPPORTED, self._place)
                following = [after for after, _ in self._steps(state)]
                num_steps += len(following)
                check_limit("object_steps", num_steps, UNSUPPORTED, self._place)
                waiting += following
        for state, name in self._names.items():
            options = [seq([part, Ref(self._names[after])]) for after, part in self._steps(state)]
            self._lowerer.rules[name] = alt([*options, *self._ends(state)])
        return Ref(self._names[(0, 0, frozenset())])

    def _ends(self, state: State) -> Iterator[Expr]:
        """How the object may end here: at once, or after free members that nothing else depends on."""
        index, count, met = state
        if index < len(self._clause.slots):
            return
        if self._counts_free_members():
            if count:
                yield EPSILON if self._is_enough(count, met) else NOTHING
            return
        if len(met) < len(self._clause.witnesses):
            return
        least = max(0, self._minimum - count)
        most = None if self._maximum is None else self._maximum - count
        if most is not None and most < least:
            return
        free = alt([_free_member(group, self._lowerer) for group in self._clause.groups])
        yield from self._free_run(free, least, most, count)

    def _free_run(self, free: Expr, least: int, most: int | None, count: int) -> Iterator[Expr]:
        comma = self._lowerer.comma
        if count:
            yield repeat(seq([comma, free]), least, most) if free != NOTHING else self._only(least == 0)
        elif free != NOTHING and most != 0:
            more = None if most is None else most - 1
            yield seq([free, repeat(seq([comma, free]), max(0, least - 1), more)])

    def _only(self, allowed: bool) -> Expr:
        return EPSILON if allowed else NOTHING

    def _counts_free_members(self) -> bool:
        """Whether free members can meet conditions, so that each of them is a step of its own."""
        return bool(self._clause.witnesses and self._clause.groups)

    def _is_enough(self, count: int, met: frozenset[int]) -> bool:
        return count >= self._minimum and len(met) == len(self._clause.witnesses)

    def _steps(self, state: State) -> Iterator[tuple[State, Expr]]:
        index, count, met = state
        comma = self._lowerer.comma if count else EPSILON
        is_full = self._maximum is not None and count >= self._maximum
        after = min(count + 1, self._cap)
        if index == len(self._clause.slots):
            if self._counts_free_members() and not is_full:
                for taken, part in self._free_members(met):
                    yield (index, after, met | taken), seq([comma, part])
            return
        slot = self._clause.slots[index]
        if not slot.required:
            yield (index + 1, count, met), EPSILON
        if is_full:
            return
        able = [i for i, w in enumerate(self._clause.witnesses) if i not in met and _applies(w, slot.name)]
        for taken in _subsets(able):
            extra = tuple(lit for i in taken for lit in self._clause.witnesses[i].node)
            part = seq([comma, _member(slot, self._lowerer, extra)])
            yield (index + 1, after, met | taken), part

    def _free_members(self, met: frozenset[int]) -> Iterator[tuple[frozenset[int], Expr]]:
        open_ones = [i for i in range(len(self._clause.witnesses)) if i not in met]
        for taken in _subsets(open_ones):
            extra = tuple(lit for i in taken for lit in self._clause.witnesses[i].node)
            for group in self._clause.groups:
                for names in self._narrowed(group.names, taken):
                    narrowed = Group(names, group.taken, group.node)
                    yield taken, _free_member(narrowed, self._lowerer, extra)

    def _narrowed(self, names: StringSet, taken: frozenset[int]) -> list[StringSet]:
        """The names of a group that can meet all the conditions taken."""
        found = [names]
        for i in sorted(taken):
            found = [one.intersect(other) for one in found for other in self._clause.witnesses[i].names]
        return [one for one in found if one == names or self._is_usable(one)]

    def _is_usable(self, names: StringSet) -> bool:
        if names.is_empty():
            return False
        if names.every_prefix_stays_open():
            return True
        raise RefusedConstruct(
            UNSUPPORTED,
            "a member is needed whose possible names can be used up",
            self._place,
            allowed="names that can always go on",
        )


def _subsets(items: list[int]) -> Iterator[frozenset[int]]:
    for size in range(len(items) + 1):
        yield from map(frozenset, combinations(items, size))


def _applies(witness: Witness, name: str) -> bool:
    return any(names.contains(name) for names in witness.names)
