"""Group C: faults of the masks along a draft chain (contract 6)."""

from experiments.faults.planting import Fault, fault, replace

MASKS = "engine/text/masks.py"
BASE = "engine/text/cores/base.py"
MATCHER = "engine/text/matcher.py"
XGRAMMAR = "engine/text/cores/xgrammar_core.py"
LLGUIDANCE = "engine/text/cores/llguidance_core.py"
WINDOWS = ("property_tests/test_masks.py::test_windows_against_fresh_matchers", "gate:legal sets")
WINDOW = "engine/text/window.py"
EDGES = ("property_tests/test_matcher.py",)
CORES = ("gate:legal sets", "property_tests/test_language.py")

DONE = "    if len(states) == num_rows and states[-1] is READY:\n"


def _walk(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(MASKS, old, new), checks=WINDOWS, clauses=clauses)


def _edge(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(MASKS, old, new), checks=EDGES, clauses=clauses)


def _view(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    checks = ("property_tests/test_window.py",)
    return fault(name, title, replace(WINDOW, old, new), checks=checks, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _walk(
        "C61",
        "every row holds the mask of the row before it",
        DONE,
        "    rows[1 : len(states)] = rows[: len(states) - 1].copy()\n" + DONE,
        "MASK-8",
        "SPECG-5",
    ),
    _walk(
        "C62",
        "all rows hold the mask of the committed state",
        DONE,
        "    rows[1 : len(states)] = rows[0]\n" + DONE,
        "MASK-8",
        "SPECG-5",
        "MASK-4",
    ),
    _walk(
        "C63",
        "the bonus row is left open",
        DONE,
        "    if drafts and len(states) == len(drafts) + 1:\n        rows[len(drafts)] = -1\n" + DONE,
        "MASK-8",
        "MASK-1",
    ),
    _walk(
        "C64",
        "rows behind the window are left open",
        "    rows[:] = 0\n    rows[:, 0] = 1\n",
        "    rows[:] = -1\n",
        "MASK-11",
    ),
    _walk(
        "C65",
        "the walk goes on behind an illegal draft from the stale state",
        "        if index == len(drafts) or not is_legal(legal, drafts[index], matcher.vocab_size):\n"
        "            break\n",
        "        if index == len(drafts):\n            break\n"
        "        if not is_legal(legal, drafts[index], matcher.vocab_size):\n            continue\n",
        "MASK-8",
        "MASK-9",
        "WIN-16",
        "SPECG-1",
    ),
    _walk(
        "C66",
        "the walk goes on behind an accepted completion id",
        "        if matcher.terminated:\n            break\n",
        "",
        "MASK-12",
        "WIN-16",
    ),
    fault(
        "C67",
        "a terminated matcher opens everything",
        replace(
            MATCHER,
            "            words[:] = 0\n            return\n",
            "            words[:] = -1\n            return\n",
        ),
        checks=EDGES,
        clauses=("MASK-12", "DONE-3"),
    ),
    fault(
        "C69",
        "a mask is added to what its buffer held before",
        replace(XGRAMMAR, "        wide = words if", "        old = words.copy()\n        wide = words if"),
        replace(
            XGRAMMAR,
            "        words[-1] = words.item(-1) & self._last_word_bits\n",
            "        words[-1] = words.item(-1) & self._last_word_bits\n        words |= old\n",
        ),
        checks=WINDOWS,
        clauses=("MASK-6", "MASK-1"),
    ),
    _walk(
        "C200",
        "a banned draft does not end the walk",
        "not is_legal(legal, drafts[index]",
        "not is_legal(words, drafts[index]",
        "SERV-25",
        "EMPTY-4",
    ),
    _walk(
        "C201",
        "a dead end keeps its empty row",
        "write_filler(rows[len(states) - (states[-1] is not READY) :])",
        "write_filler(rows[len(states) :])",
        "MASK-11",
        "MASK-10",
    ),
    _walk("C202", "filler rows are all zero", "    rows[:, 0] = 1\n", "", "MASK-11"),
    _edge(
        "C203",
        "a negative id wraps around into the mask",
        "return 0 <= token_id < vocab_size and",
        "return token_id < vocab_size and",
        "MASK-3",
    ),
    _edge(
        "C204",
        "the first id past the vocabulary is looked up",
        "return 0 <= token_id < vocab_size and",
        "return 0 <= token_id <= vocab_size and",
        "MASK-3",
        "VOC-1",
    ),
    _walk(
        "C205",
        "the walk stops before the bonus row",
        "if index == len(drafts) or not",
        "if index >= len(drafts) - 1 or not",
        "MASK-8",
        "MASK-2",
    ),
    _walk(
        "C206",
        "an empty set emptied by bans is an ordinary dead end",
        "emptied = unbanned is not None and not is_empty(words)",
        "emptied = False",
        "EMPTY-4",
    ),
    _walk(
        "C207",
        "an illegal draft's own position is a dead end",
        "        if index == len(drafts) or not is_legal",
        "        if index < len(drafts) and not is_legal(legal, drafts[index], matcher.vocab_size):\n"
        "            states[-1] = PositionState.DEAD_END\n"
        "        if index == len(drafts) or not is_legal",
        "MASK-9",
    ),
    _walk(
        "C208",
        "a draft is looked up in the wrong bit of its word",
        "words[token_id >> 5] >> (token_id & 31) & 1",
        "words[token_id >> 5] >> (31 - (token_id & 31)) & 1",
        "MASK-1",
    ),
    _edge(
        "C209",
        "a core that refuses what it opened is not noticed",
        "        if not matcher.accept(drafts[index]):\n"
        '            raise CoreFault(f"the core opened token {drafts[index]} and then refused it")\n',
        "        matcher.accept(drafts[index])\n",
        "FAIL-4",
        "SAFE-11",
    ),
    fault(
        "C210",
        "a full last word is cleared",
        replace(BASE, "(1 << (vocabulary.size % 32 or 32)) - 1", "(1 << (vocabulary.size % 32)) - 1"),
        checks=EDGES,
        clauses=("MASK-1",),
    ),
    _edge(
        "C211",
        "a walk that fails is not undone",
        "    try:\n        states = _walk(matcher, drafts, rows, unbanned)\n    finally:\n        matcher.end_look_ahead()\n",
        "    states = _walk(matcher, drafts, rows, unbanned)\n    matcher.end_look_ahead()\n",
        "TXN-3",
        "WIN-17",
    ),
    fault(
        "C212",
        "the walk is not undone",
        replace(
            MATCHER,
            'there is no look-ahead to end")\n        self._undo()\n',
            'there is no look-ahead to end")\n        self.confirm()\n',
        ),
        checks=WINDOWS,
        clauses=("TXN-3", "WIN-17", "MASK-8"),
    ),
    fault(
        "C213",
        "ungenerable ids can be taken",
        replace(
            XGRAMMAR,
            "        if token_id in self._domain.ungenerable_ids:\n            return False\n",
            "        if token_id in self._domain.ungenerable_ids:\n            return True\n",
        ),
        checks=CORES,
        clauses=("VOC-4",),
    ),
    fault(
        "C214",
        "llguidance's mask keeps bits past the vocabulary",
        replace(
            LLGUIDANCE,
            "        if inner.is_error():\n",
            "        words[-1] |= ~self._domain.last_word_bits\n        if inner.is_error():\n",
        ),
        checks=CORES,
        clauses=("MASK-1", "VOC-1"),
    ),
    fault(
        "C215",
        "xgrammar's mask keeps bits past the vocabulary",
        replace(XGRAMMAR, "words.item(-1) & self._last_word_bits", "words.item(-1) | ~self._last_word_bits"),
        checks=CORES,
        clauses=("MASK-1", "VOC-1"),
    ),
    fault(
        "C216",
        "a vocabulary that lacks a byte counts as one that is never stuck",
        replace(
            BASE,
            "            UTF8_BYTES.issubset(vocabulary.token_bytes[i] for i in vocabulary.ids_of(TokenClass.TEXT)),\n",
            "            True,\n",
        ),
        checks=("gate:legal sets", "gate:transactions"),
        clauses=("MASK-10", "EMPTY-1"),
    ),
    _walk(
        "C217",
        "a set whose first bytes are closed counts as empty",
        "    flags = words.view(np.bool_)\n",
        "    flags = words.view(np.bool_)[:4]\n",
        "MASK-10",
    ),
    _view(
        "C220",
        "a boundary at the window's end leaves the bonus row in its phase",
        "reached == start <= num_tokens and",
        "reached == start < num_tokens and",
        "WIN-2",
        "WIN-3",
    ),
    _view(
        "C221",
        "a boundary at the window's end is not remembered",
        "if start <= len(token_ids):",
        "if start < len(token_ids):",
        "WIN-3",
        "WIN-20",
    ),
    _view(
        "C222",
        "an ending without a boundary ends the phase",
        "if start <= len(token_ids):",
        "if start <= len(token_ids) + 1:",
        "WIN-3",
        "WIN-19",
    ),
    _view(
        "C223",
        "content rules bind one token late",
        "bound = token_ids[start:]",
        "bound = token_ids[start + 1 :]",
        "WIN-3",
        "WIN-20",
    ),
    _view(
        "C224",
        "validation goes on behind a completion id",
        "if self.matcher.terminated or not self.matcher.accept(token_id):",
        "if not self.matcher.terminated and not self.matcher.accept(token_id):",
        "WIN-11",
    ),
    _view(
        "C225",
        "validation ignores the phase before content",
        "            if not self.phase.allows(token_id):\n                return index\n        with",
        "            pass\n        with",
        "WIN-11",
    ),
    _view(
        "C226",
        "a row of the phase before content is not filled",
        "            self.phase.fill(rows[index])\n",
        "",
        "WIN-14",
    ),
    _view(
        "C228",
        "rows of content start from the window's first token",
        "fill_window(self.matcher, token_ids[start:], out[start:])",
        "fill_window(self.matcher, token_ids[: num_tokens - start], out[start:])",
        "WIN-13",
    ),
    _view(
        "C229",
        "a refused window keeps what it took",
        "        except CoreFault:\n            return False\n        self.matcher.confirm()\n",
        "        except CoreFault:\n            self.phase.begin_content()\n            return False\n        self.matcher.confirm()\n",
        "WIN-21",
    ),
)
