"""Does the compile cache build each key once, refuse alike, bound its bytes and never block another key?"""

import threading

import numpy as np
import pytest
import torch

from engine.errors import CoreFault, ErrorKind, IntegrityError, LimitExceeded, RequestError
from engine.request import CacheOutcome, ConstraintKind, OutputConstraint
from engine.text import compiler as module
from engine.text import sources
from engine.text.compiler import ConstraintCompiler
from engine.text.cores.select import CORE_NAMES
from engine.text.frame import Bare
from engine.text.vocabulary import toy_vocabulary

VOCABULARY = toy_vocabulary()
OTHER = toy_vocabulary(num_padding=6)
DIGITS = OutputConstraint.regex("[0-9]+")
TIMEOUT = 20


class Gate:
    """Stands in for a parser: counts its calls, and holds them until it is opened."""

    def __init__(self, inner, held=()):
        self.inner, self.held = inner, set(held)
        self.open, self.lock = threading.Event(), threading.Lock()
        self.calls, self.running, self.most_running = [], 0, 0
        self.entered = threading.Semaphore(0)

    def __call__(self, pattern):
        with self.lock:
            self.calls.append(pattern)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        self.entered.release()
        if pattern in self.held:
            assert self.open.wait(TIMEOUT)
        with self.lock:
            self.running -= 1
        return self.inner(pattern)


@pytest.fixture
def gate(monkeypatch):
    def install(*held):
        found = Gate(sources.regex_grammar, held)
        monkeypatch.setattr(sources, "regex_grammar", found)
        return found

    return install


def in_threads(actions):
    """Start every action in its own thread; returns a function that joins them and gives their results."""
    results = [None] * len(actions)

    def run(index, action):
        try:
            results[index] = action()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()

    def join():
        for thread in threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        return results

    return join


def regex(compiler, pattern):
    return lambda: compiler.compile(OutputConstraint.regex(pattern))


@pytest.mark.clause("CACHE-10", "CACHE2-3")
def test_a_hit_parses_nothing_and_gives_a_fresh_matcher(gate):
    parser, compiler = gate(), ConstraintCompiler(VOCABULARY)
    first, built = compiler.compile(DIGITS)
    used = first.new_matcher()
    used.preview([VOCABULARY.token_bytes.index(b"1")])
    used.confirm()
    second, hit = compiler.compile(DIGITS)
    assert (built, hit) == (CacheOutcome.BUILT, CacheOutcome.HIT) and second is first
    assert parser.calls == ["[0-9]+"]
    fresh = second.new_matcher()
    assert fresh.num_committed == 0 and not fresh.may_end and used.may_end
    assert (compiler.counts.built, compiler.counts.hits) == (1, 1)


@pytest.mark.clause("CACHE-7", "CACHE-1")
def test_equal_keys_racing_cold_share_one_build(gate):
    parser, compiler = gate("[0-9]+"), ConstraintCompiler(VOCABULARY)
    join = in_threads([regex(compiler, "[0-9]+")] * 6)
    assert parser.entered.acquire(timeout=TIMEOUT)
    parser.open.set()
    results = join()
    outcomes = [outcome for _, outcome in results]
    assert outcomes.count(CacheOutcome.BUILT) == 1 and len(parser.calls) == 1
    assert set(outcomes) <= {CacheOutcome.BUILT, CacheOutcome.WAITED, CacheOutcome.HIT}
    assert len({id(compiled) for compiled, _ in results}) == 1


@pytest.mark.clause("CACHE-8", "CACHE-9")
def test_two_builds_at_once_and_hits_take_no_slot(gate):
    parser, compiler = gate("a", "b", "c"), ConstraintCompiler(VOCABULARY)
    compiler.compile(DIGITS)
    assert parser.entered.acquire(timeout=TIMEOUT)
    join = in_threads([regex(compiler, pattern) for pattern in "abc"])
    assert parser.entered.acquire(timeout=TIMEOUT) and parser.entered.acquire(timeout=TIMEOUT)
    assert not parser.entered.acquire(timeout=0.1), "a third build started"
    assert compiler.compile(DIGITS)[1] is CacheOutcome.HIT
    parser.open.set()
    assert [outcome for _, outcome in join()] == [CacheOutcome.BUILT] * 3
    assert parser.most_running == 2


