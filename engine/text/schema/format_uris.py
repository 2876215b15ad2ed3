"""URIs of RFC 3986, IRIs of RFC 3987 and URI templates of RFC 6570, rule by rule as their ABNF stands."""

from collections.abc import Iterable

from engine.text.schema.format_hosts import IPV6
from engine.text.schema.format_parts import one_of


def _ranges(pairs: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in pairs)


_PLANES = [(plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)]
_UCS_ABOVE = _ranges([(0xF900, 0xFDCF), (0xFDF0, 0xFFEF), *_PLANES, (0xE1000, 0xEFFFD)])
_UCS = _ranges([(0xA0, 0xD7FF)]) + _UCS_ABOVE
# An IRI must not contain the characters that steer writing direction (RFC 3987, 4.1): 200E, 200F, 202A-202E.
_UCS_OF_IRI = _ranges([(0xA0, 0x200D), (0x2010, 0x2029), (0x202F, 0xD7FF)]) + _UCS_ABOVE
_PRIVATE = _ranges([(0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)])

_PERCENT = "%[0-9A-Fa-f]{2}"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_IP_FUTURE = r"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:\-]+"


def _uri_rules(ucs: str, private: str) -> tuple[str, str]:
    """An identifier with its scheme, and one that may be relative; `ucs`, `private` are members of classes.

    A first path segment without a scheme before it has no colon: it would be read as a scheme.
    """

    def some(extra: str) -> str:
        return f"(?:[A-Za-z0-9._~!$&'()*+,;={extra}{ucs}-]|{_PERCENT})"

    segment, first_segment = some(":@"), some("@")
    segments = f"(?:/{segment}*)*"
    host = one_of([rf"\[(?:{IPV6}|{_IP_FUTURE})\]", f"{some('')}*"])
    authority = f"(?:{some(':')}*@)?{host}(?::[0-9]*)?"
    rooted = one_of([f"//{authority}{segments}", f"/(?:{segment}+{segments})?"])
    in_query = f"(?:{some(':@/?')}|[{private}])" if private else some(":@/?")
    rest = rf"(?:\?{in_query}*)?(?:#{some(':@/?')}*)?"
    absolute = f"{_SCHEME}:(?:{rooted}|{segment}+{segments})?{rest}"
    relative = f"(?:{rooted}|{first_segment}+{segments})?{rest}"
    return absolute, one_of([absolute, relative])


URI, URI_REFERENCE = _uri_rules("", "")
IRI, IRI_REFERENCE = _uri_rules(_UCS_OF_IRI, _PRIVATE)

_LITERAL = f"(?:[!#$&'()*+,\\-./0-9:;=?@A-Z\\[\\]_a-z~{_UCS}{_PRIVATE}]|{_PERCENT})"
_NAME_CHARACTER = f"(?:[A-Za-z0-9_]|{_PERCENT})"
_NAME = rf"{_NAME_CHARACTER}+(?:\.{_NAME_CHARACTER}+)*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
