"""Hold tests/proofs.toml against the tests: entries exist, every rule and pitfall has a row, no test named after one is absent.

A test's name may carry more than one number: `rule_12_and_30_…`, `pitfall_18_19_…`, `rule_03_pitfall_03_…`. Reading the file is
docs/proofs.py's part, which makes a page of it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from docs import proofs

RULES = (proofs.REPOSITORY / "docs" / "explanation" / "correctness.md").read_text()
PITFALLS, LATER, LAST_RULE = 64, (68, 69, 72, 73, 74, 75, 78, 79, 80, 81), 34


def numbers(kind: str) -> list[int]:
    return [number for row in proofs.rows() if row.kind == kind for number in row.numbers]


@pytest.mark.parametrize("entry", sorted({entry for row in proofs.rows() for entry in row.shown_by}))
def test_what_the_index_names_exists(entry: str) -> None:
    file, _, name = entry.partition("::")
    assert any(fnmatchcase(one, name) for one in proofs.functions(proofs.file_of(file)))


def test_what_is_named_after_a_rule_or_a_pitfall_stands_in_its_row() -> None:
    entries = {(row.kind, number): row.entries for row in proofs.rows() for number in row.numbers}
    absent = [
        f"{kind} {number}: {path.name}::{name}"
        for kind, number, path, name in proofs.tagged(is_unit=False)
        if not any(path == file and fnmatchcase(name, entry) for file, entry in entries.get((kind, number), ()))
    ]
    assert not absent, "\n".join(absent)


def test_every_rule_has_a_row() -> None:
    assert {int(number) for number in re.findall(r"^\*\*K(\d+) ", RULES, re.MULTILINE)} <= set(numbers("rule"))
    assert sorted(numbers("rule")) == list(range(1, LAST_RULE + 1))


def test_every_pitfall_has_a_row() -> None:
    assert numbers("pitfall") == [*range(1, PITFALLS + 1), *LATER]


def test_every_row_has_a_test_or_a_reason() -> None:
    assert [row.title for row in proofs.rows() if not row.shown_by and not row.remark] == []
