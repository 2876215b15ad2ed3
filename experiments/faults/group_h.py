"""Group H: faults of cache keys, of sharing, and of the map from rows to requests (CACHE, BATCH)."""

from experiments.faults.planting import Fault, append, fault, replace

COMPILER = "engine/text/compiler.py"
VOCABULARY = "engine/text/vocabulary.py"
PROGRAM = "engine/runtime/program.py"
ENGINE = "engine/runtime/engine.py"
CACHE = ("property_tests/test_compiler.py",)
ROWS = ("property_tests/test_paths.py::test_exact_checks",)

PARTS = "constraint.kind.value, constraint.source, framing, core"


def _cache(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(COMPILER, old, new), checks=CACHE, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _cache(
        "H143",
        "the key leaves the vocabulary out",
        "return (self.vocabulary.fingerprint, *versions)",
        "return versions",
        "CACHE-2",
        "SERV-10",
        "SERV-11",
    ),
    _cache(
        "H144",
        "the key leaves the kind out",
        PARTS,
        PARTS.replace("constraint.kind.value, ", ""),
        "CACHE-2",
        "CACHE-5",
    ),
    _cache(
        "H145", "the key leaves the framing out", PARTS, PARTS.replace("framing, ", ""), "CACHE-2", "CACHE-3"
    ),
    _cache(
        "H200", "the key leaves the core out", PARTS + ' or "", ', PARTS.replace(", core", ", "), "CACHE-2"
    ),
    _cache(
        "H201",
        "the key leaves the cores' versions out",
        "(self.vocabulary.fingerprint, *versions)",
        "(self.vocabulary.fingerprint,)",
        "CACHE-2",
        "SERV-10",
    ),
    _cache(
        "H202",
        "the key strips its source",
        PARTS,
        PARTS.replace("constraint.source", "constraint.source.strip()"),
        "CACHE-2",
        "CACHE-4",
    ),
    _cache(
        "H203",
        "choices run together in the key",
        'digest.update(b"%d:" % len(data) + data)',
        "digest.update(data)",
        "CACHE-6",
    ),
    _cache(
        "H204",
        "the order of choices is part of the key",
        "choices = normalized_choices(constraint.choices) if constraint.choices else ()",
        "choices = constraint.choices",
        "CACHE-6",
    ),
    fault(
        "H148",
        "all requests of a grammar share one matcher",
        replace(
            COMPILER,
            "        return Matcher(self._core.new_matcher(), self._vocab_size, companion)\n",
            "        fresh = Matcher(self._core.new_matcher(), self._vocab_size, companion)\n"
            "        return _MATCHERS.setdefault(id(self), fresh)\n",
        ),
        append(COMPILER, "_MATCHERS: dict[int, Matcher] = {}\n"),
        checks=CACHE,
        clauses=("CACHE-1", "SERV-9", "CACHE-10"),
    ),
    _cache(
        "H149",
        "a source that was refused once is unconstrained the next time",
        "                raise failure.with_traceback(None)\n",
        '                constraint = OutputConstraint.regex("[^]*")\n'
        "                key = self._key(constraint, framing, core)\n",
        "FAIL-4",
    ),
    fault(
        "H150",
        "racing builds share an attribute",
        replace(
            COMPILER,
            "        if mine:\n            self._run(",
            "        self._current = constraint\n        if mine:\n            time.sleep(0.02)\n            self._run(",
        ),
        replace(
            COMPILER,
            "                source = parsed(constraint)\n",
            "                source = parsed(self._current)\n",
        ),
        checks=CACHE,
        clauses=("CACHE-8",),
    ),
    _cache(
        "H205",
        "racing equal keys each build",
        "            mine = build is None\n            if build is None:\n",
        "            mine = True\n            if mine:\n",
        "CACHE-7",
    ),
    _cache(
        "H206",
        "more than two cold builds run together",
        "threading.BoundedSemaphore(max_cold_builds)",
        "threading.BoundedSemaphore(max_cold_builds + 1)",
        "CACHE-9",
    ),
    _cache(
        "H207",
        "one cold build at a time",
        "threading.BoundedSemaphore(max_cold_builds)",
        "threading.BoundedSemaphore(1)",
        "CACHE-8",
        "CACHE-9",
    ),
    _cache(
        "H208",
        "the byte budget does not bind",
        "while self.counts.bytes_kept > self._cache_bytes:",
        "while self.counts.bytes_kept < 0:",
        "CACHE-11",
        "CACHE2-9",
    ),
    _cache(
        "H209",
        "the newest entry is evicted first",
        "self._kept.popitem(last=False)",
        "self._kept.popitem(last=True)",
        "CACHE2-9",
    ),
    _cache(
        "H210",
        "a use does not keep an entry young",
        "            self._kept.move_to_end(kept.key)\n",
        "",
        "CACHE2-9",
    ),
    _cache(
        "H211",
        "a compiled grammar serves another vocabulary",
        "        if vocabulary is not None and vocabulary.fingerprint != self.vocabulary_fingerprint:\n",
        "        if vocabulary is not None and vocabulary.name != vocabulary.name:\n",
        "CACHE2-8",
        "SERV-11",
    ),
    _cache(
        "H212",
        "a hit builds again",
        "            if kept is not None:\n",
        "            if kept is not None and not kept:\n",
        "CACHE-10",
    ),
    fault(
        "H213",
        "a vocabulary's fingerprint leaves the classes out",
        replace(VOCABULARY, "        digest.update(bytes(self.classes))\n", ""),
        checks=("property_tests/test_vocabulary.py",),
        clauses=("SERV-10", "SERV-11"),
    ),
    fault(
        "H214",
        "a vocabulary's fingerprint leaves the token borders out",
        replace(
            VOCABULARY,
            '        digest.update(b",".join(b"%d" % len(data) for data in self.token_bytes))\n',
            "",
        ),
        checks=("property_tests/test_vocabulary.py",),
        clauses=("SERV-10", "SERV-11"),
    ),
    fault(
        "H151",
        "masks are written into the rows of constrained requests only, counted from 0",
        replace(
            PROGRAM,
            "            out = self._bitmask_view[i * stride : (i + 1) * stride]\n",
            "            _row = sum(constrained[:i])\n"
            "            out = self._bitmask_view[_row * stride : (_row + 1) * stride]\n",
        ),
        checks=ROWS,
        clauses=("MASK-2", "SAMP-14"),
    ),
    fault(
        "H152",
        "masks are asked for in the order before the batch was arranged",
        replace(
            ENGINE,
            "        masks = LentMasks(sessions)\n",
            "        masks = LentMasks(sorted(sessions, key=id))\n",
        ),
        checks=ROWS,
        clauses=("MASK-2",),
    ),
)
