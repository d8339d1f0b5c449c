"""Write judgements as JUnit XML, which build servers read."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from vhagar.result.requirement import Judged, Judgement


def junit_xml(cases: Sequence[Judged]) -> bytes:
    """Build the content of a JUnit file with one test case for each judgement.

    A violated requirement is a failure; an undecided one is an error, as the test could not tell.
    """
    counts = {
        "tests": len(cases),
        "failures": sum(case.judgement is Judgement.VIOLATED for case in cases),
        "errors": sum(case.judgement is Judgement.UNDECIDED for case in cases),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    # Of one run, the time counts once, however much is required of it.
    runs = {case.subject: case.seconds for case in cases}
    seconds = f"{sum(runs.values()):.3f}"
    root = ElementTree.Element("testsuites", {"name": "vhagar", **numbers})
    suite = {"name": "requirements", **numbers, "time": seconds}
    found = ElementTree.SubElement(root, "testsuite", suite)
    for case in cases:
        about = {"classname": case.subject, "name": case.requirement, "time": f"{case.seconds:.3f}"}
        element = ElementTree.SubElement(found, "testcase", about)
        if case.judgement is Judgement.MET:
            ElementTree.SubElement(element, "system-out").text = case.words
        else:
            violated = case.judgement is Judgement.VIOLATED
            kind = {"type": case.judgement.value, "message": case.words}
            detail = ElementTree.SubElement(element, "failure" if violated else "error", kind)
            detail.text = f"{case.subject}: {case.words}"
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
