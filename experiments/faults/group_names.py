"""Group E, member names: faults of the companion and of the tracker that keeps names unique (JSON-28, TXN-9)."""

from experiments.faults.planting import Fault, fault, replace

MATCHER = "engine/text/matcher.py"
TRACKER = "engine/text/schema/unique_names.py"
INDEX = "engine/text/schema/names_index.py"
BESIDE = ("property_tests/test_companion.py",)
NAMES = ("property_tests/test_unique_names.py",)


def _beside(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(MATCHER, old, new), checks=BESIDE, clauses=clauses)


def _tracker(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(TRACKER, old, new), checks=NAMES, clauses=clauses or ("JSON-28",))


def _index(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(INDEX, old, new), checks=NAMES, clauses=clauses or ("JSON-28",))


FAULTS: tuple[Fault, ...] = (
    _beside(
        "E900",
        "the companion does not narrow the rows",
        "            self._companion.clear(words)\n",
        "            pass\n",
        "TXN-9",
        "JSON-28",
    ),
    _beside(
        "E1007",
        "a token that the companion refuses counts as taken",
        "            self._core.rollback(1)\n            return False\n",
        "            self._core.rollback(1)\n            self._num_provisional += 1\n            return False\n",
        "TXN-9",
        "TXN-3",
    ),
    _beside(
        "E901",
        "a token that the companion refuses stays in the core",
        "            self._core.rollback(1)\n            return False\n",
        "            return False\n",
        "TXN-9",
        "TXN-3",
    ),
    _beside(
        "E902",
        "a token that the companion refuses is taken",
        "            self._core.rollback(1)\n            return False\n",
        "            pass\n",
        "TXN-9",
        "TXN-4",
    ),
    _beside(
        "E903",
        "the companion keeps what the core takes back",
        "                self._companion.rollback(taken)\n",
        "                pass\n",
        "TXN-9",
        "TXN-3",
    ),
    _beside(
        "E904",
        "confirm does not reach the companion",
        "            self._companion.confirm()\n",
        "            pass\n",
        "TXN-9",
        "TXN-4",
    ),
    _beside(
        "E905",
        "a fork shares the companion",
        "else self._companion.fork()",
        "else self._companion",
        "TXN-9",
    ),
    _beside(
        "E906",
        "a fork loses the companion",
        "Matcher(self._core.fork(), self.vocab_size, companion)",
        "Matcher(self._core.fork(), self.vocab_size)",
        "TXN-9",
    ),
    _tracker(
        "E907",
        "a nested object knows the names around it",
        "return BEFORE_NAME, _Level(_Names(self._index), 0, level, level.holders)",
        "return BEFORE_NAME, _Level(level.names or _Names(self._index), level.count, level, level.holders)",
    ),
    _tracker(
        "E908",
        "a closed object's names count on in the one around it",
        "        return OUTSIDE, level.parent or level\n",
        "        return OUTSIDE, level if level.names else level.parent or level\n",
    ),
    _tracker(
        "E909",
        "a string after a colon counts as a name",
        "        if byte == COLON:\n            return OUTSIDE, level\n",
        "        if byte == COLON:\n            return (OUTSIDE if level.names is None else BEFORE_NAME), level\n",
    ),
    _tracker(
        "E910",
        "a string in an array counts as a name",
        "return (OUTSIDE if level.names is None else BEFORE_NAME), level",
        "return (OUTSIDE if level.parent is None else BEFORE_NAME), level.parent or level",
    ),
    _tracker(
        "E911",
        "an escaped quote ends a name",
        "            elif byte == BACKSLASH:\n",
        "            elif byte == BACKSLASH and mode != IN_NAME:\n",
    ),
    _tracker(
        "E912",
        "the byte behind a backslash may open another escape",
        "            elif mode in (IN_NAME_ESCAPE, IN_VALUE_ESCAPE):\n",
        "            elif mode in (IN_NAME_ESCAPE, IN_VALUE_ESCAPE) and byte != BACKSLASH:\n",
    ),
    _tracker(
        "E913",
        "a name cut over tokens keeps only its last piece",
        "self._now = (mode, level, partial + data)",
        "self._now = (mode, level, data)",
    ),
    _tracker(
        "E914",
        "tokens that hold a used name whole are not closed",
        "        if level.holders or self._index.doubles:\n",
        "        if self._index.doubles and not level.holders:\n",
    ),
    _tracker(
        "E915",
        "a token that repeats a name by itself is not closed",
        "candidates = {*level.holders, *self._index.doubles}",
        "candidates = {*level.holders}",
    ),
    _tracker(
        "E916",
        "a token that ends a name and repeats it is not closed",
        "        for token_id in self._index.echoes:\n",
        "        for token_id in ():\n",
    ),
    _tracker(
        "E917",
        "what a level closes is kept for another mode",
        "        if level.holders or self._index.doubles:\n",
        "        mode = max(mode, 1)\n        if level.holders or self._index.doubles:\n",
    ),
    _tracker(
        "E918",
        "what is closed behind a partial name depends on the first one that was asked for",
        'partial = NO_NAME if mode >= IN_NAME else b""',
        "partial = getattr(self, '_now')[2]",
    ),
    _tracker(
        "E919",
        "names taken back stay used",
        "return place is not None and place < count",
        "return place is not None",
        "TXN-3",
        "TXN-9",
    ),
    _tracker(
        "E920",
        "names taken back stay in the table under the next one",
        "        while len(self._order) > count:\n            self._drop()\n",
        "        del self._order[count:]\n",
        "TXN-3",
        "TXN-9",
    ),
    _tracker(
        "E921",
        "names taken back still close tokens",
        "            if place < count:\n                return closed\n",
        "            return closed\n",
        "TXN-3",
        "TXN-9",
    ),
    _tracker(
        "E922",
        "only the last name of those that end alike closes tokens",
        "entries.append((count, entries[-1][1] | closed if entries else closed))",
        "entries.append((count, closed))",
    ),
    _tracker(
        "E923",
        "a fork shares the tables of names",
        "None if level.names is None else level.names.copy(level.count)",
        "level.names",
        "TXN-9",
    ),
    _tracker(
        "E924",
        "a rollback goes one token too far",
        "            self._now = self._past[-num_tokens]\n",
        "            self._now = self._past[-min(num_tokens + 1, len(self._past))]\n",
        "TXN-3",
        "TXN-9",
    ),
    _tracker(
        "E925",
        "a token without bytes is no step",
        "        elif data is not None:\n            after",
        "        elif data is None:\n            return True\n        else:\n            after",
        "TXN-9",
        "VOC-6",
    ),
    _index(
        "E926",
        "tokens that run on behind the quote are not closed",
        "                closers[data[:at]].append(token_id)\n",
        "                if at == len(data) - 1:\n                    closers[data[:at]].append(token_id)\n",
        "JSON-28",
        "VOC-3",
    ),
    _index(
        "E927",
        "a token closes a name only with its first quote",
        "            for at in quotes:\n                closers",
        "            for at in quotes[:1]:\n                closers",
    ),
    _index(
        "E928",
        "a whole name in a token must stand at its end",
        '            if behind[:1] in (b"", b":"):\n',
        '            if behind == b"":\n',
        "JSON-28",
        "VOC-3",
    ),
    _index(
        "E929",
        "the last id of a set stays open",
        "        array = np.unique(np.fromiter(ids, dtype=np.int64))\n",
        "        array = np.unique(np.fromiter(ids, dtype=np.int64))\n        array = array[: max(1, len(array) - 1)]\n",
        "JSON-28",
        "MASK-1",
    ),
)