@pytest.mark.clause("CACHE-8")
def test_another_key_is_built_while_a_slow_one_is(gate):
    parser, compiler = gate("slow"), ConstraintCompiler(VOCABULARY)
    join = in_threads([regex(compiler, "slow")])
    assert parser.entered.acquire(timeout=TIMEOUT)
    assert compiler.compile(OutputConstraint.regex("quick"))[1] is CacheOutcome.BUILT
    parser.open.set()
    assert join()[0][1] is CacheOutcome.BUILT


@pytest.mark.clause("CACHE-10")
def test_a_refusal_is_remembered_and_repeated_in_the_same_words(gate):
    parser, compiler = gate(), ConstraintCompiler(VOCABULARY)
    errors = []
    for _ in range(3):
        with pytest.raises(RequestError) as refused:
            compiler.compile(OutputConstraint.regex("(a"))
        errors.append(refused.value)
    assert errors[0] == errors[1] == errors[2] and len(parser.calls) == 1
    assert (compiler.counts.failed, compiler.counts.failed_again) == (1, 2)


def test_waiters_get_the_refusal_of_the_build_they_waited_for(gate):
    parser, compiler = gate("(a"), ConstraintCompiler(VOCABULARY)
    join = in_threads([regex(compiler, "(a")] * 4)
    assert parser.entered.acquire(timeout=TIMEOUT)
    parser.open.set()
    results = join()
    assert all(isinstance(result, RequestError) for result in results) and len(parser.calls) == 1


def test_remembered_refusals_are_bounded(monkeypatch, gate):
    monkeypatch.setattr(module, "FAILURES_KEPT", 3)
    parser, compiler = gate(), ConstraintCompiler(VOCABULARY)
    for pattern in ("(a", "(b", "(c", "(d", "(a"):
        with pytest.raises(RequestError):
            compiler.compile(OutputConstraint.regex(pattern))
    assert parser.calls.count("(a") == 2


def test_an_engine_fault_is_not_remembered(monkeypatch):
    compiler = ConstraintCompiler(VOCABULARY)
    monkeypatch.setattr(sources, "regex_grammar", lambda pattern: (_ for _ in ()).throw(CoreFault("planted")))
    with pytest.raises(CoreFault):
        compiler.compile(DIGITS)
    monkeypatch.undo()
    assert compiler.compile(DIGITS)[1] is CacheOutcome.BUILT


@pytest.mark.clause("CACHE-2", "CACHE-3", "CACHE-5", "CACHE-6", "SERV-10", "SERV-11")
def test_keys_differ_exactly_where_the_compiled_thing_does():
    compiler, other = ConstraintCompiler(VOCABULARY), ConstraintCompiler(OTHER)
    choice, compiled = OutputConstraint.choice, []
    compiled.append(compiler.compile(OutputConstraint.regex("ab")))
    compiled.append(compiler.compile(OutputConstraint.regex("ab"), frame=Bare("thinking")))
    compiled.append(compiler.compile(OutputConstraint.regex("ab"), core="llguidance"))
    compiled.append(compiler.compile(choice(["ab"])))
    compiled.append(compiler.compile(choice(["a", "bc"])))
    compiled.append(compiler.compile(choice(["ab", "c"])))
    compiled.append(other.compile(OutputConstraint.regex("ab")))
    for text in ("ab ", " ab", "ab\n", "b", 'root ::= "ab"'):
        compiled.append(compiler.compile(OutputConstraint.regex(text)))
    compiled.append(compiler.compile(OutputConstraint.regex("b"), frame=Bare("a")))
    compiled.append(compiler.compile(OutputConstraint.grammar('root ::= "ab"')))
    compiled.append(compiler.compile(OutputConstraint.grammar('root ::= "ab" ')))
    assert [outcome for _, outcome in compiled] == [CacheOutcome.BUILT] * len(compiled)
    assert len({entry.key for entry, _ in compiled}) == len(compiled)
    again = compiler.compile(choice(["bc", "a", "a"]))
    assert again == (compiled[4][0], CacheOutcome.HIT)


