"""Formats: the official suite, every short string over telling alphabets, calendars, mutated strings.

Languages are read here as Python regular expressions, written from the expressions node by node.
"""

import calendar
import ipaddress
import itertools
import json
import os
import random
import re
from functools import cache
from pathlib import Path

import pytest

from engine.text.expr import Alt, Bytes, Chars, Repeat, Seq, fold
from engine.text.schema.formats import REFUSED_FORMATS, SERVED_FORMATS, format_language
from oracles.schema import formats as oracle

ROOT = Path(__file__).resolve().parent.parent
SUITE = Path(os.environ.get("COUNTERPROOF_DATA", ROOT.parent / "shared" / "data")) / "json-schema-test-suite"


def _python_source(node, parts):
    match node:
        case Bytes(data):
            return re.escape(data.decode())
        case Chars(ranges):
            return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
        case Seq():
            return "".join(parts)
        case Alt():
            return f"(?:{'|'.join(parts)})"
        case Repeat(_, minimum, maximum):
            return f"(?:{parts[0]}){{{minimum},{'' if maximum is None else maximum}}}"
    raise AssertionError(f"not a regular expression: {node!r}")


@cache
def expression(name):
    return re.compile(fold(format_language(name), _python_source))


def served(name, text):
    """Whether the engine's language of a format has the string."""
    longest = SERVED_FORMATS[name].max_length
    return (longest is None or len(text) <= longest) and expression(name).fullmatch(text) is not None


def left_out(name, text):
    """Whether a string is one of those the table leaves out and the oracle may call valid."""
    match name:
        case "hostname":
            return any(label.lower().startswith("xn--") for label in text.split("."))
        case "date-time" | "time":
            zone = re.search(r":60(?:\.\d+)?[+-]\d\d:(\d\d)$", text)
            last_days = r"\d{4}-(06-30|12-31).*(?:[Zz]|-..:..|00:00)|\d{4}-(07-01|01-01).*\+..:.."
            on_other_day = ":60" in text and name == "date-time" and not re.fullmatch(last_days, text)
            return (zone is not None and int(zone[1]) % 15 != 0) or on_other_day
        case "email":
            literal = text.rpartition("@[")[2].lower()
            other_tag = re.match(r"(?!ipv6:)[a-z0-9-]+:", literal)
            return other_tag is not None or re.search(r"(?:^|[.:])0\d", literal) is not None
        case "iri" | "iri-reference":
            return re.search("[\u200e\u200f\u202a-\u202e]", text) is not None
    return False


def disagreements(name, texts):
    """The strings on which engine and oracle differ; a refusal may have the table's excuse, nothing else."""
    wrong = [text for text in texts if served(name, text) != oracle.valid(name, text)]
    return [text for text in wrong if served(name, text) or not left_out(name, text)]


# Every string of up to this many pieces is judged by the oracle.
EXHAUSTIVE = {
    "duration": (["P", "T", "1Y", "2M", "3D", "4H", "5S", "6W", "7", "p"], 5),
    "email": (["a", ".", "@", '"', "\\", " ", "-"], 6),
    "hostname": (["a", "X", "xn", "n", "-", ".", "_"], 6),
    "ipv4": (["0", "1", "25", "255", "256", ".", "01"], 6),
    "ipv6": (["1", "abcd", ":", "::", "1.2.3.4", "g"], 6),
    "uri": (["a", ":", "/", "?", "#", "[", "]", "@", "%", "%4F", "[::1]"], 5),
    "uri-reference": (["a", "1", ":", "/", "?", "#", "[::1]", "@", "%4f", " "], 5),
    "iri": (["a:", "/", "?", "#", "é", "\ue000", "@", "[::1]", "\u200e", "\ufdd0"], 5),
    "iri-reference": (["a", ":", "/", "?", "#", "é", "\ue000", "@", "😀"], 5),
    "uri-template": (["{", "}", "a", ",", ":1", "*", ".", "+", "%41", "%"], 5),
    "json-pointer": (["/", "~", "0", "1", "a", "é"], 6),
    "relative-json-pointer": (["/", "~", "0", "1", "#", "a", "-"], 5),
    "time": (["23:59:60", "12:44:60", ".5", ".", "Z", "z", "+00:00", "-00:00", "-11:15", "+12:45", " "], 4),
}


