"""What `counterproof explain-schema` prints for people, from its report; fits the width of the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.text.schema.keyword_tables import FATES, format_rows, keyword_rows, option_rows
from engine.text.schema.keywords import Dialect

NARROW = 100  # columns under which a table leaves out what the other forms of output have
MEMBERS = 40  # members of one object that are shown
FORMS = 20  # ways to be an object, and other ways, that are shown of one definition
STYLES = {"accepted": "bold green", "refused": "bold red", "failed": "bold red"}
FLAGS = {
    "unknown_keywords=annotate": "--unknown-keywords annotate",
    "formats=assert": "--formats assert",
    "formats=annotate": "--formats annotate",
}


def show(console: Console, report: Mapping[str, Any], source: str) -> None:
    """Print a whole report."""
    options = ", ".join(f"{name.replace('_', '-')} {word}" for name, word in report["options"].items())
    head = _grid()
    head.add_row(Text(report["verdict"], style=STYLES[report["verdict"]]), Text(report["file"]))
    head.add_row("dialect", Text(report["dialect"] or "cannot be told"))
    head.add_row("options", Text(options))
    console.print(head)
    if report["error"]:
        _show_error(console, report["error"], source)
        return
    facts = _grid()
    for index, line in enumerate(_fates(report["ledger"]["fates"])):
        facts.add_row("" if index else "keywords", Text(line))
    facts.add_row("grammar", Text(f"{_plural(report['grammar']['rules'], 'rule')}{_hint(report)}"))
    facts.add_row("core", Text(report["core"]))
    facts.add_row("compile", Text(_cost(report)))
    facts.add_row("cache", Text(f"{report['cache_bytes']:,} bytes"))
    console.print(facts)
    _show_ledger(console, report["ledger"]["occurrences"])
    _show_reduced(console, report["reduced"])
    _show_lines(console, "grammar", report["grammar"]["text"] or ())
    _show_lines(console, "samples", report["samples"] or ("(none was found in time)",))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=9)
    grid.add_column(overflow="fold")
    return grid


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _hint(report: Mapping[str, Any]) -> str:
    return "" if report["grammar"]["text"] else "; --grammar prints them"


def _cost(report: Mapping[str, Any]) -> str:
    name, ids = report["vocabulary"]["name"], report["vocabulary"]["ids"]
    return (
        f"{report['compile_ms']:.1f} ms over the vocabulary {name} ({ids:,} ids), "
        f"which is indexed once, in {report['index_ms'] / 1e3:.1f} s"
    )


def _fates(fates: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """A line for each fate: how many, and which keywords."""
    for fate, counts in fates.items():
        listed = (f"{keyword} {count}" if count > 1 else keyword for keyword, count in counts.items())
        yield f"{sum(counts.values()):,} {fate}: {', '.join(listed)}"
    if not fates:
        yield "none"


def _show_error(console: Console, error: Mapping[str, Any], source: str) -> None:
    grid = _grid()
    if error.get("line"):
        grid.add_row("where", f"line {error['line']}, column {error['column']}")
    elif "pointer" in error:
        grid.add_row("pointer", Text(error["pointer"] or "(the whole schema)"))
    grid.add_row("reason", Text(error["message"]))
    if error.get("found"):
        grid.add_row("found", Text(" ".join(error["found"].split()) or "white space"))
    if error.get("instead"):
        grid.add_row("instead", Text(_with_flags(error["instead"])))
    if error.get("in_schema"):
        grid.add_row("there", Text(error["in_schema"]))
    grid.add_row("kind", Text(error["kind"]))
    console.print(grid)
    if error.get("line"):
        _show_line(console, source.split("\n")[error["line"] - 1], error["column"])


def _with_flags(text: str) -> str:
    """The request's options by the names they have on this command line."""
    for option, flag in FLAGS.items():
        text = text.replace(option, flag)
    return text


