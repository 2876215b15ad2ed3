"""The words of a grammar in the project's rule form, by brute force: a slow, plain reading of each node."""

from collections.abc import Iterable

from engine.text.rules import Alt, Bytes, Chars, Expr, Grammar, Ref, Repeat, Seq


def words(grammar: Grammar, alphabet: str, max_len: int) -> frozenset[str]:
    """Every word of at most `max_len` characters, all from `alphabet`, that the grammar derives."""
    derived: dict[str, frozenset[str]] = dict.fromkeys(grammar.rules, frozenset())
    while True:
        longer = {name: _words(expr, derived, alphabet, max_len) for name, expr in grammar.rules.items()}
        if longer == derived:
            return derived[grammar.root]
        derived = longer


def expr_words(expr: Expr, alphabet: str, max_len: int) -> frozenset[str]:
    """The same for an expression without references."""
    return words(Grammar({"root": expr}, "root"), alphabet, max_len)


def _words(expr: Expr, derived: dict[str, frozenset[str]], alphabet: str, max_len: int) -> frozenset[str]:
    def of(part: Expr) -> frozenset[str]:
        return _words(part, derived, alphabet, max_len)

    match expr:
        case Bytes(data):
            text = data.decode()
            return frozenset([text] if len(text) <= max_len and set(text) <= set(alphabet) else [])
        case Chars(ranges):
            return frozenset(c for c in alphabet for low, high in ranges if low <= ord(c) <= high and max_len)
        case Ref(name):
            return derived[name]
        case Alt(items):
            return frozenset().union(*(of(item) for item in items))
        case Seq(items):
            return _joined((of(item) for item in items), max_len)
        case Repeat(body, minimum, maximum):
            return _repeated(of(body), minimum, maximum, max_len)
    raise AssertionError(f"no text terminal: {expr}")


def _joined(parts: Iterable[frozenset[str]], max_len: int) -> frozenset[str]:
    found = frozenset([""])
    for part in parts:
        found = frozenset(a + b for a in found for b in part if len(a + b) <= max_len)
    return found


def _repeated(body: frozenset[str], minimum: int, maximum: int | None, max_len: int) -> frozenset[str]:
    current, found = frozenset([""]), set()
    bound = minimum + max_len if maximum is None else maximum
    for count in range(bound + 1):
        if count >= minimum:
            found |= current
        current = _joined([current, body], max_len)
        if not current:
            break
    return frozenset(found)