@pytest.mark.clause("CACHE-2", "SERV-10")
def test_the_key_holds_the_versions_of_the_cores(monkeypatch):
    key = ConstraintCompiler(VOCABULARY).compile(DIGITS)[0].key
    monkeypatch.setattr(module.xgrammar_core, "VERSION", "0.2.10")
    assert ConstraintCompiler(VOCABULARY).compile(DIGITS)[0].key != key


@pytest.mark.clause("CACHE-11", "CACHE2-9")
def test_the_least_recently_used_goes_first_and_keeps_working():
    compiler = ConstraintCompiler(VOCABULARY)
    sizes = [compiler.compile(OutputConstraint.regex(p))[0].nbytes for p in ("a", "b", "c")]
    compiler = ConstraintCompiler(VOCABULARY, cache_bytes=sum(sizes) - 1)
    kept = {p: compiler.compile(OutputConstraint.regex(p))[0] for p in ("a", "b")}
    compiler.compile(OutputConstraint.regex("a"))
    compiler.compile(OutputConstraint.regex("c"))
    assert compiler.counts.evicted_for_budget == 1 and compiler.counts.bytes_kept <= sum(sizes) - 1
    assert compiler.compile(OutputConstraint.regex("a"))[1] is CacheOutcome.HIT
    assert compiler.compile(OutputConstraint.regex("b"))[1] is CacheOutcome.BUILT
    row = torch.zeros(VOCABULARY.num_words, dtype=torch.int32)
    kept["b"].new_matcher().fill(row)
    assert np.count_nonzero(row.numpy())


@pytest.mark.clause("CACHE-11")
def test_a_budget_of_one_byte_keeps_nothing_and_serves_everything():
    compiler = ConstraintCompiler(VOCABULARY, cache_bytes=1)
    compiled, outcome = compiler.compile(DIGITS)
    matcher = compiled.new_matcher()
    assert compiler.compile(DIGITS)[1] is CacheOutcome.BUILT is outcome
    assert compiler.counts.evicted_as_oversize == 2 and compiler.counts.bytes_kept == 0
    assert matcher.preview([VOCABULARY.token_bytes.index(b"1")]) == 1


@pytest.mark.clause("VOC-8", "VOC-9")
def test_racing_first_uses_build_one_index(monkeypatch):
    made = []
    inner = module.xgrammar_core.tokenizer_info
    monkeypatch.setattr(module.xgrammar_core, "tokenizer_info", lambda v: made.append(v) or inner(v))
    compiler = ConstraintCompiler(VOCABULARY)
    assert not compiler.started and not made
    join = in_threads([regex(compiler, pattern) for pattern in ("a", "b", "c", "[0-9]{2}")])
    assert all(outcome is CacheOutcome.BUILT for _, outcome in join())
    assert len(made) == 1 and compiler.started


@pytest.mark.clause("CACHE2-8")
def test_a_matcher_is_refused_to_another_vocabulary():
    compiled, _ = ConstraintCompiler(VOCABULARY).compile(DIGITS)
    assert compiled.new_matcher(toy_vocabulary()).num_committed == 0
    with pytest.raises(IntegrityError):
        compiled.new_matcher(OTHER)


def test_an_unknown_core_is_a_request_error():
    with pytest.raises(RequestError):
        ConstraintCompiler(VOCABULARY).compile(DIGITS, core="mine")


@pytest.mark.clause("CACHE-1", "GBNF-8")
def test_threads_compile_the_same_as_one_after_the_other():
    patterns = [f"(a|b){{{n},{n + 3}}}[0-9]" for n in range(8)]
    compiler = ConstraintCompiler(VOCABULARY)
    together = in_threads([regex(compiler, pattern) for pattern in patterns])()
    for pattern, (compiled, _) in zip(patterns, together, strict=True):
        alone, _ = ConstraintCompiler(VOCABULARY).compile(OutputConstraint.regex(pattern))
        assert alone.core_name == compiled.core_name
        rows = torch.zeros((2, VOCABULARY.num_words), dtype=torch.int32)
        alone.new_matcher().fill(rows[0])
        compiled.new_matcher().fill(rows[1])
        assert torch.equal(rows[0], rows[1])


