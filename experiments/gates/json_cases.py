"""The schemas that the decoding paths are judged under.

`WRITTEN` are small schemas whose whole language is also written down as rules for the oracle, by hand and
from the contract. `JUDGED` are larger ones: their finished outputs are judged by the validator alone.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from engine.request import OutputConstraint
from experiments.gates.path_world import Case
from oracles.expressions import Alt, CharClass, Expression, Literal, Ref, Repeat, Seq

JSON_BYTES = b'{}[]:,"abc0123456789-+.xyztrufalsenE \\'


def _texts(texts: Iterable[str]) -> Alt:
    return Alt(tuple(Literal(text) for text in dict.fromkeys(texts)))


def _written(name: str, schema: str, root: Expression, whitespace: str = "compact", **more: Any) -> Case:
    rules = {"root": root, **more.pop("rules", {})}
    constraint = OutputConstraint.json_schema(schema, whitespace=whitespace)
    return Case(name, constraint, rules, **{"alphabet": JSON_BYTES, **more})


def _judged(name: str, schema: str, **options: str) -> Case:
    return Case(name, OutputConstraint.json_schema(schema, **options), None)


def _members(*members: tuple[str, tuple[str, ...], bool]) -> Alt:
    """Objects whose members (name, texts of the value, required) come in this order."""
    choices = [[f'"{name}":{text}' for text in texts] for name, texts, _ in members]
    options = [[*some, *([] if need else [""])] for some, (_, _, need) in zip(choices, members, strict=True)]
    return _texts("{" + ",".join(filter(None, row)) + "}" for row in itertools.product(*options))


def _free_members(first: Expression, more: Expression) -> Seq:
    """An object of any number of members: `first`, then commas and `more`."""
    tail = Repeat(Seq((Literal(","), more)), 0, None)
    return Seq((Literal("{"), Repeat(Seq((first, tail)), 0, 1), Literal("}")))


AB = Repeat(CharClass(((97, 98),)), 1, None)
AB_BUT_A = Alt((Literal("b"), Seq((CharClass(((97, 98),)), CharClass(((97, 98),)), Repeat(AB, 0, 1)))))
ONE = _texts(("1", "1.0"))
FREE = Seq((Literal('"'), AB, Literal('":'), ONE))
BESIDE = Seq((Literal('"'), AB_BUT_A, Literal('":"b"')))
SPACE = Repeat(CharClass(((9, 10), (13, 13), (32, 32))), 0, 32)
WORDS = [
    word
    for n in range(1, 6)
    for word in map("".join, itertools.product(("ab", "x"), repeat=n))
    if 2 <= len(word) <= 5
]

WRITTEN: Mapping[str, Case] = {
    case.name: case
    for case in (
        _written(
            "optional members",
            '{"type":"object","properties":{"a":{"enum":[1,"b",null]},"b":{"type":"boolean"},"ab":{"const":"a"}},'
            '"required":["b"],"additionalProperties":false}',
            _members(
                ("a", ("1", "1.0", '"b"', "null"), False),
                ("b", ("true", "false"), True),
                ("ab", ('"a"',), False),
            ),
        ),
        _written(
            "recursive list",
            '{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}}}',
            Ref("t"),
            rules={
                "t": Alt(
                    (
                        Literal("[]"),
                        Seq(
                            (
                                Literal("["),
                                Ref("t"),
                                Repeat(Seq((Literal(","), Ref("t"))), 0, 1),
                                Literal("]"),
                            )
                        ),
                    )
                )
            },
        ),
        _written(
            "pattern and length",
            '{"type":"string","pattern":"^(ab|x)*$","minLength":2,"maxLength":5}',
            _texts(f'"{word}"' for word in WORDS),
        ),
        _written(
            "bounded integer",
            '{"type":"integer","exclusiveMinimum":-13,"maximum":127}',
            _texts(str(n) for n in range(-12, 128)),
        ),
        _written(
            "free names",
            '{"type":"object","additionalProperties":{"const":1},"propertyNames":{"pattern":"^[ab]+$"}}',
            _free_members(FREE, FREE),
            unique_names=True,
        ),
        _written(
            "free names beside a declared one",
            '{"type":"object","properties":{"a":{"const":true}},"additionalProperties":{"const":"b"},'
            '"propertyNames":{"pattern":"^[ab]+$"}}',
            _free_members(Alt((Literal('"a":true'), BESIDE)), BESIDE),
            unique_names=True,
        ),
        _written(
            "one of",
            '{"oneOf":[{"enum":["a","b","ab",[]]},{"enum":["b","ab","xx",null]},{"enum":["xy",1,["a","b"]]}]}',
            _texts(('"a"', "[]", '"xx"', "null", '"xy"', "1", "1.0", '["a","b"]')),
        ),
        _written(
            "fixed spaces",
            '{"type":"array","prefixItems":[{"enum":["a","b"]},{"type":"null"}],"items":{"type":"boolean"},'
            '"minItems":1,"maxItems":3}',
            _texts(
                f"[{', '.join(items[:n])}]"
                for items in itertools.product(('"a"', '"b"'), ("null",), ("true", "false"))
                for n in (1, 2, 3)
            ),
            whitespace="fixed",
        ),
        _written(
            "bounded spaces",
            '{"type":"array","items":{"const":"a"},"maxItems":2}',
            Alt(
                (
                    Seq((Literal("["), SPACE, Literal("]"))),
                    Seq((Literal("["), SPACE, Literal('"a"'), Ref("second"), SPACE, Literal("]"))),
                )
            ),
            whitespace="bounded",
            alphabet=JSON_BYTES + b"\n\t\r",
            rules={"second": Repeat(Seq((SPACE, Literal(","), SPACE, Literal('"a"'))), 0, 1)},
        ),
    )
}

JUDGED: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("any object", OutputConstraint.json_object(), None),
        _judged(
            "recursive tree",
            '{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{"type":"integer","minimum":1,'
            '"maximum":12},"b":{"type":"array","items":{"$ref":"#/$defs/n"},"maxItems":2}},"required":["a"],'
            '"additionalProperties":false}}}',
        ),
        _judged(
            "free values", '{"type":["object","array"],"additionalProperties":{"type":["string","null"]}}'
        ),
        _judged(
            "numbers between bounds",
            '{"type":"array","items":{"type":"number","minimum":-1.5,"exclusiveMaximum":0.1},"minItems":1}',
        ),
        _judged(
            "escapes under length",
            '{"type":"array","items":{"type":"string","minLength":1,"maxLength":2},"minItems":1,"maxItems":3}',
        ),
        _judged(
            "patterns of names",
            '{"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"type":"number","minimum":1}},'
            '"additionalProperties":{"type":"boolean"},"required":["ab"]}',
        ),
        _judged(
            "overlapping branches",
            '{"oneOf":[{"type":"integer","maximum":12},{"type":"number","minimum":1},{"type":"array","items":'
            '{"type":"null"},"minItems":1}]}',
        ),
        _judged(
            "intersection",
            '{"allOf":[{"properties":{"a":{"type":"string","maxLength":3}},"required":["a"]},{"properties":{"a":'
            '{"pattern":"^[ab1]*$","minLength":2},"b":{"type":"integer"}},"additionalProperties":{"type":"null"}}],'
            '"type":"object"}',
            whitespace="fixed",
        ),
    )
}
CASES: Mapping[str, Case] = {**WRITTEN, **JUDGED}
LAW_CASE = _written(
    "law",
    '{"type":"object","additionalProperties":{"const":1},"propertyNames":{"pattern":"^[ab]+$"},"minProperties":1}',
    Seq((Literal("{"), FREE, Repeat(Seq((Literal(","), FREE)), 0, None), Literal("}"))),
    unique_names=True,
)