VALID = {
    "date-time": ["1998-12-31T23:59:60Z", "1963-06-19t08:30:06.283185+23:59", "2017-01-01T00:44:60+00:45"],
    "date": ["2024-02-29", "1900-12-31", "0001-04-30"],
    "time": ["15:59:60.1-08:00", "08:30:06z", "01:29:60+01:30"],
    "duration": ["P1Y2M3DT4H5M6S", "PT36H", "P2W"],
    "email": ["te.s~t@a.example", '"a b\\""@example.org', "a@[127.0.0.1]", "a@[IPv6:1:2::192.168.0.1]"],
    "hostname": ["www.ex--ample.com", "1host", f"{'a' * 63}.b"],
    "ipv4": ["192.168.0.1", "255.249.199.99"],
    "ipv6": ["1:2:3:4:5:6:7:8", "fe80::a:0:1", "::ffff:192.168.0.1", "1:2:3:4:5:6:7::"],
    "uri": ["http://u:p@[::1]:80/a//b;c?d=/?#e", "urn:a:b", "ldap://[v1.f:e]/c", "http:///x", "a:"],
    "uri-reference": ["//u@h:/a?b#c", "./a:b", "a/b:c", "?", "", "http://192.168.0.1/%7e"],
    "iri": ["http://ƒøø.ßår/é?\ue000#ü", "urn:😀"],
    "iri-reference": ["//ƒøø.ßår/é?\ue000#ü", "é/ü"],
    "uri-template": ["http://x/{+a.b:100,c*}{?d}/é", "{=a}", "'"],
    "uuid": ["2EB8AA08-AA98-11EA-b4aa-73b441d16380"],
    "json-pointer": ["", "/", '/a~0~1/"\\\n//é'],
    "relative-json-pointer": ["0", "10#", "1/a~0//"],
}
# A string that the table says is left out.
NARROWER = {
    "date-time": "1998-12-31T11:48:60-12:11",
    "time": "12:10:60+12:11",
    "duration": "p1y",
    "email": "a@[127.0.0.01]",
    "hostname": "xn--9n2bp8q.example",
    "ipv4": "127.0.0.01",
    "iri": "a:\u200e",
    "iri-reference": "\u202e",
    "relative-json-pointer": "0+1",
}


