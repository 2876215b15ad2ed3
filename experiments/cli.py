"""The command `counterproof`: one line per sub-command, each imported only when it is called."""

import argparse
import importlib
import importlib.metadata
import sys
from collections.abc import Sequence

from attrs import frozen


@frozen
class Command:
    """A sub-command: `module` has `main(argv: list[str]) -> int`; `summary` is its line in the help."""

    module: str
    summary: str


COMMANDS = {
    "generate": Command("engine.commands.generate", "decode a prompt with a neural model under a constraint"),
    "bench": Command("engine.commands.bench", "speed, latency and acceptance of the decoding paths"),
    "verify": Command("experiments.verify", "run the gates over all decoding paths and write the report"),
    "replay": Command(
        "experiments.replay", "run op and oracle side by side on the case file of a failed gate"
    ),
    "inspect": Command(
        "experiments.inspect", "what a grammar, regex or list of choices allows after a prefix"
    ),
    "explain-schema": Command(
        "experiments.explain_schema", "what becomes of a JSON Schema, and which keywords are served"
    ),
    "faults": Command("experiments.faults.runner", "plant each known fault and show which check notices it"),
    "trace": Command("experiments.trace", "which gate or test proves which clause, and what is still open"),
}

EPILOG = """\
start here:
  counterproof verify --quick           every gate in about a minute
  counterproof COMMAND --help           what a command takes
"""


def parser() -> argparse.ArgumentParser:
    """The top-level parser; the rest of the line belongs to the sub-command."""
    found = argparse.ArgumentParser(
        prog="counterproof",
        description="A constrained-decoding engine that stands next to its own proof.",
        epilog=_command_list() + "\n" + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="counterproof [-h] [--version] COMMAND ...",
    )
    found.add_argument("--version", action="store_true", help="print the version and exit")
    found.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=COMMANDS, help="one of the commands below"
    )
    found.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return found


def _command_list() -> str:
    return "\n".join(["commands:", *(f"  {name:<16}{COMMANDS[name].summary}" for name in COMMANDS), ""])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; returns its exit code (2 for a command line that makes no sense)."""
    arguments = parser().parse_args(argv)
    if arguments.version:
        print("counterproof", importlib.metadata.version("counterproof"))
        return 0
    if arguments.command is None:
        parser().print_help()
        return 2
    module = importlib.import_module(COMMANDS[arguments.command].module)
    return module.main(arguments.rest)


if __name__ == "__main__":
    sys.exit(main())
