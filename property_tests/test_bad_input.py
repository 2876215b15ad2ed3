"""Hostile and broken sources, compiled in a child process: served exactly, or refused by name and place.

The child stops at a hang guard far above what any case needs, and its memory may not grow past 512 MB over
the warm process. How long each takes is measured elsewhere; here nothing may hang, crash or be vague.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.text.limits import LIMITS
from engine.text.vocabulary import toy_vocabulary

ROOT = Path(__file__).resolve().parent.parent
HANG_GUARD_SECONDS = 150  # for all cases together
MAX_GROWTH_BYTES = 512 * 2**20
VOCABULARY = toy_vocabulary()
EOS, THINK = VOCABULARY.eos_ids[0], VOCABULARY.control_id("<think>")

CHILD = """
import json, resource, sys
import torch
from engine.errors import RequestError
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import toy_vocabulary

torch.set_num_threads(1)
vocabulary = toy_vocabulary()
compiler = ConstraintCompiler(vocabulary)
row = torch.zeros(vocabulary.num_words, dtype=torch.int32)


def answer_to(kind, source):
    try:
        compiled, _ = compiler.compile(getattr(OutputConstraint, kind)(source))
        compiled.new_matcher().fill(row)
        return {"type": None, "words": row.tolist()}
    except RequestError as error:
        found = {"type": type(error).__name__, "kind": error.kind.value, "text": str(error)}
        return found | {"where": str(error.location), "limit": getattr(error, "limit", "")}


answer_to("regex", "warm")
for name, kind, make in json.load(sys.stdin):
    source = eval(make)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = answer_to(kind, source)
    answer["growth"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps([name, answer]), flush=True)
