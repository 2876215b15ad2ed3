"""Patterns and formats of the schema oracle: against derivatives, `re`, calendars, `ipaddress` and tables."""

import datetime
import ipaddress
import itertools
import random
import re

import pytest

from experiments.gates import languages
from oracles.enumerate_regex import matches
from oracles.schema import formats
from oracles.schema.regex import PatternError, Unsupported, full_match, is_pattern, search


@pytest.mark.parametrize("seed", range(60))
def test_the_matcher_agrees_with_derivatives(seed):
    rng = random.Random(seed)
    alphabet = rng.choice(["ab", "abc", "aé", "a😀", 'a"', "01-", "a]^", "()"])
    source = languages.random_regex(rng, alphabet)
    node = source.rules[languages.ROOT]
    for length in range(5):
        for picked in itertools.product(alphabet + rng.choice("b_ 7"), repeat=length):
            text = "".join(picked)
            assert full_match(source.text, text) == matches(node, text), (source.text, text)


ATOMS = ["a", "b", ".", "[ab]", "[^a]", "(?:ab)", "(a|b)", r"\w", r"\b", r"\B", "^", "$", "(?=a)", "(?!b)"]
ATOMS += ["(?<=a)", "(?<!b)", r"\d", r"\s", "(?=ab|b$)", "(?!^b)"]


def _random_pattern(rng):
    parts = []
    for _ in range(rng.randint(1, 4)):
        atom = rng.choice(ATOMS)
        # An assertion takes no quantifier under the u flag.
        quantified = (
            atom[0] not in "^$" and not atom.startswith(("(?=", "(?!", "(?<")) and atom not in (r"\b", r"\B")
        )
        parts.append(
            atom + (rng.choice(["", "*", "+", "?", "{2}", "{1,2}", "{0,3}?", "{2,}"]) if quantified else "")
        )
    cut = rng.randrange(len(parts) + 1)
    return "".join(parts[:cut]) + rng.choice(["", "", "|"]) + "".join(parts[cut:])


@pytest.mark.parametrize("seed", range(300))
def test_search_agrees_with_re_where_the_two_languages_do(seed):
    rng = random.Random(seed)
    pattern = _random_pattern(rng)
    # Python's $ also stands before a last newline, and its \\B never holds in the empty text.
    compiled = re.compile(pattern.replace("$", r"\Z").replace(r"\B", r"(?!\b)"), re.ASCII)
    for length in range(5):
        for picked in itertools.product("ab 1\n" if length < 4 else "ab1", repeat=length):
            text = "".join(picked)
            assert search(pattern, text) == (compiled.search(text) is not None), (pattern, text)


def test_long_texts_and_nested_repeats_do_not_explode():
    assert not search("^(a+)+$", "a" * 3000 + "b")
    assert search("^(?:(?:a|a)*)*b$", "a" * 3000 + "b")
    assert search("^.{0,8192}$", "x" * 8192) and not search("^.{0,8192}$", "x" * 8193)
    assert search("(?:ab){50,100000}", "ab" * 60)


@pytest.mark.clause("JSON-15")
@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"^\d+$", ["0", "19"], ["٣", ""]),
        (r"^\w$", ["_", "Z"], ["é", "-"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\u2028", "\u3000", "\t"], ["\u200b", "\u180e", "\x1c", "\x85"]),
        (r"^\S$", ["\u200b", "\x85"], ["\ufeff"]),
        ("^.$", ["\x85", "😀", "\v", "\ud83d"], ["\n", "\r", "\u2028", "\u2029", ""]),
        ("^a$", ["a"], ["a\n", "\na", "b\na"]),
        (r"^[\b]$", ["\x08"], ["b"]),
        (r"^\cJ\x41\u0042\u{1F600}\uD83D\uDE00\0$", ["\nAB😀😀\0"], []),
        (r"^[😀-😂]$", ["😁"], ["\ud83d", "😃"]),
        (r"^\uD83D$", ["\ud83d"], ["😀"]),
        (r"^\p{L}\P{L}\p{Lu}\p{General_Category=Decimal_Number}$", ["é1É٣"], ["11É٣", "ééÉ٣", "é1é٣"]),
        (r"^[\p{L}\d]+$", ["é1"], ["-"]),
        (r"^[^\p{L}]$", ["1"], ["é"]),
        (r"^[\W\d]$", ["1", "-"], ["a"]),
        (r"^[\s\S]$", ["\n", "a"], [""]),
        ("^[^]$", ["\n"], [""]),
        ("[]", [], ["", "a"]),
        ("", ["", "a"], []),
        ("a||b", ["", "z"], []),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        (r"^[a\-z]$", ["-", "a", "z"], ["b"]),
        (r"^\-\_\@\"$", ['-_@"'], []),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^[+--]$", [",", "-", "+"], ["."]),
        ("(?<year>x)", ["x"], ["y"]),
        (r"\ba", ["a", "é a"], ["ba"]),
        (r"^(?!.*\.\.)[a.]+$", ["a.a"], ["a..a"]),
        ("(?<=€)[0-9]", ["€5"], ["$5"]),
    ],
)
def test_what_patterns_mean(pattern, inside, outside):
    assert [text for text in inside + outside if search(pattern, text)] == inside


