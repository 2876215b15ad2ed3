"""Replay of a legal-set case: the engine's row and the oracle's legal ids after one prefix, id by id.

A case holds the whole small vocabulary and the language in both forms, the oracle's rules node by node.
"""

import ast
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from experiments.cases import Line, line
from experiments.gates.languages import PlainVocabulary, Source
from experiments.gates.mask_walk import advanced, row_of
from experiments.gates.subjects import Subject, constraint_of
from oracles import expressions
from oracles.expressions import Expression
from oracles.masks import state_after

ENTRY = f"{__name__}:replay"
NODES = ("Literal", "CharClass", "TokenSet", "Ref", "Seq", "Alt", "Repeat")
MAX_SHOWN = 24


def encode_rules(rules: Mapping[str, Expression]) -> dict[str, Any]:
    """The oracle's rules as JSON."""
    return {name: _encode(node) for name, node in rules.items()}


def decode_rules(record: Mapping[str, Any]) -> dict[str, Expression]:
    """The rules behind `encode_rules`."""
    return {name: _decode(node) for name, node in record.items()}


def _encode(value: Any) -> Any:
    if type(value).__name__ in NODES:
        return {"node": type(value).__name__} | {
            f.name: _encode(getattr(value, f.name)) for f in fields(value)
        }
    return [_encode(item) for item in value] if isinstance(value, tuple) else value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    if value["node"] not in NODES:
        raise ValueError(f"no node of the oracle's rules is called {value['node']!r}")
    arguments = {name: _decode(item) for name, item in value.items() if name != "node"}
    return getattr(expressions, value["node"])(**arguments)


def replay(case: Mapping[str, Any]) -> list[Line]:
    """Compare, after the case's prefix, whether the text may end and every id that differs."""
    plain = PlainVocabulary(
        tuple(ast.literal_eval(data) for data in case["tokens"]),
        {int(i): spelling for i, spelling in case["control"].items()},
        tuple(case["eos_ids"]),
        tuple(case["ungenerable"]),
        case["logits_width"],
    )
    subject = Subject.of(plain)
    source = Source(case["kind"], case["source"], tuple(case["choices"]), decode_rules(case["rules"]))
    compiled, _ = subject.compiler.compile(constraint_of(source), core=case["core"])
    matcher, parser = compiled.new_matcher(), subject.parser(source)
    for token_id in case["prefix"]:
        matcher = advanced(matcher, token_id)
    state = state_after(parser, case["prefix"], plain.oracle_bytes)
    if state is None:
        return [Line("prefix", "accepted", "not in the language", False)]
    found, expected = row_of(matcher, plain.size), subject.trie.legal_ids(parser, state, plain.eos_ids)
    lines = [line(f"may end ({compiled.core_name})", matcher.may_end, state.accepting)]
    lines.append(line("open ids", len(found), len(expected)))
    for token_id in sorted(found ^ expected)[:MAX_SHOWN]:
        name = f"{token_id} {subject.vocabulary.render(token_id)} open"
        lines.append(line(name, token_id in found, token_id in expected))
    return lines