def _show_line(console: Console, line: str, column: int) -> None:
    """The faulty line with a mark under the column, cut around it where the line is long."""
    start = max(0, column - 1 - (console.width - 8) // 2)
    part = line[start : start + console.width - 8].replace("\t", " ")
    console.print(Text(f"  | {part}\n  | {' ' * (column - 1 - start)}^"))


def _show_ledger(console: Console, occurrences: Sequence[Mapping[str, str]]) -> None:
    if not occurrences:
        return
    table = Table(box=SIMPLE_HEAD, title="ledger", title_justify="left", pad_edge=False)
    table.add_column("fate", no_wrap=True)
    table.add_column("pointer", overflow="fold")
    for entry in occurrences:
        table.add_row(entry["fate"], Text(entry["pointer"]))
    console.print(table)


def _show_reduced(console: Console, reduced: Mapping[str, Any]) -> None:
    console.print(Text("reduced form", style="bold"))
    for definition in reduced["definitions"]:
        _show_definition(console, definition)
    if not reduced["is_whole"]:
        console.print(Text("  and more definitions, left out"))


def _show_definition(console: Console, definition: Mapping[str, Any]) -> None:
    forms = len(definition["simple"]) + len(definition["objects"])
    head = Text(f"  {definition['name']}", style="cyan")
    if forms == 1 and definition["simple"]:
        console.print(head.append(f": {definition['simple'][0]}", style="default"))
        return
    if forms == 1:
        console.print(head.append(": object", style="default"))
        _show_object(console, definition["objects"][0])
        return
    console.print(head.append(": any of" if forms else ": nothing", style="default"))
    for simple in definition["simple"][:FORMS]:
        console.print(Text(f"    {simple}"))
    for form in definition["objects"][:FORMS]:
        console.print(Text("    object"))
        _show_object(console, form)
    if max(len(definition["simple"]), len(definition["objects"])) > FORMS:
        console.print(Text("    and more, left out"))


def _show_object(console: Console, form: Mapping[str, Any]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=4)
    grid.add_column(overflow="fold", max_width=max(12, console.width * 2 // 5))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for member in form["members"][:MEMBERS]:
        needed = "required" if member["required"] else "optional"
        grid.add_row("", Text(member["name"]), needed, Text(member["value"]))
    if len(form["members"]) > MEMBERS:
        grid.add_row("", f"and {len(form['members']) - MEMBERS} more", "", "")
    for member in form["others"]:
        name = f"others {member['name']}" if member["name"] else "others"
        grid.add_row("", Text(name), "optional", Text(member["value"]))
    if not form["members"] and not form["others"]:
        grid.add_row("", "no members", "", "")
    console.print(grid)
    for condition in form["conditions"]:
        console.print(Text(f"      {condition}"))


def _show_lines(console: Console, title: str, lines: Sequence[str]) -> None:
    """Lines as they are, never broken: they are to be copied."""
    if not lines:
        return
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)


def show_tables(console: Console) -> None:
    """Print what is served: keywords, formats, options."""
    wide = console.width >= NARROW
    fates = _grid()
    for fate, meaning in FATES.items():
        fates.add_row(fate, meaning)
    console.print(fates)
    console.print(_keyword_table(wide))
    formats = _table("format", "fate", *(["definition"] if wide else []), "note")
    for row in format_rows():
        formats.add_row(row.format, row.fate, *([row.definition] if wide else []), row.note)
    console.print(formats)
    options = _table("option", "meaning")
    for option in option_rows():
        words = f"{option.option} {option.word}{' (default)' if option.is_default else ''}"
        options.add_row(words, option.meaning)
    console.print(options)


def _keyword_table(wide: bool) -> Table:
    """The dialects are columns where there is room, else a first and a last one."""
    dialects = [str(dialect) for dialect in Dialect]
    table = _table("keyword", "fate", *(dialects if wide else ["dialects"]), "argument")
    for row in keyword_rows():
        if wide:
            marks = ["x" if dialect in row.dialects else "" for dialect in dialects]
        else:
            marks = [_first_to_last(row.dialects, dialects)]
        argument = f"{row.argument} ({row.note})" if row.note else row.argument
        table.add_row(row.keyword, row.fate, *marks, argument)
    return table


def _first_to_last(served: Sequence[str], every: Sequence[str]) -> str:
    if len(served) == len(every):
        return "all"
    if len(served) == 1:
        return f"{served[0]} only"
    return f"from {served[0]}" if served[-1] == every[-1] else f"to {served[-1]}"


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < 2 and len(columns) > 2)
    return table
