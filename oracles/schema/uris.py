"""Formats built on RFC 3986, RFC 3987 and RFC 6570: uri, uri-reference, iri, iri-reference, uri-template."""

import string

from oracles.schema.hosts import is_digits, is_ipv6

_ALPHA = set(string.ascii_letters)
_UNRESERVED = _ALPHA | set(string.digits) | set("-._~")
_SUB_DELIMS = set("!$&'()*+,;=")
_HEX = set(string.hexdigits)
_PATH = _UNRESERVED | _SUB_DELIMS | set(":@/")
_QUERY = _PATH | set("?")
_USER = _UNRESERVED | _SUB_DELIMS | set(":")
_NAME = _UNRESERVED | _SUB_DELIMS
_PLANE_ZERO = ((0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF))
_PRIVATE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))


def _is_ucs(character: str) -> bool:
    """RFC 3987 ucschar."""
    code = ord(character)
    if code < 0x10000:
        return any(low <= code <= high for low, high in _PLANE_ZERO)
    return code < 0xF0000 and code & 0xFFFF < 0xFFFE and not 0xE0000 <= code < 0xE1000


def _is_private(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _PRIVATE)


def _made_of(text: str, allowed: set[str], ucs: bool = False, private: bool = False) -> bool:
    """Whether the text is allowed characters, percent-encoded octets and, on request, those of RFC 3987."""
    at = 0
    while at < len(text):
        if text[at] == "%":
            if len(text) < at + 3 or not set(text[at + 1 : at + 3]) <= _HEX:
                return False
            at += 3
            continue
        beyond = (ucs and _is_ucs(text[at])) or (private and _is_private(text[at]))
        if text[at] not in allowed and not beyond:
            return False
        at += 1
    return True


def is_uri(text: str) -> bool:
    """RFC 3986 URI: with a scheme."""
    return _is_reference(text, ucs=False, scheme_needed=True)


def is_uri_reference(text: str) -> bool:
    """RFC 3986 URI-reference: absolute or relative."""
    return _is_reference(text, ucs=False, scheme_needed=False)


def is_iri(text: str) -> bool:
    """RFC 3987 IRI."""
    return _is_reference(text, ucs=True, scheme_needed=True)


def is_iri_reference(text: str) -> bool:
    """RFC 3987 IRI-reference."""
    return _is_reference(text, ucs=True, scheme_needed=False)


def _is_reference(text: str, ucs: bool, scheme_needed: bool) -> bool:
    rest, _, fragment = text.partition("#")
    rest, _, query = rest.partition("?")
    if not _made_of(fragment, _QUERY, ucs) or not _made_of(query, _QUERY, ucs, private=ucs):
        return False
    scheme, colon, after = rest.partition(":")
    if colon and _is_scheme(scheme):
        return _is_hierarchy(after, ucs)
    if scheme_needed or ":" in rest.partition("/")[0]:
        return False
    return _is_hierarchy(rest, ucs)


def _is_scheme(text: str) -> bool:
    return bool(text) and text[0] in _ALPHA and set(text) <= _ALPHA | set(string.digits) | set("+-.")


def _is_hierarchy(text: str, ucs: bool) -> bool:
    """Check `//authority/path`, or a path alone."""
    if text.startswith("//"):
        authority, slash, path = text[2:].partition("/")
        return _is_authority(authority, ucs) and _made_of(slash + path, _PATH, ucs)
    return _made_of(text, _PATH, ucs)


def _is_authority(text: str, ucs: bool) -> bool:
    user, at, host = text.rpartition("@")
    if at and not _made_of(user, _USER, ucs):
        return False
    if host.startswith("["):
        literal, bracket, port = host[1:].partition("]")
        return bool(bracket) and _is_ip_literal(literal) and _is_port(port)
    name, colon, port = host.partition(":")
    return _made_of(name, _NAME, ucs) and _is_port(colon + port)


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and (len(text) == 1 or is_digits(text[1:])))


def _is_ip_literal(text: str) -> bool:
    if text[:1] in ("v", "V"):
        version, dot, address = text[1:].partition(".")
        return bool(version and dot and address) and set(version) <= _HEX and set(address) <= _USER
    return is_ipv6(text)


_LITERAL = {chr(code) for code in range(0x21, 0x7F)} - set('"%<>\\^`{|}')
_OPERATORS = "+#./;?&=,!@|"
_VARCHAR = _ALPHA | set(string.digits) | {"_"}


def is_uri_template(text: str) -> bool:
    """RFC 6570 with its erratum on the apostrophe: literals, and expressions in braces."""
    while text:
        literal, brace, rest = text.partition("{")
        if not _made_of(literal, _LITERAL, ucs=True, private=True):
            return False
        expression, closing, text = rest.partition("}")
        if brace and not (closing and _is_expression(expression)):
            return False
    return True


def _is_expression(text: str) -> bool:
    variables = text[1:] if text[:1] and text[0] in _OPERATORS else text
    return all(map(_is_variable, variables.split(",")))


def _is_variable(text: str) -> bool:
    name, colon, length = text.partition(":")
    if colon:
        if not (is_digits(length) and len(length) <= 4 and length[0] != "0"):
            return False
    else:
        name = name.removesuffix("*")
    return all(part and _made_of(part, _VARCHAR) for part in name.split("."))
