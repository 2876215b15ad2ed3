"""`counterproof inspect`: why is this token legal here, or not? One constraint, one prefix, the legal set.

Shows whether the text may end after the prefix, how many ids are legal and which, the core that was chosen,
and what compile and mask cost. With `--tools` the output holds calls; control tokens that the prefix spells
stand for their ids. An error is shown under the line of the source it points to; exit code 2.
"""

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.errors import ErrorKind, IntegrityError, MissingDependency, RequestError
from engine.frontend.output_language import output_language
from engine.frontend.tool_contract import ToolContract, tool_contract
from engine.request import OutputConstraint, ToolChoice, ToolDeclaration, ToolMode
from engine.text.compiler import CompiledConstraint, ConstraintCompiler
from engine.text.matcher import Matcher
from engine.text.schema.source import parse, text_of
from engine.text.vocabulary import TokenClass, Vocabulary
from experiments.vocabularies import METAVAR, vocabulary_name, vocabulary_of

MASK_REPEATS = 20


@attrs.frozen
class PrefixRefused(Exception):
    """The prefix leaves the language: what was taken, and what could not follow."""

    taken: str
    rest: str

    def __str__(self) -> str:
        return f"the prefix leaves the language: after {self.taken!r} the text {self.rest!r} cannot follow"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="counterproof inspect", description=__doc__)
    source = found.add_mutually_exclusive_group(required=True)
    source.add_argument("grammar", nargs="?", type=Path, metavar="GRAMMAR", help="file with a GBNF grammar")
    source.add_argument("--regex", metavar="R", help="regular expression for the whole output")
    source.add_argument("--choice", action="append", metavar="C", help="one of the choices; repeat it")
    source.add_argument(
        "--tools", type=Path, metavar="FILE", help="JSON list of tools, plain or as functions"
    )
    found.add_argument("--tool-choice", default="auto", metavar="auto|required|none|NAME")
    found.add_argument("--thinking", action="store_true", help="the output begins in thinking")
    found.add_argument("--prefix", default="", metavar="TEXT", help="text that stands already")
    found.add_argument(
        "--vocab", type=vocabulary_name, metavar=METAVAR, help="left out: toy, with --tools qwen3.5"
    )
    found.add_argument("--core", help="force a core by name; left out: the engine's own choice")
    found.add_argument("--top", type=int, default=20, metavar="N", help="how many legal tokens to show")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Inspect one constraint; returns 0, or 2 for an error in what was given."""
    arguments = parser().parse_args(argv)
    console = Console()
    source = ""
    try:
        vocabulary = vocabulary_of(arguments.vocab or ("qwen3.5" if arguments.tools else "toy"))
        constraint, contract, source = _sources(arguments)
        compiler = ConstraintCompiler(vocabulary)
        language = output_language(
            compiler, constraint, contract, thinking=arguments.thinking, core=arguments.core
        )
        assert language is not None, "a constraint or a choice of calls is enforced"
        matcher = language.new_matcher()
        take_output(matcher, vocabulary, arguments.prefix)
        show(console, language.compiled, matcher, vocabulary, arguments)
    except RequestError as error:
        show_error(console, error, source)
        return 2
    except (PrefixRefused, MissingDependency, IntegrityError, OSError, UnicodeDecodeError) as error:
        console.print(Text(f"error: {error}", style="bold red"))
        return 2
    return 0


def _sources(arguments: argparse.Namespace) -> tuple[OutputConstraint | None, ToolContract | None, str]:
    """The constraint or the tools that are given, and the source that an error can point into."""
    if arguments.tools is None:
        constraint, source = _constraint(arguments)
        return constraint, None, source
    tools = declarations(arguments.tools.read_text(encoding="utf-8"))
    word = arguments.tool_choice
    choice = ToolChoice(word) if word in list(ToolMode) else ToolChoice(ToolMode.REQUIRED, (word,))
    return None, tool_contract(tools, choice), ""


def declarations(source: str) -> list[ToolDeclaration]:
    """Tools from JSON text: a list of objects, each plain or as `{"type": "function", "function": ...}`."""
    value = parse(source)
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise RequestError(
            ErrorKind.INVALID_TOOL_CONSTRAINT, "tools are a JSON list of objects", source="tools"
        )
    found = []
    for tool in value:
        tool = tool.get("function", tool)
        schema = text_of(tool.get("parameters", {"type": "object", "properties": {}}))
        found.append(ToolDeclaration(tool.get("name"), schema, strict=tool.get("strict") is True))
    return found


def take_output(matcher: Matcher, vocabulary: Vocabulary, text: str) -> None:
    """Commit an output so far: control tokens that its marks spell, and text between them."""
    marks = {vocabulary.token_bytes[i].decode(): i for i in vocabulary.ids_of(TokenClass.CONTROL)}
    for piece in re.split("(" + "|".join(map(re.escape, marks)) + ")", text) if marks else [text]:
        if piece in marks and _accepts(matcher, marks[piece]):
            matcher.preview((marks[piece],))
            matcher.confirm()
        else:
            take_prefix(matcher, vocabulary, piece)


def _constraint(arguments: argparse.Namespace) -> tuple[OutputConstraint, str]:
    if arguments.regex is not None:
        return OutputConstraint.regex(arguments.regex), arguments.regex
    if arguments.choice is not None:
        return OutputConstraint.choice(arguments.choice), ""
    source = arguments.grammar.read_text(encoding="utf-8")
    return OutputConstraint.grammar(source), source


def take_prefix(matcher: Matcher, vocabulary: Vocabulary, prefix: str) -> None:
    """Commit the prefix by the longest tokens that the language takes. Raises PrefixRefused."""
    text_ids = {vocabulary.token_bytes[i]: i for i in vocabulary.ids_of(TokenClass.TEXT)}
    longest = max(map(len, text_ids), default=1)
    data, position = prefix.encode(), 0
    while position < len(data):
        sizes = range(min(longest, len(data) - position), 0, -1)
        ids = (text_ids.get(data[position : position + size]) for size in sizes)
        token_id = next((i for i in ids if i is not None and _accepts(matcher, i)), None)
        if token_id is None:
            rest = data[position:].decode(errors="backslashreplace")
            raise PrefixRefused(data[:position].decode(errors="backslashreplace"), rest)
        matcher.preview((token_id,))
        matcher.confirm()
        position += len(vocabulary.token_bytes[token_id])


def _accepts(matcher: Matcher, token_id: int) -> bool:
    with matcher.look_ahead():
        return matcher.accept(token_id)


def show(
    console: Console,
    compiled: CompiledConstraint,
    matcher: Matcher,
    vocabulary: Vocabulary,
    arguments: argparse.Namespace,
) -> None:
    """Print the facts and the table of legal tokens."""
    row = torch.zeros(vocabulary.num_words, dtype=torch.int32)
    seconds = []
    for _ in range(MASK_REPEATS):
        begin = time.perf_counter()
        matcher.fill(row)
        seconds.append(time.perf_counter() - begin)
    legal = np.flatnonzero(np.unpackbits(row.numpy().view(np.uint8), bitorder="little")).tolist()
    facts = {
        "vocabulary": f"{vocabulary.name}, {vocabulary.size} ids",
        "core": compiled.core_name,
        "compile": f"{compiled.compile_seconds * 1e3:.1f} ms, vocabulary index included",
        "mask": f"first {seconds[0] * 1e6:.0f} us, then {np.median(seconds[1:]) * 1e6:.0f} us",
        "prefix": repr(arguments.prefix),
        "may end here": "yes" if matcher.may_end else "no",
        "legal tokens": f"{len(legal)} of {vocabulary.size}",
    }
    for name, value in facts.items():
        console.print(Text(f"{name:<13} {value}"))
    console.print(_table(legal, vocabulary, arguments.top))


def _table(legal: Sequence[int], vocabulary: Vocabulary, top: int) -> Table:
    """The first legal tokens: completion ids, then the shortest, then by id."""
    ranked = sorted(legal, key=lambda i: (vocabulary.classes[i] is not TokenClass.EOS, *_size(vocabulary, i)))
    table = Table("id", "token", box=SIMPLE_HEAD)
    for token_id in ranked[:top]:
        table.add_row(str(token_id), Text(vocabulary.render(token_id)))
    if len(ranked) > top:
        table.add_row("", Text(f"and {len(ranked) - top} more", style="dim"))
    return table


def _size(vocabulary: Vocabulary, token_id: int) -> tuple[int, int]:
    return len(vocabulary.token_bytes[token_id]), token_id


def show_error(console: Console, error: RequestError, source: str) -> None:
    """Print a request error, with the line it points to and a caret under the column."""
    console.print(Text(f"error ({error.kind}): {error.message}", style="bold red"))
    where = error.location
    lines = source.split("\n")
    if where.line is not None and where.column is not None and where.line <= len(lines):
        console.print(Text(f"  line {where.line}, column {where.column}"))
        console.print(Text(f"  | {lines[where.line - 1]}"))
        console.print(Text(f"  | {' ' * (where.column - 1)}^"))
    elif str(where):
        console.print(Text(f"  {where}"))
    if error.found:
        console.print(Text(f"  found:   {error.found}"))
    if error.allowed:
        console.print(Text(f"  allowed: {error.allowed}"))
