"""One compiled grammar per equal request, built once and kept within a byte budget (contract 2, CACHE).

A request's key is its kind, source, options, framing, forced core, the vocabulary's fingerprint and both
cores' versions. A hit parses nothing; a schema that is only spelled another way is found by its parsed form.
On a miss one caller builds while equal callers wait; at most `max_cold_builds` different keys build at once,
hits and waiters take no slot, and no lock is held while building. Refused sources are remembered and refused
again in the same words. Evicted objects keep working.
"""

import gc
import hashlib
import threading
import time
from collections import OrderedDict
from functools import cached_property

import attrs

from engine.errors import IntegrityError, RequestError
from engine.request import CacheOutcome, ConstraintKind, OutputConstraint
from engine.text.choice import normalized_choices
from engine.text.companion import Companion
from engine.text.cores import llguidance_core, xgrammar_core
from engine.text.cores.base import CompiledCore, Core, CoreMatcher
from engine.text.cores.select import LLGUIDANCE, XGRAMMAR_DYNAMIC, plan
from engine.text.frame import BARE, Frame
from engine.text.matcher import Matcher
from engine.text.rules import Grammar
from engine.text.schema.names_index import NamesIndex, names_index
from engine.text.schema.unique_names import UniqueNames
from engine.text.sources import ERROR_KINDS, Parsed, grammar_of, parsed
from engine.text.vocabulary import Vocabulary

FAILURES_KEPT = 1024
REQUEST_CHARACTERS = 16 * 2**20  # of the sources by which compiled grammars are found


@attrs.frozen(eq=False)
class CompiledConstraint:
    """An immutable compiled language, shared by reference; every request gets its own matcher from it."""

    key: str
    core_name: str
    vocabulary_fingerprint: str
    grammar: Grammar
    nbytes: int
    compile_seconds: float
    _core: CompiledCore
    _vocab_size: int
    _names: NamesIndex | None = None  # given where members may have free names: none may stand twice

    def new_matcher(self, vocabulary: Vocabulary | None = None) -> Matcher:
        """A matcher at the start of the language.

        Raises IntegrityError when the session's `vocabulary` is not the one this was compiled for.
        """
        if vocabulary is not None and vocabulary.fingerprint != self.vocabulary_fingerprint:
            raise IntegrityError("the compiled grammar belongs to another vocabulary")
        companion = None if self._names is None else UniqueNames(self._names)
        return Matcher(self._core.new_matcher(), self._vocab_size, companion)

    def new_parts(self) -> tuple[CoreMatcher, Companion | None]:
        """A core's matcher and the names of JSON, for a frontend that keeps state of its own beside them."""
        return self._core.new_matcher(), None if self._names is None else UniqueNames(self._names)


Request = tuple[OutputConstraint, str, str | None]  # with framing and forced core


@attrs.define
class CacheCounts:
    """What the cache has done, for observation and tests; `bytes_kept` is the present sum."""

    hits: int = 0
    built: int = 0
    waited: int = 0
    failed: int = 0
    failed_again: int = 0
    bytes_kept: int = 0
    evicted_for_budget: int = 0
    evicted_as_oversize: int = 0


class _Build:
    """One build in progress that equal callers wait for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: CompiledConstraint | BaseException | None = None
        self.found = False  # the parsed form was kept already: nothing was built


class _Requests:
    """The keys of served requests by their own words: a hit hashes and compares, and reads nothing."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Request, str] = OrderedDict()
        self._characters = 0

    def get(self, request: Request) -> str | None:
        return self._keys.get(request)

    def add(self, request: Request, key: str) -> None:
        """Remember a key; the oldest requests go when their sources are too much text together."""
        if request not in self._keys:
            self._characters += _size(request)
        self._keys[request] = key
        while self._characters > REQUEST_CHARACTERS:
            oldest, _ = self._keys.popitem(last=False)
            self._characters -= _size(oldest)


def _size(request: Request) -> int:
    constraint, framing, _ = request
    return 100 + len(constraint.source) + sum(map(len, constraint.choices)) + len(framing)