"""

# name: (kind, an expression that makes the source, error type or None when served, place, limit)
CASES = {
    "empty choice list": ("choice", "[]", "RequestError", "", ""),
    "duplicate choices": ("choice", "['a', 'b', 'a']", None, "", ""),
    "surrogate in a choice": ("choice", "['a', chr(0xd800)]", "RequestError", "item 1", ""),
    "surrogate in a grammar": (
        "grammar",
        "'root ::= ' + chr(0xd800)",
        "RequestError",
        "line 1, column 10",
        "",
    ),
    "bytes for a grammar": ("grammar", "b'root ::= \\xff'", "RequestError", "", ""),
    "surrogate in a regex": ("regex", "'a' + chr(0xdfff)", "RequestError", "line 1, column 2", ""),
    "NUL in a choice": ("choice", "['a\\0b']", None, "", ""),
    "NUL in a literal": ("grammar", "'root ::= \"a\\0b\"'", None, "", ""),
    "NUL between elements": ("grammar", '\'root ::= "a" \\0 "b"\'', "SyntaxFault", "line 1, column 14", ""),
    "NUL in a regex": ("regex", "'a\\0b'", None, "", ""),
    "unknown rule": ("grammar", "'root ::= \"a\" x'", "UnknownRule", "line 1, column 14", ""),
    "rule defined twice": (
        "grammar",
        '\'root ::= "a"\\nroot ::= "b"\'',
        "UnknownRule",
        "line 2, column 1",
        "",
    ),
    "rules that derive nothing": (
        "grammar",
        "'root ::= x\\nx ::= \"a\" x'",
        "EmptyLanguage",
        "line 1, column 1",
        "",
    ),
    "an impossible branch": ("grammar", '\'root ::= x | "b"\\nx ::= "a" x\'', None, "", ""),
    "root is itself": ("grammar", "'root ::= root'", "EmptyLanguage", "line 1, column 1", ""),
    "root twice itself": ("grammar", "'root ::= (root){2,2}'", "EmptyLanguage", "line 1, column 1", ""),
    "a loop beside the empty string": ("grammar", "'root ::= root | \"\"'", None, "", ""),
    "nullable loops": ("grammar", '\'root ::= (root? x)*\\nx ::= root | "a" | ""\'', None, "", ""),
    "empty class in a regex": ("regex", "r'[^\\s\\S]'", "EmptyLanguage", "line 1, column 1", ""),
    "EOS id": ("grammar", f"'root ::= Token({EOS})'", "TokenReferenceError", "line 1, column 16", ""),
    "control id": (
        "grammar",
        f"'root ::= ExcludeToken({THINK})'",
        "TokenReferenceError",
        "line 1, column 23",
        "",
    ),
    "id out of range": (
        "grammar",
        "'root ::= Token(999999999999)'",
        "TokenReferenceError",
        "line 1, column 16",
        "",
    ),
    "TagDispatch": (
        "grammar",
        "'root ::= TagDispatch((\"a\", x))'",
        "RefusedConstruct",
        "line 1, column 10",
        "",
    ),
    "Regex macro": ("grammar", "'root ::= Regex(\"a\")'", "RefusedConstruct", "line 1, column 10", ""),
    "Substring macro": (
        "grammar",
        "'root ::= Substring(\"a\")'",
        "RefusedConstruct",
        "line 1, column 10",
        "",
    ),
    "rule option": ("grammar", "'root[max_tokens=3] ::= \"a\"'", "RefusedConstruct", "line 1, column 5", ""),
    "look-around": ("regex", "'a(?=b)'", "RefusedConstruct", "line 1, column 2", ""),
    "back-reference": ("regex", "r'(a)\\1'", "RefusedConstruct", "line 1, column 4", ""),
    "bounds out of order": ("grammar", "'root ::= \"a\"{5,2}'", "SyntaxFault", "line 1, column 13", ""),
    "bounds out of order, regex": ("regex", "'a{5,2}'", "SyntaxFault", "line 1, column 2", ""),
    "repeat of 10^9": (
        "grammar",
        "'root ::= \"a\"{1000000000}'",
        "LimitExceeded",
        "line 1, column 13",
        "repeat_count",
    ),
    "repeat of 10^9, regex": (
        "regex",
        "'(a|bc){1000000000}'",
        "LimitExceeded",
        "line 1, column 7",
        "repeat_count",
    ),
    "10^12 by nesting": (
        "regex",
        "'((a{8000}b){8000}c){8000}'",
        "LimitExceeded",
        "line 1, column 1",
        "repeat_product",
    ),
    "10^9 through rules": (
        "grammar",
        '\'root ::= x{1000}\\nx ::= y{1000} "b"\\ny ::= "a"{1000}\'',
        "LimitExceeded",
        "line 1, column 1",
        "repeat_product",
    ),
    "grammar of 10 MB": (
        "grammar",
        "'root ::= \"' + 'a' * 10_000_000 + '\"'",
        "LimitExceeded",
        "",
        "source_bytes",
    ),
    "regex of 10 MB": ("regex", "'a' * 10_000_000", "LimitExceeded", "", "source_bytes"),
    "choice of 10 MB": ("choice", "['a' * 10_000_000]", "LimitExceeded", "item 0", "choice_bytes"),
    "a million choices": (
        "choice",
        "[str(i) for i in range(10**6)]",
        "LimitExceeded",
        "item 16384",
        "choice_members",
    ),
    "nesting of 10,000": (
        "grammar",
        "'root ::= ' + '(' * 10_000 + '\"a\"' + ')' * 10_000",
        "LimitExceeded",
        "line 1, column 74",
        "nesting_depth",
    ),
    "nesting of 10,000, regex": (
        "regex",
        "'(' * 10_000",
        "LimitExceeded",
        "line 1, column 65",
        "nesting_depth",
    ),
    "20,000 rules": (
        "grammar",
        "'root ::= \"a\"\\n' + ''.join(f'r{i}::=\"\"\\n' for i in range(20_000))",
        "LimitExceeded",
        f"line {LIMITS['rules'] + 1}, column 1",
        "rules",
    ),
    "100,000 open quotes": (
        "grammar",
        "'root ::= ' + '\"' * 100_001",
        "SyntaxFault",
        "line 1, column 100010",
        "",
    ),
    "100,000 backslashes": (
        "grammar",
        "'root ::= \"' + '\\\\' * 100_000",
        "SyntaxFault",
        "line 1, column 10",
        "",
    ),
    "exponential alternatives": ("regex", "'(a|a|b)*' * 30 + 'c'", None, "", ""),
    "nested stars": ("regex", "'(' * 30 + 'a*' + ')*' * 30 + 'b'", None, "", ""),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The child's answer to every case it lived to see."""
    output = tmp_path_factory.mktemp("child") / "answers"
    cases = json.dumps([[name, kind, make] for name, (kind, make, *_) in CASES.items()])
    with output.open("w") as file, contextlib.suppress(subprocess.TimeoutExpired):
        command = [sys.executable, "-c", CHILD]
        subprocess.run(
            command, input=cases, cwd=ROOT, stdout=file, text=True, timeout=HANG_GUARD_SECONDS, check=False
        )
    return dict(json.loads(line) for line in output.read_text().splitlines())


@pytest.mark.clause(
    "SAFE-2", "SAFE-5", "SAFE-6", "SAFE-11", "GBNF-2", "GBNF-5", "REGEX-7", "EMPTY-5", "CHOICE-2"
)
@pytest.mark.parametrize("name", CASES)
def test_served_exactly_or_refused_by_name_and_place(answers, name):
    _, _, error_type, where, limit = CASES[name]
    assert name in answers, "the child hung or died at this case or an earlier one"
    answer = answers[name]
    assert answer["type"] == error_type, answer
    if error_type is not None:
        assert answer["where"] == where
        assert answer["limit"] == limit
        assert answer["kind"] == f"invalid_{CASES[name][0]}"
        assert len(answer["text"]) < 500


@pytest.mark.clause("SAFE-4", "SAFE-6")
def test_no_case_grows_memory_past_the_bound(answers):
    assert {name: a["growth"] for name, a in answers.items() if a["growth"] > MAX_GROWTH_BYTES} == {}
