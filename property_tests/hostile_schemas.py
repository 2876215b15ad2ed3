"""Schemas made to hurt, and the child process that compiles each one under limits of the operating system.

Run as a program it warms up once and then compiles every case in a fork of its own, with 2 s of CPU; a line
of JSON tells what became of each: "served", an error kind with the limit, or how it died, and how far its
memory grew above the warm process.
"""

import json
import os
import resource
import sys
from collections.abc import Callable

CPU_SECONDS = 2
MEMORY = 512 * 2**20


def _defs(count: int, make: Callable[[int], object], last: object = True, **more: object) -> str:
    names = {f"d{i}": make(i) for i in range(count)} | {f"d{count}": last}
    return json.dumps({"$defs": names, "$ref": "#/$defs/d0", **more})


def _next(index: int) -> dict[str, str]:
    return {"$ref": f"#/$defs/d{index + 1}"}


def _choice(index: int, low: str, high: str) -> dict[str, object]:
    return {"anyOf": [{"required": [f"{low}{index}"]}, {"required": [f"{high}{index}"]}]}


def _member(index: int) -> dict[str, object]:
    return {"properties": {f"p{index}": {"type": "string"}}, "required": [f"p{index}"]}


def _cycles(*lengths: int) -> str:
    defs = {
        f"c{n}-{i}": {"properties": {"n": {"$ref": f"#/$defs/c{n}-{(i + 1) % n}"}}, "type": "object"}
        for n in lengths
        for i in range(n)
    }
    return json.dumps({"$defs": defs, "allOf": [{"$ref": f"#/$defs/c{n}-0"} for n in lengths]})


def _subsets(count: int) -> str:
    defs = {}
    for i in range(count):
        pair = [{"$ref": f"#/$defs/s{(i * 5 + 1) % count}"}, {"$ref": f"#/$defs/s{(i * 7 + 2) % count}"}]
        defs[f"s{i}"] = {"properties": {"a": {"$ref": f"#/$defs/s{(i + 1) % count}"}, "b": {"allOf": pair}}}
    return json.dumps({"$defs": defs, "$ref": "#/$defs/s0"})


