"""Schema patterns beyond the list of the regex entry: anchors anywhere, escaped marks, bare closing brackets.

Judged by the oracle's search over all short texts, and by its reading of the same pattern.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ErrorKind, RefusedConstruct, RequestError, SyntaxFault
from engine.text import automaton
from engine.text.regex import parse_pattern
from engine.text.regex_anchors import MOST_ANCHORS
from engine.text.schema.strings import search_language
from oracles.schema import regex
from property_tests.schema_words import accepts, fault, is_valid

TEXTS = ["".join(letters) for size in range(5) for letters in itertools.product("ab\n", repeat=size)]


def agrees(pattern, texts=TEXTS):
    language = search_language(pattern)
    for text in texts:
        assert automaton.matches(language, text) is regex.search(pattern, text), (pattern, text)


@pytest.mark.clause("JSON-16")
@pytest.mark.parametrize(
    "pattern",
    [
        *("(^a)", "(a$)", "^(a|b)$", "(^a|b$)", "(^a$)|b", "(^(a|ab)$)", "^$|(^(?:a+b){0,2}a$)"),
        *(
            "a^",
            "a^b",
            "$a",
            "$^",
            "^^a",
            "a$$",
            "a$b",
            "a|b^a",
            "(?:a|^b)",
            "(a|^)b",
            "a(b|$)",
            "(^|b)a($|b)",
        ),
        *("a*^b", "a*(^b)?", "(a|b*)^(a?)", "a$b*", "(a$)?b*", "(a?$)b?", "((^a)?b)?$"),
        *("a?^b?$a?", "(a^b)?", "(a^b)?a", "(a^b|a)$", "(^|a)(^|b)a", "(b|$)(a|$)", "(^)?(^)a"),
    ],
)
def test_anchors_mean_the_ends_of_the_text_wherever_they_stand(pattern):
    agrees(pattern)


def _joined(parts):
    return st.lists(parts, min_size=1, max_size=3).map("".join)


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "^", "$", "a*", "b?", "[^a]", "a{2}"]),
    lambda parts: st.one_of(
        _joined(parts),
        st.tuples(parts, parts).map("|".join).map("({})".format),
        _joined(parts).map("({})?".format),
    ),
    max_leaves=7,
)


@pytest.mark.clause("JSON-16", "JSON-13")
@given(PATTERNS)
def test_patterns_with_anchors_are_searched_as_the_oracle_does(pattern):
    agrees(pattern, TEXTS[:40])


@pytest.mark.parametrize("pattern", ["(^a)*", "(a$)+", "(^a){2}", "(?:b|(^a)?)*", "(^)*"])
def test_an_anchor_inside_what_repeats_is_refused(pattern):
    error = fault({"pattern": pattern})
    assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/pattern")
    assert "anchor" in error.message


def test_many_anchors_inside_one_expression_are_refused():
    search_language("(^a|b)" * MOST_ANCHORS)
    with pytest.raises(RefusedConstruct):
        search_language("(^a|b)" * (MOST_ANCHORS + 1))


@pytest.mark.clause("JSON-16")
@pytest.mark.parametrize("mark", "!\"#%&',-:;<=>@_`~ ")
def test_an_escaped_mark_is_the_mark(mark):
    for pattern, texts in (
        (f"^\\{mark}$", (mark, "\\" + mark, "", "\\", "a")),
        (f"^[a\\{mark}]$", (mark, "a", "\\", "b")),
        (f"^[^\\{mark}]+$", ("ab", f"a{mark}", "\\")),
    ):
        agrees(pattern, texts)


@pytest.mark.parametrize("pattern", ["a]", "]", "a}b", "[a]]", "^}+$", "(])"])
def test_a_bracket_that_closes_nothing_is_itself(pattern):
    agrees(
        pattern, ["".join(letters) for size in range(4) for letters in itertools.product("a]}b", repeat=size)]
    )


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        *((f"\\{letter}", ErrorKind.UNSUPPORTED_JSON_SCHEMA) for letter in ("a", "e", "Z", "é", "q")),
        *(
            (pattern, ErrorKind.INVALID_JSON_SCHEMA)
            for pattern in ("(", ")", "a)", "^*", "a$*", "{2}", "x{", "[")
        ),
    ],
)
def test_what_has_no_sure_meaning_stays_refused(pattern, kind):
    assert fault({"pattern": pattern}).kind is kind


@pytest.mark.clause("REGEX-6", "REGEX-7")
@pytest.mark.parametrize("pattern", ["(^a)", "a$b", "\\-", "\\@", "a]", "a}"])
def test_the_regex_entry_keeps_its_own_list(pattern):
    parse_pattern(pattern, lenient=True)
    with pytest.raises(RequestError) as caught:
        parse_pattern(pattern)
    assert isinstance(caught.value, SyntaxFault | RefusedConstruct)


@pytest.mark.clause("JSON-16", "JSON-39")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(^ab$)", "maxLength": 3},
        {"type": "string", "pattern": "^(\\-|\\@)", "maxLength": 2},
        {"type": "string", "not": {"pattern": "(^a|b$)"}, "maxLength": 2},
        {"type": "string", "allOf": [{"pattern": "(a|^b)"}, {"pattern": "(b$|a)"}], "maxLength": 2},
    ],
)
def test_in_a_schema(schema):
    for text in ("", "a", "b", "ab", "ba", "bb", "abb", "-", "@", "-a", "a-", "x", "xa"):
        value = f'"{text}"'
        assert accepts(schema, value) is is_valid(schema, value), text


@pytest.mark.clause("EMPTY-6")
def test_a_pattern_that_no_text_has_is_a_contradiction():
    assert fault({"type": "string", "pattern": "a^b"}).kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA
