"""`counterproof explain-schema`: what becomes of a JSON Schema, keyword by keyword, and what it then admits.

One report under stable keys, printed as JSON or for people (explain_pages). A refused schema is refused
before a vocabulary is loaded. Exit code 0: accepted, 1: refused, 2: the command line or the file makes no
sense.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console

from engine.errors import IntegrityError, MissingDependency, RequestError
from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.request import Formats, JsonOptions, OutputConstraint, UnknownKeywords, Whitespace
from engine.text.compiler import CompiledConstraint, ConstraintCompiler
from engine.text.readable import grammar_text
from engine.text.schema.explain import Explanation, dialect_of, explain, fragment, instead, terminal_names
from engine.text.schema.grammar import schema_grammar
from engine.text.schema.keyword_tables import format_rows, keyword_rows, markdown, option_rows
from engine.text.vocabulary import Vocabulary, toy_vocabulary
from experiments import explain_pages
from experiments.schema_samples import samples

EVERY_BYTE = "".join(  # one character for each byte that UTF-8 has
    map(
        chr,
        [
            *range(0xC0),
            *range(0xC0, 0x800, 0x40),
            *(0x800, *range(0x1000, 0xD800, 0x1000), 0xE000, 0xF000),
            *(0x10000, 0x40000, 0x80000, 0xC0000, 0x100000),
        ],
    )
)
AUTOMATIC, TOY, QWEN = "auto", "toy", "qwen3.5"
WARM_UP = OutputConstraint.json_object()
DESCRIPTION = """\
What becomes of a JSON Schema: whether it is accepted, and if not, where, why
and what to write instead. For an accepted one the fate of every keyword, the
reduced form, what compiling costs, and sample members of the language.

exit code: 0 accepted, 1 refused, 2 the command line or the file makes no sense
"""
EPILOG = """\
examples:
  counterproof explain-schema user.json
  counterproof explain-schema user.json --formats assert --ledger
  echo '{"minimum": 3}' | counterproof explain-schema - --grammar
  counterproof explain-schema --keywords     which keywords are served
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        "counterproof explain-schema",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = found.add_argument_group("what to explain (one of these)")
    what.add_argument(
        "file", nargs="?", metavar="FILE", help="file with a JSON Schema; - reads standard input"
    )
    what.add_argument("--keywords", action="store_true", help="the keywords, formats and options served")
    options = found.add_argument_group("how to read it")
    for option, kind, help_text in (
        ("--unknown-keywords", UnknownKeywords, "what becomes of keywords that the dialect does not have"),
        ("--formats", Formats, "what becomes of format"),
        ("--whitespace", Whitespace, "white space between JSON tokens: runs up to 32, fixed, or none"),
    ):
        default = getattr(JsonOptions(), option.strip("-").replace("-", "_"))
        options.add_argument(
            option, choices=[*map(str, kind)], default=str(default), help=f"{help_text} (default {default})"
        )
    shown = found.add_argument_group("what to show")
    shown.add_argument("--grammar", action="store_true", help="print the whole grammar too")
    shown.add_argument(
        "--ledger", action="store_true", help="print the fate of every keyword with its pointer"
    )
    shown.add_argument("--seed", type=int, default=0, help="seed of the sample members (default 0)")
    shown.add_argument(
        "--vocab",
        choices=[AUTOMATIC, TOY, QWEN],
        default=AUTOMATIC,
        help="compile for this vocabulary; auto: qwen3.5 where its package is installed, else toy",
    )
    form = shown.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    form.add_argument("--markdown", action="store_true", help="with --keywords: print Markdown")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Explain one schema, or print the tables; returns the exit code."""
    found = parser()
    arguments = found.parse_args(argv)
    if arguments.keywords == (arguments.file is not None):
        found.error("give a FILE (- for standard input), or --keywords alone")
    if arguments.markdown and not arguments.keywords:
        found.error("--markdown goes with --keywords")
    if arguments.keywords:
        _print_tables(arguments)
        return 0
    try:
        source = _read(arguments.file)
        report = report_of(source, arguments)
    except (OSError, UnicodeDecodeError, MissingDependency) as error:
        print(f"counterproof explain-schema: {_words(error, arguments.file)}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        explain_pages.show(Console(), report, source)
    return 0 if report["verdict"] == "accepted" else 1


def _words(error: Exception, file: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{file} is not UTF-8 text (byte {error.start})"
    if isinstance(error, OSError):
        return f"cannot read {file}: {error.strerror}"
    return str(error)


def _read(file: str) -> str:
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return data.decode("utf-8-sig")


def _vocabulary(wish: str) -> Vocabulary:
    """The vocabulary to compile for. Raises MissingDependency when the real one is asked for and absent."""
    if wish != TOY:
        try:
            return qwen3_5_vocabulary()
        except MissingDependency:
            if wish == QWEN:
                raise
    return toy_vocabulary(alphabet=EVERY_BYTE)


def _print_tables(arguments: argparse.Namespace) -> None:
    if arguments.markdown:
        print(markdown(), end="")
    elif arguments.json:
        rows = {"keywords": keyword_rows(), "formats": format_rows(), "options": option_rows()}
        tables = {name: [attrs.asdict(row) for row in found] for name, found in rows.items()}
        print(json.dumps(tables, ensure_ascii=False, indent=2))
    else:
        explain_pages.show_tables(Console())


def report_of(source: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything about one schema under stable keys; of a refused one only what is known.

    Raises MissingDependency.
    """
    words = {name: getattr(arguments, name) for name in ("unknown_keywords", "formats", "whitespace")}
    report: dict[str, Any] = {
        "verdict": "accepted",
        "file": arguments.file,
        "dialect": dialect_of(source),
        "options": words,
        "error": None,
    }
    try:
        constraint = OutputConstraint.json_schema(source, **words)
        schema_grammar(source, constraint.options)  # what is refused is so before a vocabulary is loaded
        report |= _accepted(constraint, arguments, _vocabulary(arguments.vocab))
    except RequestError as error:
        report |= {"verdict": "refused", "error": _error(error, source)}
    except IntegrityError as error:
        report |= {"verdict": "failed", "error": {"kind": "engine", "message": str(error)}}
    return report