CASES: dict[str, Callable[[], str]] = {
    "schemas 10,000 deep": lambda: '{"items":' * 10_000 + "{}" + "}" * 10_000,
    "a listed value 10,000 deep": lambda: '{"const":' + "[" * 10_000 + "]" * 10_000 + "}",
    "100,000 strings": lambda: json.dumps({"enum": [f"v{i}" for i in range(100_000)]}),
    "100,000 numbers": lambda: json.dumps({"enum": list(range(100_000))}),
    "60,000 objects": lambda: json.dumps({"enum": [{"v": i} for i in range(60_000)]}),
    "one list of 100,000": lambda: json.dumps({"const": list(range(100_000))}),
    "5 MB": lambda: json.dumps({"description": "x" * 5_000_000}),
    "1 MB of one string": lambda: json.dumps({"const": "c" * 900_000}),
    "25,000 members": lambda: json.dumps(
        {"properties": {f"p{i}": {"type": "string"} for i in range(25_000)}}
    ),
    "allOf of 30 choices": lambda: json.dumps({"allOf": [_choice(i, "p", "q") for i in range(30)]}),
    "a tower of allOf": lambda: _defs(60, lambda i: {"allOf": [_next(i), _next(i)]}),
    "a tower of anyOf": lambda: _defs(60, lambda i: {"anyOf": [_next(i), {**_next(i), "minLength": i}]}),
    "a tower of oneOf": lambda: _defs(40, lambda i: {"oneOf": [_next(i), {**_next(i), "minLength": i}]}),
    "a tower of not": lambda: _defs(60, lambda i: {"not": {"anyOf": [_next(i), {"maxLength": i}]}}),
    "200 members, exactly one": lambda: json.dumps({"oneOf": [_member(i) for i in range(200)]}),
    "30 conditionals": lambda: json.dumps(
        {"allOf": [{"if": _member(i), "then": _member(i + 1)} for i in range(30)]}
    ),
    "20 dependencies": lambda: json.dumps({"dependentRequired": {f"p{i}": [f"q{i}"] for i in range(20)}}),
    "a reference to itself": lambda: '{"$ref":"#"}',
    "a loop of 5,000 references": lambda: _defs(5_000, _next, _next(-1)),
    "a chain of 8,000 references": lambda: _defs(8_000, _next),
    "3,000 dynamic references": lambda: _defs(
        3_000, lambda i: {"items": {"$dynamicRef": f"#/$defs/d{i + 1}"}}
    ),
    "a member 8,000 deep": lambda: _defs(8_000, lambda i: {"properties": {"a": _next(i)}, "required": ["a"]}),
    "cycles that meet after 1,155 steps": lambda: _cycles(3, 5, 7, 11),
    "cycles that meet after 96,577 steps": lambda: _cycles(13, 17, 19, 23),
    "all subsets of 18 schemas": lambda: _subsets(18),
    "8 counts at once": lambda: json.dumps(
        {"allOf": [{"contains": {"const": i}, "maxContains": 3} for i in range(8)]}
    ),
    "30 differing items": lambda: json.dumps(
        {"items": {"enum": list(range(30))}, "uniqueItems": True, "type": "array"}
    ),
    "12 conditions on some member": lambda: json.dumps(
        {"allOf": [{"not": {"additionalProperties": {"minLength": i}}} for i in range(1, 13)]}
    ),
    "a pattern of many states": lambda: json.dumps({"type": "string", "pattern": "(a|b)*a(a|b){20}$"}),
    "repeats in repeats": lambda: json.dumps({"pattern": "^((a{0,100}){0,100}){0,100}$"}),
    "three patterns and a length": lambda: json.dumps(
        {
            "type": "string",
            "pattern": "^(a|b)*a(a|b){12}$",
            "maxLength": 5000,
            "minLength": 30,
            "allOf": [{"pattern": "^(a|b)*b(a|b){11}$"}, {"pattern": "^(a|b)*a(a|b){10}$"}],
        }
    ),
    "20 patterns that must not match": lambda: json.dumps(
        {"type": "string", "allOf": [{"not": {"pattern": f"a.{{{i}}}b"}} for i in range(20)]}
    ),
    "groups 2,000 deep": lambda: json.dumps({"pattern": "(" * 2000 + "a" + ")" * 2000}),
    "20 patterns over names": lambda: json.dumps(
        {"patternProperties": {f"^a{i}": {"minLength": i} for i in range(20)}}
    ),
    "huge counts": lambda: json.dumps({"type": "array", "minItems": 10**8, "maxItems": 10**9}),
    "an endless count": lambda: '{"minLength":1e999999999}',
    "a million to contain": lambda: json.dumps({"contains": {"const": 1}, "minContains": 10**6}),
    "a huge number": lambda: '{"minimum":' + "9" * 100_000 + "}",
    "a tiny step": lambda: '{"type":"number","multipleOf":1e-300}',
    "nine prime steps": lambda: json.dumps(
        {"type": "integer", "multipleOf": 2 * 3 * 5 * 7 * 11 * 13 * 17 * 19 * 23}
    ),
    "100 members, between 50 and 75": lambda: json.dumps(
        {"properties": {f"p{i}": {} for i in range(100)}, "minProperties": 50, "maxProperties": 75}
    ),
}


def _outcome(source: str) -> dict[str, object]:
    from engine.errors import LimitExceeded, RequestError
    from property_tests.schema_words import compiled, legal

    try:
        language = compiled(source)
        return {"outcome": "served", "starts": bool(legal(language.new_matcher()).any())}
    except LimitExceeded as error:
        return {"outcome": str(error.kind), "limit": error.limit}
    except RequestError as error:
        return {"outcome": str(error.kind), "message": error.message}


def _run(name: str) -> dict[str, object]:
    """One case in a fork: what it wrote, or the signal that ended it."""
    source = CASES[name]()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime)  # none so far: a fork starts at zero
        resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU_SECONDS, spent + CPU_SECONDS + 1))
        result = _outcome(source)
        result["growth"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used.ru_maxrss) * 1024
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(data) if data else {"outcome": "died", "status": status}


def main() -> None:
    """Compile every case and print what became of it."""
    _outcome('{"type":"object","properties":{"a":{"type":"string","pattern":"a"}}}')
    for name in CASES:
        print(json.dumps({"name": name, **_run(name)}), flush=True)


if __name__ == "__main__":
    sys.setrecursionlimit(1000)
    main()
