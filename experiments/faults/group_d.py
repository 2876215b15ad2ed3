"""Group D: faults of the matcher's transaction and of the commit (contract 2; TXN, LIFE)."""

from experiments.faults.planting import Fault, fault, replace

MATCHER = "engine/text/matcher.py"
XGRAMMAR = "engine/text/cores/xgrammar_core.py"
LLGUIDANCE = "engine/text/cores/llguidance_core.py"
VOCABULARY = "engine/text/vocabulary.py"
SESSION = "engine/runtime/session.py"
COMMIT = "engine/runtime/commit.py"
OUTCOME = "engine/runtime/outcome.py"
LANES = "engine/runtime/lanes.py"
ENGINE = "engine/runtime/engine.py"
MOVES = ("property_tests/test_transaction.py", "gate:transactions")
LANGUAGE = ("gate:legal sets", "property_tests/test_language.py")
SESSIONS = ("property_tests/test_session.py",)
COMMITS = ("property_tests/test_commit.py",)
RUNS = ("property_tests/test_paths.py::test_exact_checks",)

ENDED = "        self.terminated = self.terminated and not ended\n"
XGRAMMAR_TAIL = "        words[-1] = words.item(-1) & self._last_word_bits\n"


def _move(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(MATCHER, old, new), checks=MOVES, clauses=clauses)


def _session(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(SESSION, old, new), checks=SESSIONS, clauses=clauses)