def _accepted(
    constraint: OutputConstraint, arguments: argparse.Namespace, vocabulary: Vocabulary
) -> dict[str, Any]:
    begin = time.perf_counter()  # the first compile indexes the vocabulary
    compiler = ConstraintCompiler(vocabulary)
    compiler.compile(WARM_UP)
    index_seconds = time.perf_counter() - begin
    compiled, _ = compiler.compile(constraint)
    explanation = explain(constraint.source, constraint.options)
    return {
        "ledger": {
            "fates": explanation.fates(),
            "occurrences": [attrs.asdict(entry) for entry in explanation.ledger]
            if _is_full(arguments)
            else [],
        },
        "reduced": _reduced(explanation),
        "grammar": _grammar(compiled, constraint.options, arguments.grammar),
        "core": compiled.core_name,
        "vocabulary": {"name": vocabulary.name, "ids": vocabulary.size},
        "compile_ms": round(compiled.compile_seconds * 1e3, 3),
        "index_ms": round(index_seconds * 1e3, 3),
        "cache_bytes": compiled.nbytes,
        "samples": samples(compiled.grammar, arguments.seed),
    }


def _is_full(arguments: argparse.Namespace) -> bool:
    return bool(arguments.json or arguments.ledger)


def _reduced(explanation: Explanation) -> dict[str, Any]:
    return {
        "is_whole": explanation.is_whole,
        "definitions": [attrs.asdict(definition) for definition in explanation.reduced],
    }


def _grammar(compiled: CompiledConstraint, options: JsonOptions, is_wanted: bool) -> dict[str, Any]:
    lines: Iterator[str] = grammar_text(compiled.grammar, terminal_names(options))
    return {"rules": len(compiled.grammar.rules), "text": list(lines) if is_wanted else None}


def _error(error: RequestError, source: str) -> dict[str, Any]:
    return {
        "kind": str(error.kind),
        "type": type(error).__name__,
        "message": error.message,
        "pointer": error.pointer,
        "line": error.location.line,
        "column": error.location.column,
        "found": error.found,
        "instead": instead(error),
        "in_schema": fragment(source, error.pointer) if error.location.line is None else "",
    }