def suite_strings():
    """Format name, string and expected verdict of every format test of every draft."""
    for path in sorted(SUITE.glob("draft*/optional/format/*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            name = group["schema"].get("format") if isinstance(group["schema"], dict) else None
            for case in group["tests"]:
                if isinstance(case["data"], str):
                    yield name, case["data"], case["valid"]


@pytest.mark.data
@pytest.mark.clause("JSON-48", "JSON-6")
def test_official_suite():
    """No false accept at all; a false refusal only where the table says so."""
    if not SUITE.is_dir():
        pytest.skip("the official suite is not here")
    cases = set(suite_strings())
    wrong = {(name, text, valid) for name, text, valid in cases if name in SERVED_FORMATS}
    wrong = {case for case in wrong if served(case[0], case[1]) != case[2]}
    assert all(valid and name == "hostname" and left_out(name, text) for name, text, valid in wrong)
    assert len(cases) > 400
    assert {name for name, _, _ in cases} <= {*SERVED_FORMATS, *REFUSED_FORMATS, "unknown"}


@pytest.mark.clause("JSON-6", "JSON-48")
def test_tables():
    """Each name is served or refused with a reason; each entry says truly what it leaves out."""
    assert not set(SERVED_FORMATS) & set(REFUSED_FORMATS)
    assert set(VALID) == set(SERVED_FORMATS)
    assert {name for name, served_format in SERVED_FORMATS.items() if served_format.narrower} == set(NARROWER)
    assert all(REFUSED_FORMATS.values())
    assert [format_language(name) for name in (*REFUSED_FORMATS, "unknown", "Date", "")] == [None] * (
        len(REFUSED_FORMATS) + 3
    )
    for name, text in NARROWER.items():
        assert not served(name, text)


@pytest.mark.clause("JSON-48")
@pytest.mark.parametrize("name", SERVED_FORMATS)
def test_valid_and_mutated_strings(name):
    """Known valid strings are served; engine and oracle agree on them with one or two characters changed."""
    assert [text for text in VALID[name] if not served(name, text)] == []
    rng = random.Random(name)
    texts = {_mutated(rng, rng.choice(VALID[name])) for _ in range(3000)}
    assert disagreements(name, sorted(texts)) == []


def _mutated(rng, text):
    for _ in range(rng.randint(1, 2)):
        at, character = rng.randrange(len(text) + 1), rng.choice(ALPHABET + text)
        text = text[:at] + rng.choice(["", character]) + text[at + rng.randint(0, 1) :]
    return text


ALPHABET = "0123456789abfgxzPTWZ:/?#[]@!$&'()*+,;=-._~%\"\\^`{|}<> \n\x00\x7fé٣\u2028\ue000\uffff😀"


@pytest.mark.clause("JSON-48")
@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_every_short_string(name):
    pieces, most = EXHAUSTIVE[name]
    texts = {
        "".join(chosen) for count in range(most + 1) for chosen in itertools.product(pieces, repeat=count)
    }
    assert disagreements(name, sorted(texts)) == []


@pytest.mark.clause("JSON-48")
def test_every_date():
    """All four-digit years that show a rule, with every month and day of two digits."""
    for year in (0, 1, 4, 96, 100, 400, 1582, 1900, 1999, 2000, 2023, 2024, 2100, 9996, 9999):
        for month, day in itertools.product(range(14), range(40)):
            exists = 1 <= month <= 12 and 1 <= day <= _month_length(year, month)
            assert served("date", f"{year:04}-{month:02}-{day:02}") == exists
    leap_years = [year for year in range(10_000) if served("date", f"{year:04}-02-29")]
    assert leap_years == [year for year in range(10_000) if calendar.isleap(year)]


def _month_length(year, month):
    return 29 if month == 2 and calendar.isleap(year) else calendar.mdays[month]


def _leap_offsets():
    for minutes in range(-24 * 60 + 1, 24 * 60):
        zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        yield minutes, zone


@pytest.mark.clause("JSON-48")
def test_every_leap_second():
    """Under each offset one local minute has a second 60; in a date-time it ends June or December in UTC."""
    for minutes, zone in _leap_offsets():
        day, local = divmod(23 * 60 + 59 + minutes, 24 * 60)
        for shift in (-60, -1, 0, 1, 60):
            hour, minute = divmod((local + shift) % (24 * 60), 60)
            expected = shift == 0 and minutes % 15 == 0
            assert served("time", f"{hour:02}:{minute:02}:60{zone}") == expected
        time = f"T{local // 60:02}:{local % 60:02}:60{zone}"
        for month, last in ((6, 30), (12, 31), (3, 31), (9, 30)):
            dates = [f"2000-{month:02}-{last:02}", f"2001-{month % 12 + 1:02}-01"]
            expected = [minutes % 15 == 0 and month % 6 == 0 and place == day for place in (0, 1)]
            assert [served("date-time", date + time) for date in dates] == expected


@pytest.mark.clause("JSON-48")
def test_addresses_against_the_standard_library():
    def is_valid(kind, text):
        try:
            return bool(kind(text))
        except ValueError:
            return False

    colons = ["".join(chosen) for count in range(16) for chosen in itertools.product("1:", repeat=count)]
    assert [t for t in colons if served("ipv6", t) != is_valid(ipaddress.IPv6Address, t)] == []
    octets = [
        f"{prefix}{n}{suffix}" for n in range(1001) for prefix, suffix in (("", ".0.0.9"), ("1.0.0.", ""))
    ]
    assert [t for t in octets if served("ipv4", t) != is_valid(ipaddress.IPv4Address, t)] == []
    # A mailbox's `::` stands for two groups or more, an address's for one or more.
    shorter = {t for t in colons if "::" in t and len(t.replace(":", " ").split()) == 7}
    assert {t for t in colons if served("email", f"a@[IPv6:{t}]") != served("ipv6", t)} == {
        t for t in shorter if served("ipv6", t)
    }


@pytest.mark.clause("JSON-48")
def test_lengths_of_host_names():
    assert [n for n in range(1, 80) if served("hostname", "a" * n)] == list(range(1, 64))
    for start in ("x", "xn", "xn-", "X-", "a-"):
        assert [n for n in range(1, 80) if served("hostname", start + "b" * n)] == list(
            range(1, 64 - len(start))
        )
    long = ".".join(["a" * 63] * 3)
    assert [n for n in range(1, 64) if served("hostname", f"{long}.{'b' * n}")] == list(range(1, 62))


@pytest.mark.clause("JSON-48")
def test_characters_of_identifiers():
    """At every edge of the tables of RFC 3987 and RFC 6570, and in all of ASCII."""
    blocks = [(0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF), (0xE1000, 0xEFFFD)]
    blocks += [(plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)]
    private = [(0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]
    directions = {0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E}
    edges = {edge + step for low, high in blocks + private for edge in (low, high) for step in (-1, 0, 1)}
    codes = edges | directions | set(range(0x200D, 0x2031)) | set(range(128, 0x180))
    for code in sorted(c for c in codes if c <= 0x10FFFF and not 0xD800 <= c <= 0xDFFF):
        in_ucs = any(low <= code <= high for low, high in blocks)
        in_private = any(low <= code <= high for low, high in private)
        in_iri = in_ucs and code not in directions
        assert served("iri", f"a:{chr(code)}") == in_iri
        assert served("iri", f"a:?{chr(code)}") == (in_iri or in_private)
        assert served("iri", f"a:#{chr(code)}") == in_iri
        assert served("uri-template", chr(code)) == (in_ucs or in_private)
        assert not served("uri", f"a:{chr(code)}")
    literals = set(map(chr, range(0x21, 0x7F))) - set('"%<>\\^`{|}')
    assert {chr(code) for code in range(128) if served("uri-template", chr(code))} == literals


@pytest.mark.clause("JSON-48")
@pytest.mark.parametrize("name", SERVED_FORMATS)
def test_languages_are_small(name):
    """Each is one terminal of a lexer: its size is paid at every compile."""
    sizes = fold(format_language(name), lambda node, parts: 1 + sum(parts))
    assert sizes < 2500
