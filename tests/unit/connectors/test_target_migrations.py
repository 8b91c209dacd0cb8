"""The files of the target's migrations: names, order, and what a `before` may not do."""

from __future__ import annotations

import re

import pytest

from anabranch.connectors.postgresql.target.migrate import shipped, statements
from anabranch.connectors.sql.migrations import parsed

TAKES_AWAY = re.compile(r"\b(DROP|RENAME|TRUNCATE|DELETE|SET NOT NULL|ALTER COLUMN)\b", re.IGNORECASE)


def test_numbers_have_no_gap_and_each_has_one_before() -> None:
    before = [one.number for one in shipped() if one.stage == "before"]
    assert before == list(range(1, len(before) + 1))
    assert {one.number for one in shipped() if one.stage == "after"} <= set(before)


def test_a_before_takes_nothing_from_an_older_release() -> None:
    found = {
        str(one): TAKES_AWAY.findall(re.sub(r"--[^\n]*", "", one.sql)) for one in shipped() if one.stage == "before"
    }
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("1_x.before.sql", "-- makes: anabranch.x\n"),
        ("0001_x.sql", ""),
        ("0001_x.before.sql", "CREATE TABLE anabranch.x ();"),
    ],
)
def test_a_file_that_is_no_migration_is_refused(file: str, text: str) -> None:
    with pytest.raises(ValueError, match="NNNN_name"):
        parsed(file, text)


def test_statements_are_one_line_without_comments() -> None:
    text = "-- makes: anabranch.x.y\n-- why\n\nALTER TABLE anabranch.x\n    ADD COLUMN y int;  -- how\n"
    shown = statements([parsed("0009_y.before.sql", text)], "app")
    assert shown.startswith("ALTER TABLE anabranch.x ADD COLUMN y int; GRANT SELECT") and shown.endswith(' TO "app";')