def test_patterns_by_the_letter_of_the_standard():
    legal = [
        "",
        "a|",
        r"\/",
        r"(?<a>.)\k<a>",
        r"\1(.)",
        r"[\-]",
        "a{0}",
        "(?=a)",
        r"\p{Lu}",
        "[^]",
        r"\$",
        "a{2,}?",
    ]
    broken = [
        "(",
        ")",
        "[",
        "a**",
        "*",
        "a{2,1}",
        r"\a",
        r"\-",
        "]",
        "}",
        "{",
        "a{",
        r"\Z",
        r"\u{110000}",
        r"\u00",
        "[b-a]",
    ]
    broken += [
        r"[\d-z]",
        "(?=a)*",
        "^*",
        r"\c1",
        r"\k<a>",
        r"\1",
        r"\x1",
        "(?a)",
        "(?i)a",
        "(?<1>a)",
        "\\",
        r"\00",
        "(?P<n>a)",
    ]
    assert [pattern for pattern in legal + broken if is_pattern(pattern)] == legal
    for pattern in (r"(.)\1", r"\p{Script=Greek}", "(?i:a)"):
        with pytest.raises(Unsupported):
            search(pattern, "aa")
    with pytest.raises(PatternError):
        search("(", "")


@pytest.mark.parametrize("year", [0, 1, 4, 100, 1900, 1999, 2000, 2024, 2100, 9999])
def test_dates_are_those_of_the_calendar(year):
    for month, day in itertools.product(range(15), range(34)):
        text = f"{year:04d}-{month:02d}-{day:02d}"
        try:
            real = bool(
                datetime.date(year or 400, month, day)
            )  # year 0 is a leap year; the class begins at 1
        except ValueError:
            real = False
        assert formats.valid("date", text) == real, text


@pytest.mark.parametrize("seed", range(20))
def test_leap_seconds_come_at_the_end_of_a_utc_day(seed):
    rng = random.Random(seed)
    for _ in range(200):
        hour, minute, ahead, more = rng.randrange(24), rng.randrange(60), rng.randrange(24), rng.randrange(60)
        if rng.random() < 0.5:
            hour, minute = divmod((23 * 60 + 59 + ahead * 60 + more) % 1440, 60)
        local = datetime.datetime(2000, 1, 2, hour, minute)
        utc = local - datetime.timedelta(hours=ahead, minutes=more)
        text = f"{hour:02d}:{minute:02d}:60+{ahead:02d}:{more:02d}"
        assert formats.valid("time", text) == ((utc.hour, utc.minute) == (23, 59)), text


@pytest.mark.parametrize("seed", range(20))
def test_addresses_agree_with_the_standard_library(seed):
    rng = random.Random(seed)
    found = set()
    for _ in range(500):
        parts = [
            rng.choice(["", "0", "ab", "12345", "FFFF", "1.2.3.4", "1", "255.0.0.256"])
            for _ in range(rng.randint(2, 9))
        ]
        for name, text, read in (
            ("ipv6", ":".join(parts), ipaddress.IPv6Address),
            ("ipv4", ".".join(part[:3] for part in parts[:4]), ipaddress.IPv4Address),
        ):
            try:
                real = bool(read(text) is not None)
            except ValueError:
                real = False
            assert formats.valid(name, text) == real, text
            found.add((name, real))
    assert ("ipv6", True) in found


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        (
            "uri",
            ["a:", "a://", "a:b:c", "a+1.-:?#", "x://u:p@[v1.a:b]:80/;,?#/?"],
            ["1a:b", "a://[::1", "a:[", "a:%1", "a:#b#c"],
        ),
        ("uri", ["a://h:", "a:/", "a://?#"], ["a://h:1a", "a://a b", "", "a", "a:\\"]),
        ("uri-reference", ["", "?", "#", "a/b:c", "./b:c", "//"], ["a:b c", ":a", "[", "a\nb"]),
        (
            "iri",
            ["e:é", "e://é@é:1/é?é\ue000#é"],
            ["é:x", "e:\ue000", "e:\ufffe", "e:\x80"],
        ),
        (
            "email",
            ['"a\\"b"@x', "a+b@x.y", "a@[IPv6:1::2]", "a@[ipv6:1:2:3:4:5:6:001.2.3.4]"],
            ['"a"b"@x', "a@x.", "a@[1.2.3]", "a@[x-y:z]", "a@[IPv6:1:2:3:4:5:6:7::]", "a@-x", 'a"b@x', "a@"],
        ),
        ("hostname", ["a", "a-b.c", "1.2", "xn--mnchen-3ya"], ["", "a..b", "-a", "a_b", "xn--a", "é"]),
        ("duration", ["P1Y2M3DT4H5M6S", "PT1M", "P1W"], ["P", "PT", "P1YT", "P1Y1D", "P1.5D", "p1d", "P1S"]),
        ("json-pointer", ["", "/", "/~01"], ["a", "/~", "/~2"]),
        ("relative-json-pointer", ["0", "1#", "10/a"], ["", "00", "-1", "1##", "#", "1a"]),
        (
            "uuid",
            ["01234567-89ab-CDEF-0000-000000000000"],
            ["0" * 36, "{01234567-89ab-cdef-0000-000000000000}"],
        ),
        ("uri-template", ["{+a,b:3,c*}{?%41.b}é"], ["{", "}", "{a b}", "{a:0}", "{a*b}", "{a.}", "{++a}"]),
        (
            "date-time",
            ["2000-02-29T00:00:00Z", "2000-02-29t23:59:60.5z"],
            ["2000-02-29 00:00:00Z", "2000-02-30T00:00:00Z", "2000-02-29T00:00:00"],
        ),
        ("time", ["00:00:00.0-23:59"], ["00:00:00", "00:00:00.Z", "00:00:00+0000", "00:00:00Z "]),
    ],
)
def test_formats_by_table(name, inside, outside):
    assert [text for text in inside + outside if formats.valid(name, text)] == inside


def test_an_unknown_format_has_no_answer():
    assert formats.valid("colour", "red") is None