def _commit(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(COMMIT, old, new), checks=COMMITS, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _move(
        "D71",
        "one token too few is rolled back",
        "self._core.rollback(taken)",
        "self._core.rollback(taken - 1)",
        "TXN-3",
        "TXN-4",
    ),
    fault(
        "D200",
        "one token too many is rolled back",
        replace(
            MATCHER, "self._core.rollback(taken)", "self._core.rollback(taken + (self.num_committed > 0))"
        ),
        checks=MOVES,
        clauses=("TXN-3", "TXN-4"),
    ),
    fault(
        "D72",
        "a completion id is not counted in xgrammar's history",
        replace(XGRAMMAR, "self._inner.rollback(num_tokens - ended)", "self._inner.rollback(num_tokens)"),
        checks=MOVES,
        clauses=("TXN-3", "WIN-17"),
    ),
    fault(
        "D201",
        "a completion id is not counted in llguidance's history",
        replace(LLGUIDANCE, "self._inner.rollback(num_tokens - ended)", "self._inner.rollback(num_tokens)"),
        checks=MOVES,
        clauses=("TXN-3",),
    ),
    fault(
        "D73",
        "rolling back keeps xgrammar's end",
        replace(XGRAMMAR, ENDED, ""),
        checks=MOVES,
        clauses=("TXN-3", "WIN-17"),
    ),
    fault(
        "D202",
        "rolling back keeps llguidance's end",
        replace(LLGUIDANCE, ENDED, ""),
        checks=MOVES,
        clauses=("TXN-3",),
    ),
    fault(
        "D75",
        "a fork shares xgrammar's state",
        replace(XGRAMMAR, "self._inner.fork()", "self._inner"),
        checks=MOVES,
        clauses=("SERV-9",),
    ),
    fault(
        "D203",
        "llguidance's matchers share one state",
        replace(LLGUIDANCE, "self._pristine.deep_copy()", "self._pristine"),
        checks=MOVES,
        clauses=("SERV-9",),
    ),
    _move(
        "D76",
        "a refused token of a preview is ignored",
        "                if not self._take(token_id):\n"
        '                    raise CoreFault(f"token {token_id} at index {index} of a preview is not legal")\n',
        "                self._take(token_id)\n",
        "TXN-4",
        "FAIL-4",
    ),
    fault(
        "D77",
        "the whole draft is committed instead of what was accepted",
        replace(
            OUTCOME,
            "tokens=tuple(token_ids[:num_emitted])",
            "tokens=(*drafts[row], token_ids[num_emitted - 1]) if num_emitted else ()",
        ),
        checks=RUNS,
        clauses=("SPEC-6", "SPECG-2"),
    ),
    fault(
        "D80",
        "a replayed request starts with a fresh matcher",
        replace(
            ENGINE,
            "            handle.lane = None\n            self._resident.remove(handle)\n            self._waiting",
            "            handle.lane = None\n"
            '            if mode == "replay" and handle.options.constraint is not None:\n'
            "                handle.session._matcher = self._compiler.compile(handle.options.constraint)[0].new_matcher()\n"
            "            self._resident.remove(handle)\n            self._waiting",
        ),
        checks=RUNS,
        clauses=("LIFE-3",),
    ),
    fault(
        "D81",
        "drafts of an older history are verified",
        replace(LANES, "        lane.drafts = drafts\n", "        lane.drafts = lane.drafts or drafts\n"),
        checks=RUNS,
        clauses=("SPEC-12",),
    ),
    _session(
        "D84",
        "a round may pass max_tokens",
        "licensed = token_ids[: self.remaining]",
        "licensed = token_ids",
        "DONE-4",
        "TXN-10",
    ),
    _session(
        "D85",
        "a completion id does not end the output",
        "if token_id in self._eos_ids:",
        "if token_id in self._eos_ids and index < 0:",
        "DONE-1",
    ),
    fault(
        "D86",
        "xgrammar's rows always offer the end",
        replace(
            XGRAMMAR,
            XGRAMMAR_TAIL,
            XGRAMMAR_TAIL
            + "        for i in self._domain.eos_ids:\n"
            + "            words[i // 32] |= np.array(1 << (i % 32)).astype(np.uint32).view(np.int32)\n",
        ),
        checks=LANGUAGE,
        clauses=("SERV-19", "DONE-3"),
    ),
    fault(
        "D204",
        "llguidance's rows always offer the end",
        replace(
            LLGUIDANCE,
            "        if inner.is_error():\n",
            "        for i in self._domain.eos_ids:\n            words[i // 32] |= np.array(1 << (i % 32)).astype(np.uint32).view(np.int32)\n"
            "        if inner.is_error():\n",
        ),
        checks=LANGUAGE,
        clauses=("SERV-19", "DONE-3"),
    ),
    fault(
        "D87",
        "the end is closed where the output may also go on",
        replace(
            XGRAMMAR,
            XGRAMMAR_TAIL,
            XGRAMMAR_TAIL
            + "        bits = np.unpackbits(words.view(np.uint8), bitorder='little')\n"
            + "        if bits.sum() > len(self._domain.eos_ids):\n"
            + "            bits[list(self._domain.eos_ids)] = 0\n"
            + "            words[:] = np.packbits(bits, bitorder='little').view(np.int32)\n",
        ),
        checks=LANGUAGE,
        clauses=("SERV-19", "CHOICE-4", "DONE-3"),
    ),
    fault(
        "D88",
        "only the first completion id is known",
        replace(
            VOCABULARY,
            "        return self.ids_of(TokenClass.EOS)\n",
            "        return self.ids_of(TokenClass.EOS)[:1]\n",
        ),
        checks=LANGUAGE,
        clauses=("VOC-5", "SERV-19"),
    ),
    fault(
        "D90",
        "a control id is reached by its spelling",
        replace(
            VOCABULARY,
            "        return UNREACHABLE_PREFIX + self.token_bytes[token_id]\n",
            "        return self.token_bytes[token_id]\n",
        ),
        checks=LANGUAGE,
        clauses=("VOC-5", "VOC-6", "VOC-7", "TEST2-5"),
    ),
    fault(
        "D205",
        "image and invalid ids are text",
        replace(VOCABULARY, '            return b""\n', "            return self.token_bytes[token_id]\n"),
        checks=LANGUAGE,
        clauses=("VOC-4",),
    ),
    _move(
        "D206",
        "masks are handed out while a preview is open",
        "        if self._state is PREVIEW:\n"
        '            raise TransactionError("masks were asked for while an output preview is open")\n',
        "",
        "TXN-6",
    ),
    _move(
        "D207",
        "a preview may open inside a look-ahead",
        "        self._require_idle()\n        self._state = PREVIEW\n",
        "        self._state = PREVIEW\n",
        "TXN-6",
    ),
    _move(
        "D208",
        "a refused preview keeps the tokens before the refusal",
        "        except BaseException:\n            self._undo()\n            raise\n",
        "        except BaseException:\n            self._state = IDLE\n            raise\n",
        "TXN-4",
        "TXN-12",
    ),
    _move(
        "D209",
        "discard keeps the previewed tokens",
        '            raise TransactionError("there is no output preview to discard")\n        self._undo()\n',
        '            raise TransactionError("there is no output preview to discard")\n        self.confirm()\n',
        "TXN-4",
    ),
    _move(
        "D210",
        "confirm forgets to count",
        "        self.num_committed += self._num_provisional\n",
        "",
        "TXN-4",
    ),
    _move(
        "D211",
        "confirm leaves its tokens provisional",
        "        self._num_provisional = 0\n        self._state = IDLE\n",
        "        self._state = IDLE\n",
        "TXN-4",
        "TXN-7",
    ),
    _move(
        "D212",
        "a refused token counts as taken",
        "        if not self._core.accept(token_id):\n",
        "        if not self._core.accept(token_id):\n            self._num_provisional += 1\n",
        "TXN-3",
        "WIN-17",
    ),
    _session(
        "D213",
        "the completion id is published",
        "CommitDecision(index + 1, index, FinishReason.COMPLETED)",
        "CommitDecision(index + 1, index + 1, FinishReason.COMPLETED)",
        "DONE-1",
    ),
    _session(
        "D214",
        "tokens behind a completion id are committed",
        "CommitDecision(index + 1, index, FinishReason.COMPLETED)",
        "CommitDecision(len(licensed), index, FinishReason.COMPLETED)",
        "SPEC-10",
    ),
    _session(
        "D215",
        "the budget ends one token early",
        "if len(licensed) == self.remaining",
        "if len(licensed) >= self.remaining - 1",
        "DONE-4",
    ),
    _session(
        "D216",
        "a cancelled row commits its round",
        "decision = CANCELLED if self.cancelled else self._decide(token_ids)",
        "decision = self._decide(token_ids)",
        "TXN-10",
        "FAIL-9",
    ),
    _session(
        "D217",
        "discard leaves the matcher's preview open",
        "        if self._matcher is not None and self._open[1].num_committed:\n"
        "            self._matcher.discard()\n",
        "",
        "TXN-12",
        "TXN-4",
    ),
    _commit(
        "D218",
        "tokens are published before the program commits",
        "    decisions = _preview_all(program, pending, sessions)\n",
        "    decisions = _preview_all(program, pending, sessions)\n"
        "    for row, decision in enumerate(decisions):\n"
        "        publish(row, pending.rows[row].tokens[: decision.num_published], decision)\n"
        "    publish = lambda *arguments: None  # noqa: E731\n",
        "TXN-11",
        "TXN-13",
    ),
    _commit(
        "D219",
        "sessions confirm before the program commits",
        "    try:\n        program.commit(",
        "    for session in sessions:\n        session.confirm(upload_bytes)\n    try:\n        program.commit(",
        "TXN-11",
        "TXN-13",
        "TXN-1",
    ),
    _commit(
        "D220",
        "a failed commit leaves the previews open",
        "    except BaseException:\n        _discard(sessions)\n        raise\n",
        "    except BaseException:\n        raise\n",
        "TXN-13",
    ),
    _commit(
        "D221",
        "a refused preview leaves its neighbours' previews open",
        "            _discard(sessions)\n            program.abort(pending)\n",
        "            _discard(sessions[row:])\n            program.abort(pending)\n",
        "TXN-12",
    ),
    _commit(
        "D222",
        "a refused preview leaves the round pending",
        "            _discard(sessions)\n            program.abort(pending)\n",
        "            _discard(sessions)\n",
        "TXN-12",
    ),
    _commit(
        "D223",
        "lane and session commit different prefixes",
        "[decision.num_committed for decision in decisions]",
        "[decision.num_published for decision in decisions]",
        "TXN-1",
        "TXN-11",
    ),
    fault(
        "D224",
        "committed tokens are not counted for penalties",
        replace(LANES, "            _count(lane.counts, token_ids)\n", "            pass\n"),
        checks=RUNS,
        clauses=("SAMP-3", "TXN-11"),
    ),
    fault(
        "D225",
        "a dead end is sampled from its filler",
        replace(OUTCOME, "        if not any(dead):\n", "        if dead:\n"),
        checks=RUNS,
        clauses=("EMPTY-1", "FAIL-7", "MASK-11"),
    ),
    fault(
        "D226",
        "a dead end behind a refused draft fails its row",
        replace(
            OUTCOME,
            "        failure = FAILURES[RowStatus(status)]\n",
            "        failure = FAILURES[RowStatus(status)]\n"
            "        if PositionState.DEAD_END in states:\n"
            "            failure, num_emitted = RowFailure.DEAD_END, 0\n",
        ),
        checks=RUNS,
        clauses=("FAIL-6", "MASK-10"),
    ),
    _move(
        "D227",
        "a look-ahead that fails is not undone",
        "        try:\n            yield self\n        finally:\n            self.end_look_ahead()\n",
        "        yield self\n        self.end_look_ahead()\n",
        "TXN-3",
        "WIN-17",
    ),
)