@pytest.mark.clause("GBNF-8")
@pytest.mark.parametrize("core", CORE_NAMES)
def test_the_core_that_is_asked_for_compiles_and_matches(core):
    compiled, _ = ConstraintCompiler(VOCABULARY).compile(DIGITS, core=core)
    assert compiled.core_name == core
    library = type(compiled.new_matcher()._core).__module__.rpartition(".")[2]
    assert library == ("llguidance_core" if core == "llguidance" else "xgrammar_core")


@pytest.mark.clause("FAIL-4")
@pytest.mark.parametrize(
    ("constraint", "kind"),
    [
        (OutputConstraint(ConstraintKind.JSON_SCHEMA, "{}", ("a",)), ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (OutputConstraint(ConstraintKind.CHOICE, "a", ("a",)), ErrorKind.INVALID_CHOICE),
        (OutputConstraint(ConstraintKind.REGEX, "a", ("a",)), ErrorKind.INVALID_REGEX),
    ],
)
def test_a_constraint_with_both_sources_is_refused(constraint, kind):
    with pytest.raises(RequestError) as refused:
        ConstraintCompiler(toy_vocabulary()).compile(constraint)
    assert refused.value.kind == kind


def test_a_list_past_the_limit_is_refused_before_it_gets_a_key():
    compiler = ConstraintCompiler(toy_vocabulary())
    with pytest.raises(LimitExceeded):
        compiler.compile(OutputConstraint.choice([str(number) for number in range(100_000)]))
    assert compiler.counts.failed == 0


SPELLINGS = (
    '{"type":"object","properties":{"a":{"const":"x"},"b":{"const":1}},"additionalProperties":false}',
    '{ "type": "object",\n"properties": {"\\u0061": {"const": "x"}, "b": {"const": 1}}'
    ', "additionalProperties": false}',
)


@pytest.mark.clause("CACHE-4", "SERV-12")
def test_a_schema_in_another_spelling_is_found_by_its_parsed_form():
    compiler = ConstraintCompiler(VOCABULARY)
    first, outcome = compiler.compile(OutputConstraint.json_schema(SPELLINGS[0]))
    again, found = compiler.compile(OutputConstraint.json_schema(SPELLINGS[1]))
    assert (outcome, found) == (CacheOutcome.BUILT, CacheOutcome.HIT) and again is first
    assert compiler.counts.built == 1 and compiler.counts.hits == 1
    assert compiler.compile(OutputConstraint.json_schema(SPELLINGS[1])) == (first, CacheOutcome.HIT)


@pytest.mark.clause("CACHE-4", "CACHE-10")
def test_a_hit_on_the_source_bytes_parses_nothing(monkeypatch):
    compiler = ConstraintCompiler(VOCABULARY)
    for source in SPELLINGS:
        compiler.compile(OutputConstraint.json_schema(source))
    monkeypatch.setattr(module, "parsed", None)
    for source in SPELLINGS:
        assert compiler.compile(OutputConstraint.json_schema(source))[1] is CacheOutcome.HIT


@pytest.mark.clause("CACHE-2", "CACHE-4", "SERV-12")
@pytest.mark.parametrize(
    "other",
    [
        {
            "source": '{"type":"object","properties":{"b":{"const":1},"a":{"const":"x"}},'
            '"additionalProperties":false}'
        },
        {"source": SPELLINGS[0].replace(":1}", ":1.0}")},
        {"whitespace": "compact"},
        {"whitespace": "fixed"},
        {"unknown_keywords": "annotate"},
        {"formats": "assert"},
    ],
)
def test_member_order_spelling_of_numbers_and_options_are_part_of_the_key(other):
    compiler = ConstraintCompiler(VOCABULARY)
    first, _ = compiler.compile(OutputConstraint.json_schema(SPELLINGS[0]))
    second, outcome = compiler.compile(OutputConstraint.json_schema(**{"source": SPELLINGS[0], **other}))
    assert outcome is CacheOutcome.BUILT and second.key != first.key


@pytest.mark.clause("CACHE-11", "CACHE-4")
def test_a_form_that_was_evicted_is_built_again_from_either_spelling():
    compiler = ConstraintCompiler(VOCABULARY, cache_bytes=1)
    for source in (*SPELLINGS, *SPELLINGS):
        assert compiler.compile(OutputConstraint.json_schema(source))[1] is CacheOutcome.BUILT
