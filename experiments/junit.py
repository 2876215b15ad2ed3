"""JUnit XML from verdicts, for continuous integration: one suite per gate, one case per verdict."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from experiments.verdict import Status, Verdict

# XML 1.0 has no way to write most control characters, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUTCOMES = {Status.FAIL: "failure", Status.INCONCLUSIVE: "failure", Status.SKIPPED: "skipped"}


def write_junit(verdicts: Sequence[Verdict], file: Path) -> None:
    """Write the verdicts as one JUnit file; FAIL and INCONCLUSIVE are failures."""
    root = ElementTree.Element("testsuites", name="counterproof verify", **_totals(verdicts))
    for name in dict.fromkeys(verdict.name for verdict in verdicts):
        members = [verdict for verdict in verdicts if verdict.name == name]
        suite = ElementTree.SubElement(root, "testsuite", name=name, **_totals(members))
        for verdict in members:
            _add_case(suite, verdict)
    ElementTree.indent(root)
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _totals(verdicts: Sequence[Verdict]) -> dict[str, str]:
    return {
        "tests": str(len(verdicts)),
        "failures": str(sum(not verdict.ok for verdict in verdicts)),
        "errors": "0",
        "skipped": str(sum(verdict.status is Status.SKIPPED for verdict in verdicts)),
        "time": f"{sum(verdict.seconds for verdict in verdicts):.3f}",
    }


def _add_case(suite: ElementTree.Element, verdict: Verdict) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"counterproof.{_clean(verdict.name)}.{_clean(verdict.path)}",
        name=_clean(verdict.check),
        time=f"{verdict.seconds:.3f}",
    )
    if verdict.status in _OUTCOMES:
        message = f"{verdict.status}: {verdict.reason or verdict.detail}"
        outcome = ElementTree.SubElement(case, _OUTCOMES[verdict.status], message=_clean(message))
        outcome.text = _clean(verdict.detail)
    note = ElementTree.SubElement(case, "system-out")
    note.text = _clean(f"n={verdict.n}; could have seen: {verdict.visible}; {verdict.detail}")


def _clean(text: str) -> str:
    return _NOT_XML.sub("�", text)