class ConstraintCompiler:
    """The compile cache of one vocabulary; its index and cores start on the first constrained use."""

    def __init__(
        self, vocabulary: Vocabulary, *, cache_bytes: int = 256 * 2**20, max_cold_builds: int = 2
    ) -> None:
        self.vocabulary = vocabulary
        self.counts = CacheCounts()
        self._cores = _Cores(vocabulary)
        self._cache_bytes = cache_bytes
        self._slots = threading.BoundedSemaphore(max_cold_builds)
        self._lock = threading.Lock()  # guards the tables below, never held while building
        self._kept: OrderedDict[str, CompiledConstraint] = OrderedDict()
        self._requests = _Requests()
        self._failures: OrderedDict[str, RequestError] = OrderedDict()
        self._building: dict[str, _Build] = {}

    @property
    def started(self) -> bool:
        """Whether the vocabulary index exists: false until the first constrained use."""
        return self._cores.started

    def compile(
        self, constraint: OutputConstraint, *, frame: Frame = BARE, core: str | None = None
    ) -> tuple[CompiledConstraint, CacheOutcome]:
        """The compiled language of a constraint in a frame, and how it was come by.

        `core` forces a core by name instead of the rule in `select`. Raises RequestError for a source that
        cannot be served exactly, each time the same; CoreFault, IntegrityError.
        """
        framing = frame.identity
        request = (constraint, framing, core)
        with self._lock:
            kept = self._hit(self._requests.get(request))
        if kept is not None:
            return kept, CacheOutcome.HIT
        _check_entry(constraint)
        key = self._key(constraint, framing, core)
        with self._lock:
            kept = self._hit(key)
            if kept is not None:
                return kept, CacheOutcome.HIT
            failure = self._failures.get(key)
            if failure is not None:
                self.counts.failed_again += 1
                raise failure.with_traceback(None)
            build = self._building.get(key)
            mine = build is None
            if build is None:
                build = self._building[key] = _Build()
        if mine:
            self._run(build, key, constraint, frame, core)
        return self._outcome(build, mine)

    def _hit(self, key: str | None) -> CompiledConstraint | None:
        """What is kept under a key, counted and made the youngest; the caller holds the lock."""
        kept = None if key is None else self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(kept.key)
            self.counts.hits += 1
        return kept

    def _run(
        self, build: _Build, key: str, constraint: OutputConstraint, frame: Frame, core: str | None
    ) -> None:
        framing = frame.identity
        try:
            with self._slots:
                source = parsed(constraint)
                form = self._key(source.constraint, framing, core)
                with self._lock:
                    build.result = self._hit(form) if form != key else None
                build.found = build.result is not None
                if not build.found:
                    build.result = self._build(form, source, frame, core)
        except BaseException as error:
            build.result = error
        with self._lock:
            del self._building[key]
            if isinstance(build.result, CompiledConstraint):
                self._requests.add((constraint, framing, core), build.result.key)
                self._keep(build.result)
            elif isinstance(build.result, RequestError):
                self._remember(key, build.result)
        build.done.set()

    def _outcome(self, build: _Build, mine: bool) -> tuple[CompiledConstraint, CacheOutcome]:
        build.done.wait()
        if isinstance(build.result, CompiledConstraint):
            with self._lock:
                self.counts.waited += not mine
            if not mine:
                return build.result, CacheOutcome.WAITED
            return build.result, CacheOutcome.HIT if build.found else CacheOutcome.BUILT
        assert build.result is not None, "a build that is done has a result"
        raise build.result.with_traceback(None)

    def _build(self, key: str, source: Parsed, frame: Frame, core: str | None) -> CompiledConstraint:
        begin = time.perf_counter()
        lowered = frame.around(grammar_of(source, self.vocabulary))
        kind = ERROR_KINDS[source.constraint.kind]
        chosen = plan(lowered.grammar, self.vocabulary, kind, forced=core)
        try:
            compiled = self._cores.get(chosen.core_name).compile(chosen.grammar)
        except RequestError as error:  # a core knows no kinds of sources
            raise frame.fault(error, kind) from None
        return CompiledConstraint(
            key=key,
            core_name=chosen.core_name,
            vocabulary_fingerprint=self.vocabulary.fingerprint,
            grammar=lowered.grammar,
            nbytes=compiled.nbytes,
            compile_seconds=time.perf_counter() - begin,
            core=compiled,
            vocab_size=self.vocabulary.size,
            names=names_index(self.vocabulary) if lowered.has_free_names else None,
        )

    def _keep(self, compiled: CompiledConstraint) -> None:
        if compiled.key in self._kept:
            return
        self.counts.built += 1
        if compiled.nbytes > self._cache_bytes:
            self.counts.evicted_as_oversize += 1
            return
        self._kept[compiled.key] = compiled
        self.counts.bytes_kept += compiled.nbytes
        while self.counts.bytes_kept > self._cache_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.counts.bytes_kept -= oldest.nbytes
            self.counts.evicted_for_budget += 1

    def _remember(self, key: str, failure: RequestError) -> None:
        self.counts.failed += 1
        self._failures[key] = failure
        if len(self._failures) > FAILURES_KEPT:
            self._failures.popitem(last=False)

    def _key(self, constraint: OutputConstraint, framing: str, core: str | None) -> str:
        """SHA-256 (hex) over length-prefixed parts, so that no two lists of parts run together."""
        choices = normalized_choices(constraint.choices) if constraint.choices else ()
        parts = [constraint.kind.value, constraint.source, framing, core or "", *self._identity]
        parts += [*attrs.astuple(constraint.options), *choices]
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode(errors="surrogatepass")
            digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()

    @cached_property
    def _identity(self) -> tuple[str, ...]:
        versions = (f"xgrammar {xgrammar_core.VERSION}", f"llguidance {llguidance_core.VERSION}")
        return (self.vocabulary.fingerprint, *versions)


def _check_entry(constraint: OutputConstraint) -> None:
    """Refuse a source in the wrong place."""
    other_source = constraint.source if constraint.kind is ConstraintKind.CHOICE else constraint.choices
    if other_source:
        raise RequestError(
            ERROR_KINDS[constraint.kind],
            "a constraint has a source text or a list of choices, by its kind",
            found="the other one",
            allowed="choices for a choice, a source for everything else",
        )


class _Cores:
    """The cores of one vocabulary, each made by the first build that needs it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._made: dict[str, Core] = {}

    @property
    def started(self) -> bool:
        return bool(self._made)

    def get(self, name: str) -> Core:
        """The core of this name; racing callers get the same one. Raises KeyError for an unknown name.

        Vocabulary and index are millions of objects that stay: they are taken out of the garbage collector's
        rounds, which would otherwise stop builds and running streams for 40 to 90 ms each.
        """
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
                gc.collect()
                gc.freeze()
            return self._made[name]

    def _make(self, name: str) -> Core:
        if name == LLGUIDANCE:
            return llguidance_core.LlguidanceCore(self._vocabulary)
        return xgrammar_core.XgrammarCore(self._vocabulary, dynamic=name == XGRAMMAR_DYNAMIC, info=self._info)

    @cached_property
    def _info(self) -> xgrammar_core.xgrammar.TokenizerInfo:
        return xgrammar_core.tokenizer_info(self._vocabulary)
