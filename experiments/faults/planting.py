"""A fault: one small edit of the project's own source, planted in a private copy of the tree.

A fault never touches the checkout: `Copy` takes the packages to a temporary directory, the fault edits files
there, and the checks run in a fresh process that sees only the copy. An edit whose anchor text is gone, or
whose result does not parse, raises `PlantError`: a fault that plants nothing would prove nothing.
"""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import attrs

PACKAGES = ("engine", "oracles", "property_tests", "experiments")
BESIDE = ("conftest.py", "pyproject.toml")
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


class PlantError(Exception):
    """The fault could not be planted: the source it edits has changed."""


@attrs.define
class Copy:
    """A private copy of the project at `root`; `edited` are the files a fault has changed there."""

    root: Path
    edited: list[str] = attrs.field(factory=list)

    @classmethod
    def make(cls, source: Path, root: Path) -> "Copy":
        """Copy the four packages and the test settings from `source` to `root`."""
        for package in PACKAGES:
            shutil.copytree(source / package, root / package, ignore=IGNORED)
        for name in BESIDE:
            shutil.copy(source / name, root / name)
        return cls(root)

    def replace(self, file: str, old: str, new: str, *, times: int = 1) -> None:
        """Replace `old`, which must occur exactly `times` times in `file`, by `new`."""
        text = self._read(file)
        if text.count(old) != times:
            raise PlantError(f"{file}: {text.count(old)} places instead of {times} read {old!r}")
        if old == new:
            raise PlantError(f"{file}: the edit changes nothing")
        self._write(file, text.replace(old, new))

    def append(self, file: str, code: str) -> None:
        """Run `code` at the end of the module, where it can wrap what the module defines."""
        self._write(file, f"{self._read(file)}\n\n{code}\n")

    def _read(self, file: str) -> str:
        path = self.root / file
        if not path.is_file():
            raise PlantError(f"{file} does not exist")
        return path.read_text(encoding="utf-8")

    def _write(self, file: str, text: str) -> None:
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise PlantError(f"{file} would not parse: {error}") from error
        (self.root / file).write_text(text, encoding="utf-8")
        self.edited.append(file)


@attrs.frozen(kw_only=True)
class Fault:
    """One planted fault: what it breaks, the edits, and the checks that claim to see it.

    `number` is the catalogue's; from 200 on the fault is the project's own. A check is a pytest node id, or
    "gate:NAME" / "gate:NAME/PATH" for a gate of `counterproof verify` at its quick size.
    """

    number: int
    group: str
    title: str
    edits: tuple[Callable[[Copy], None], ...]
    checks: tuple[str, ...]
    clauses: tuple[str, ...]

    @property
    def name(self) -> str:
        """The short name in tables, such as B20 or G2-990."""
        return f"{self.group}{'-' if self.group[-1].isdigit() else ''}{self.number}"

    def plant(self, copy: Copy) -> None:
        """Edit the copy; raises PlantError where the source no longer has what the fault changes."""
        for edit in self.edits:
            edit(copy)
        if not copy.edited:
            raise PlantError(f"{self.name} changed nothing")


Edit = Callable[[Copy], None]


def fault(
    name: str, title: str, *edits: Edit, checks: tuple[str, ...], clauses: tuple[str, ...] = ()
) -> Fault:
    """Declare a fault; `name` is its group and number, such as B20 or G2-990."""
    group, _, number = name.partition("-") if "-" in name else (name[0], "", name[1:])
    return Fault(number=int(number), group=group, title=title, edits=edits, checks=checks, clauses=clauses)


def replace(file: str, old: str, new: str, *, times: int = 1) -> Edit:
    """An edit that replaces `old` by `new` in `file`."""
    return lambda copy: copy.replace(file, old, new, times=times)


def append(file: str, code: str) -> Edit:
    """An edit that runs `code` at the end of `file`."""
    return lambda copy: copy.append(file, code)
