"""Are counted repetitions exact on the core they are given to, and is that core the promised one?"""

import itertools
import re

import numpy as np
import pytest
from llguidance import LLParserLimits

from engine.errors import ErrorKind, LimitExceeded
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.cores import llguidance_core
from engine.text.cores.fusion import fuse, nonempty
from engine.text.cores.positions import Fused, find_lost_parse
from engine.text.cores.select import CORE_NAMES, LLGUIDANCE, XGRAMMAR, XGRAMMAR_DYNAMIC, plan
from engine.text.cores.terminals import rust_regex
from engine.text.gbnf import parse_gbnf
from engine.text.regex import regex_grammar
from engine.text.rules import Grammar, Ref, Repeat, Seq, alt, is_nullable, literal, repeat, trim, walk
from engine.text.rules import chars as char_class
from engine.text.vocabulary import Vocabulary, toy_vocabulary

MAX_TOKEN = 3


def vocabulary_over(alphabet):
    """All strings of up to three characters, every byte alone, and one EOS."""
    words = ["".join(w).encode() for n in (1, 2, MAX_TOKEN) for w in itertools.product(alphabet, repeat=n)]
    tokens = list(dict.fromkeys([*words, *(bytes([b]) for b in "".join(alphabet).encode())]))
    return Vocabulary.build(alphabet, [*tokens, b"<eos>"], eos_ids=[len(tokens)])


def check(matcher, vocabulary, members, prefixes):
    """Compare rows with the members of the language: a token is legal iff some member goes on that way."""
    begun = {member[:n] for member in members for n in range(len(member) + 1)}
    for prefix in prefixes:
        copy = matcher.fork()
        copy.preview([vocabulary.token_bytes.index(bytes([b])) for b in prefix])
        copy.confirm()
        row = np.zeros(vocabulary.num_words, dtype=np.int32)
        copy.fill_words(row)
        legal = set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())
        right = {i for i, token in enumerate(vocabulary.token_bytes[:-1]) if prefix + token in begun}
        assert legal == right | ({vocabulary.size - 1} if prefix in members else set()), prefix


PATTERNS = (  # every member has at most six characters
    ("abc", "(ab|c){0,3}"),
    ("ab", "(a|bb){2,3}"),
    ("ab", "(a{1,2}b?){1,2}"),
    ("ab", "(ab?){0,2}a{2}"),
    ("ab", "a{0,3}|(ab){1,3}"),
    ("ab", "((a|b){2}){1,3}"),
    ("ab", "(a|ab){0,2}(b|ba)?"),
    ("aé", "(a|éé){1,3}"),
    ("é€", "[é€]{2,4}"),
    ("ab", "(a?b?){0,3}"),
)


@pytest.mark.clause("REGEX-1", "GBNF-8")
@pytest.mark.parametrize("core", [None, *CORE_NAMES])
@pytest.mark.parametrize(("alphabet", "pattern"), PATTERNS)
def test_counted_expressions_equal_python_re(alphabet, pattern, core):
    vocabulary = vocabulary_over(alphabet)
    words = ("".join(w) for n in range(7) for w in itertools.product(alphabet, repeat=n))
    members = {word.encode() for word in words if re.fullmatch(pattern, word)}
    compiled, _ = ConstraintCompiler(vocabulary).compile(OutputConstraint.regex(pattern), core=core)
    begun = {member[:n] for member in members for n in range(len(member) + 1)}
    prefixes = [p for p in sorted(begun) if len(p) <= 4]
    check(compiled.new_matcher(), vocabulary, members, prefixes)


RECURSIVE = (  # inner pattern and the same as GBNF; members wrapped in up to two pairs of parentheses
    ("127xy", "[0-9]{1,3}x|[0-9]{1,2}7y", '[127]{1,3} "x" | [127]{1,2} "7y"'),
    ("ab;", "(a|bb){0,3};", '("a" | "bb"){0,3} ";"'),
    ("ab;", "(a|bb){1,2};|aa?b?;", '("a" | "bb"){1,2} ";" | "a" "a"? "b"? ";"'),
    ("ab", "(ab?){1,3}b", '("a" "b"?){1,3} "b"'),
    ("ab", "(a|ab){0,2}b?", '("a" | "ab"){0,2} "b"?'),
    ("ab;", "a{1,3}b;|(aa|b){1,2};", '"a"{1,3} "b" ";" | ("aa" | "b"){1,2} ";"'),
)


