#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "N passed, N failed, N skipped" for the last `meson test`.

    count_tests.py build/meson-logs

Where a test tells its cases (GoogleTest through meson's junit file, Python's
unittest through what it prints) the cases are counted, else the test is one.
Exit code 1 when something failed or nothing ran.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree


def gtest_counts(folder: pathlib.Path, project: str) -> dict[str, list[int]]:
    """Cases, failures and skips of each GoogleTest program, by meson's name of it."""
    path = folder / "testlog.junit.xml"
    counts: dict[str, list[int]] = {}
    if not path.exists():
        return counts
    for suite in xml.etree.ElementTree.parse(path).getroot():
        name, _, case = suite.get("name", "").rpartition(".")
        if not case or name == project:
            continue
        numbers = [int(suite.get(key) or 0) for key in ("tests", "failures", "errors", "skipped", "disabled")]
        cases, failures, skips = numbers[0], numbers[1] + numbers[2], numbers[3] + numbers[4]
        total = counts.setdefault(name, [0, 0, 0])
        for i, number in enumerate((cases, failures, skips)):
            total[i] += number
    return counts


def unittest_counts(text: str) -> list[int] | None:
    """The same from the last lines that Python's unittest prints."""
    ran = re.findall(r"^Ran (\d+) tests? in", text, re.MULTILINE)
    if not ran:
        return None
    last = text[text.rindex("Ran ") :]
    numbers = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", last)}
    return [int(ran[-1]), numbers.get("failures", 0) + numbers.get("errors", 0), numbers.get("skipped", 0)]


def main(folder: pathlib.Path) -> int:
    """Adds up and prints."""
    passed = failed = skipped = 0
    log = folder / "testlog.json"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    for test in map(json.loads, lines):
        project = test["name"].rpartition(" - ")[2].partition(":")[0]
        told = gtest_counts(folder, project).get(f"{project}.{test['name']}")
        told = told or unittest_counts(test.get("stderr") or test.get("stdout") or "")
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        if test["result"] in ("SKIP", "IGNORED"):
            skipped += 1
        elif told is None:
            passed, failed = passed + good, failed + (not good)
        else:
            failures = told[1] if good or told[1] else 1  # it may have died between two cases
            failed += failures
            skipped += told[2]
            passed += max(0, told[0] - failures - told[2])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
