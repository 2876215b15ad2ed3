"""The strings each `format` of JSON Schema allows, as regular expressions over decoded characters.

`format_language` gives the whole-match language of a served format; where the format also has a longest
string, `SERVED_FORMATS[name].max_length` tells it and the caller applies it. Every string of a language is
valid. `narrower` names strings that are left out though a reading of the definition calls them valid, empty
where there are none: the complement of a narrower language must not stand for "not this format". What is
not served is in `REFUSED_FORMATS` with the reason. Languages are built once, when first asked for.
"""

from collections.abc import Mapping
from functools import cache

import attrs

from engine.text.expr import Expr
from engine.text.schema.format_hosts import EMAIL, HOSTNAME, HOSTNAME_MAX_LENGTH, IPV4, IPV6
from engine.text.schema.format_parts import language
from engine.text.schema.format_times import DATE, DATE_TIME, DURATION, TIME
from engine.text.schema.format_uris import IRI, IRI_REFERENCE, URI, URI_REFERENCE, URI_TEMPLATE


@attrs.frozen
class Format:
    """One served format: where it is defined, its language as source, and what that leaves out."""

    definition: str
    source: str
    narrower: str = ""
    max_length: int | None = None


_UUID = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_JSON_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_RELATIVE_JSON_POINTER = f"(?:0|[1-9][0-9]*)(?:#|{_JSON_POINTER})"
_LEAP = "a leap second with an offset that is no multiple of 15 minutes"
_LEAP_DAY = f"{_LEAP}, or elsewhere than at the end of June or December in UTC"
_DIRECTIONS = "characters that steer writing direction, which section 4.1 forbids beside the ABNF"
_OCTETS = "decimal octets with leading zeros, which some readers take for octal"

SERVED_FORMATS: Mapping[str, Format] = {
    "date-time": Format("RFC 3339, date-time", DATE_TIME, narrower=_LEAP_DAY),
    "date": Format("RFC 3339, full-date", DATE),
    "time": Format("RFC 3339, full-time", TIME, narrower=_LEAP),
    "duration": Format("RFC 3339, appendix A", DURATION, narrower="unit letters in lower case"),
    "email": Format(
        "RFC 5321, Mailbox", EMAIL, narrower=f"{_OCTETS}; address literals with a tag that nobody registered"
    ),
    "hostname": Format(
        "RFC 1123, 2.1",
        HOSTNAME,
        narrower="labels that begin with xn--, which only the tables of IDNA can check",
        max_length=HOSTNAME_MAX_LENGTH,
    ),
    "ipv4": Format("RFC 2673, dotted-quad", IPV4, narrower=_OCTETS),
    "ipv6": Format("RFC 4291, 2.2", IPV6),
    "uri": Format("RFC 3986, URI", URI),
    "uri-reference": Format("RFC 3986, URI-reference", URI_REFERENCE),
    "iri": Format("RFC 3987, IRI", IRI, narrower=_DIRECTIONS),
    "iri-reference": Format("RFC 3987, IRI-reference", IRI_REFERENCE, narrower=_DIRECTIONS),
    "uri-template": Format("RFC 6570, URI-Template", URI_TEMPLATE),
    "uuid": Format("RFC 4122, UUID", _UUID),
    "json-pointer": Format("RFC 6901, json-pointer", _JSON_POINTER),
    "relative-json-pointer": Format(
        "Relative JSON Pointer, draft 01",
        _RELATIVE_JSON_POINTER,
        narrower="the index manipulation of later drafts, as in 0+1",
    ),
}
REFUSED_FORMATS: Mapping[str, str] = {
    "regex": "balanced groups are beyond a regular language; write a pattern for the expressions you want",
    "idn-email": "its domain labels need the tables of IDNA; use email",
    "idn-hostname": "its labels need the tables of IDNA; use hostname",
}


@cache
def format_language(name: str) -> Expr | None:
    """The whole-match language of a served format over decoded characters; None for any other name."""
    served = SERVED_FORMATS.get(name)
    return None if served is None else language(served.source)