@pytest.mark.clause("GBNF-1", "GBNF-8")
@pytest.mark.parametrize("core", [None, *CORE_NAMES])
@pytest.mark.parametrize(("alphabet", "pattern", "source"), RECURSIVE)
def test_counted_parts_of_a_recursive_grammar_lose_no_parse(alphabet, pattern, source, core):
    vocabulary = vocabulary_over(alphabet + "()")
    longest = 5 if len(alphabet) > 3 else 8
    words = ("".join(w) for n in range(longest + 1) for w in itertools.product(alphabet, repeat=n))
    inner = [word for word in words if re.fullmatch(pattern, word)]
    members = {("(" * n + word + ")" * n).encode() for word in inner for n in range(6)}
    grammar = f'root ::= "(" root ")" | {source}'
    compiled, _ = ConstraintCompiler(vocabulary).compile(OutputConstraint.grammar(grammar), core=core)
    inside = {word[:n].encode() for word in inner for n in range(len(word) + 1)}
    prefixes = [b"(" * n + p for n in (0, 1, 2) for p in sorted(inside)[:: 1 + len(inside) // 60] if n or p]
    check(compiled.new_matcher(), vocabulary, members, [p for p in prefixes if len(p) <= 3])


def test_127y_is_taken_by_every_core():
    vocabulary = toy_vocabulary()
    source = 'root ::= "(" root ")" | [0-9]{1,3} "x" | [0-9]{1,2} "7y"'
    for core in (None, *CORE_NAMES):
        for text in ((b"1", b"2", b"7", b"y"), (b"12", b"7y"), (b"127", b"y"), (b"(", b"127", b"y", b")")):
            matcher = (
                ConstraintCompiler(vocabulary)
                .compile(OutputConstraint.grammar(source), core=core)[0]
                .new_matcher()
            )
            assert matcher.preview([vocabulary.token_bytes.index(t) for t in text]) == len(text)
            assert matcher.may_end


def chosen(source):
    grammar = parse_gbnf(source, toy_vocabulary()) if "::=" in source else regex_grammar(source)
    return plan(trim(grammar), toy_vocabulary(), ErrorKind.INVALID_GRAMMAR).core_name


STRING = r'"\"" ([^"\\] | "\\" ["\\n]){0,%d} "\""'


@pytest.mark.clause("GBNF-8", "CACHE-13", "SAFE-6")
def test_the_choice_of_a_core():
    assert chosen("[0-9]+") == chosen('root ::= "(" root ")" | [^()]*') == XGRAMMAR
    assert chosen("|".join(f"[a-z]{c}" for c in map(chr, range(0x100, 0x200)))) == XGRAMMAR_DYNAMIC
    for count in (2, 50, 400, 8192):
        assert chosen(f"([^a]|ab){{0,{count}}}") == LLGUIDANCE
        assert (
            chosen("root ::= value\nvalue ::= " + STRING % count + ' | "[" value ("," value)* "]"')
            == LLGUIDANCE
        )
    assert chosen('root ::= item\nitem ::= "a" | "[" (item ","){0,8192} "]"') == LLGUIDANCE
    assert chosen('root ::= "(" root ")" | [a-z]{1,60} [a-c]{0,20}') == XGRAMMAR
    for too_far in ('([^a] | "ab"){0,9} "a"', "[a-z]{1,600} [a-c]{0,20}"):
        with pytest.raises(LimitExceeded) as refused:
            chosen(f'root ::= "(" root ")" | {too_far}')
        assert refused.value.limit == "unfused_repeat_count"


@pytest.mark.clause("CACHE-13", "SAFE-6")
def test_deep_loops_go_where_they_are_cheap_or_are_refused():
    deep = "(" * 9 + '"a"' + ' "b")*' * 9
    assert chosen(f"root ::= {deep}") == LLGUIDANCE
    assert chosen(f'root ::= "(" root ")" | {"(" * 4}"a"{" [b])*" * 4}') == XGRAMMAR
    with pytest.raises(LimitExceeded) as refused:
        chosen('root ::= "(" ' + "(" * 9 + 'root "a"' + ' "b")*' * 9 + ' ")" | "c"')
    assert refused.value.limit == "loop_depth"


@pytest.mark.clause("SAFE-6")
def test_counts_that_use_up_the_lexer_are_a_typed_limit(monkeypatch):
    """The fuel is made small: over a large vocabulary (([^a]|ab){0,90}|([a-z]-){0,90}){0,90} uses it up."""
    monkeypatch.setattr(llguidance_core, "LIMITS", LLParserLimits(step_lexer_fuel=50))
    with pytest.raises(LimitExceeded) as refused:
        ConstraintCompiler(toy_vocabulary()).compile(OutputConstraint.regex("(([^a]|ab){0,9}|[a-z]-){0,9}"))
    assert refused.value.limit == "lexer_fuel" and refused.value.kind is ErrorKind.INVALID_REGEX


def terminals(source):
    fused = fuse(trim(parse_gbnf(source, toy_vocabulary())))
    return [n for expr in fused.rules.values() for n in walk(expr) if isinstance(n, Fused)]


def test_fusion_happens_exactly_where_no_parse_can_be_lost():
    nested = 'root ::= "(" root ")" | '
    assert len(terminals(nested + STRING % 9)) == 1
    assert len(terminals(nested + '("ab" | "c"){0,5} ";"')) == 1
    assert not terminals(nested + '[0-9]{1,3} "x" | [0-9]{1,2} "7y"')
    assert not terminals(nested + '("ab" | "c"){1,5} "a"')
    assert not terminals(nested + '[a-c]{1,5} "x" | "a" "b" "c"')
    assert not terminals(nested + '"x" [a-c]{1,5} [c-d]')
    assert not terminals(nested + '[é]{1,5} "ê"'), "the follower shares its first byte with the repeated part"
    assert len(terminals('root ::= "(" root ")" | s ";"\ns ::= "" | [a-z] s')) == 1


def test_the_proof_refuses_terminals_that_overlap():
    """Two terminals of one place: the longer one would eat what the other parse begins anew."""
    a, b = Fused(repeat(literal("a"), 1, 3)), Fused(repeat(char_class([(97, 98)]), 1, None))
    for follower, lost in ((";", False), ("b", True)):
        rules = {"root": alt([Seq((a, literal(follower), Ref("root"))), Seq((b, literal(";")))])}
        grammar = Grammar({"start": Ref("root"), **rules}, "start")
        assert (find_lost_parse(grammar) is not None) == lost


@pytest.mark.parametrize("pattern", ["(a|b?){0,3}", "a?b?", "(a*b*)*", "a?(b|c?)", "ab", "(a?b?){2}"])
def test_nonempty_takes_away_the_empty_string_only(pattern):
    expr = trim(regex_grammar(pattern)).rules["root"]
    rest = nonempty(expr)
    assert not is_nullable(rest)
    found = re.compile(_python(rest))
    words = ["".join(w) for n in range(5) for w in itertools.product("abc", repeat=n)]
    assert [w for w in words if found.fullmatch(w)] == [w for w in words if w and re.fullmatch(pattern, w)]


def _python(expr):
    """The same pattern in Python's syntax."""
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), rust_regex(expr))


def test_a_count_of_a_count_is_not_lazy():
    doubled = Repeat(Repeat(literal("a"), 2, 2), 0, 1)
    found = re.compile(_python(doubled))
    assert found.fullmatch("") and found.fullmatch("aa") and not found.fullmatch("a")
