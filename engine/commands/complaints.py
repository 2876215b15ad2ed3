"""How a command tells its user what went wrong: one message, where, what was found, what is allowed.

A request that cannot be served, a file that cannot be read and a package that is absent end a command with
exit code 2; a fault of the engine's own with 3. Nothing ends it with a traceback.
"""

import sys
from collections.abc import Callable

from engine.commands.flags import Source
from engine.errors import IntegrityError, MissingDependency, RequestError

USAGE, FAULT, INTERRUPTED = 2, 3, 130
NOTHING = Source()


def guarded(command: str, action: Callable[[], int], source: Callable[[], Source] = lambda: NOTHING) -> int:
    """Call `action` and return its exit code, or say on stderr why there is none."""
    try:
        return action()
    except RequestError as error:
        complain(command, request_lines(error, source()))
        return USAGE
    except UnicodeDecodeError as error:
        complain(command, [f"a file is not UTF-8 text (byte {error.start})"])
        return USAGE
    except OSError as error:
        complain(command, [f"cannot read {error.filename}: {error.strerror}"])
        return USAGE
    except MissingDependency as error:
        complain(command, [str(error)])
        return USAGE
    except IntegrityError as error:
        complain(command, [f"a fault of the engine, not of the request: {error}"])
        return FAULT
    except KeyboardInterrupt:
        complain(command, ["interrupted"])
        return INTERRUPTED


def complain(command: str, lines: list[str]) -> None:
    """Print lines on stderr, the first one under the command's name."""
    head, *rest = lines
    print("\n".join([f"counterproof {command}: {head}", *rest]), file=sys.stderr)


def request_lines(error: RequestError, source: Source) -> list[str]:
    """Return a request error as lines; `source` is the constraint's text, which a position points into."""
    where, lines = error.location, [f"{error.message} ({error.kind})"]
    ours = error.source == "output_constraint"
    place = str(where) or ("the whole" if ours and source.name else "")
    if place:
        lines.append(f"  at       {place}" + (f" of {source.name}" if ours and source.name else ""))
    text = source.text.split("\n") if ours else []
    if where.line is not None and where.column is not None and where.line <= len(text):
        line = text[where.line - 1]
        lines += [f"         | {line}", f"         | {' ' * (where.column - 1)}^"]
    if error.found:
        lines.append(f"  found    {error.found}")
    if error.allowed:
        lines.append(f"  allowed  {error.allowed}")
    return lines
