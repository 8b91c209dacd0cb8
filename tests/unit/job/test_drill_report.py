"""Test what a drill tells: the exit code of what it found, its text, and the job file that it runs."""

from __future__ import annotations

import io
import tomllib

import pytest

from anabranch.job.drill_report import DrilledRow, DrilledTable, DrillReport
from anabranch.job.drilling import shadow_of
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.way_back_names import NAME_LIMIT
from anabranch.rules.reverse_file import drill_file, drill_name_of
from anabranch.rules.way_back import TableBack, WayBack

EQUAL = DrilledTable("shop.a", "public.a", 3, changes=2)
PENDING = DrilledTable("shop.b", "public.b", 3, pending=1)
UNLIKE = DrilledTable("shop.c", "public.c", 3, different=1, sample=(DrilledRow("different", {"id": "7"}, ("name",)),))
WARNING = CheckResult("drill.changes", CheckVerdict.WARNING, "no change came back", "for longer", "shop.b")
REFUSED = CheckResult("reverse.keys", CheckVerdict.FAILED, "it has no key", "give it one", "shop.k")


@pytest.mark.parametrize(
    ("findings", "tables", "code"),
    [
        ((WARNING,), (EQUAL,), 0),
        ((WARNING,), (EQUAL, PENDING), 9),
        ((), (PENDING, UNLIKE), 4),
        ((WARNING, REFUSED), (UNLIKE,), 3),
        ((REFUSED,), (), 3),
    ],
)
def test_what_is_found_decides_the_exit_code(
    findings: tuple[CheckResult, ...], tables: tuple[DrilledTable, ...], code: int
) -> None:
    report = DrillReport("shop", findings, tables)
    assert report.exit_code == code and report.to_json()["works"] is (code == 0)
    text = io.StringIO()
    report.write(text)
    assert all(one.message in text.getvalue() and one.hint in text.getvalue() for one in findings)
    assert ("works: " in text.getvalue()) is (code == 0)


def test_rows_that_differ_are_named() -> None:
    text = io.StringIO()
    DrillReport("shop", (), (UNLIKE,)).write(text)
    assert "DIFFERENT" in text.getvalue() and "id=7 (name)" in text.getvalue()


def test_the_file_of_a_drill_loads_into_the_shadow_and_leaves_nothing_out() -> None:
    raw = {
        "name": "shop",
        "source": {"url": "postgresql://u:${P}@a/x", "options": {"decoder": "wal2json"}, "leave_out": ["anabranch:o"]},
        "target": {"url": "postgresql://u:${Q}@b/y"},
        "apply": {"on_conflict": "source_wins"},
        "reverse": {"enabled": True},
    }
    table = TableBack(
        TableId("public", "a"), TableId(shadow_of("shop"), "a"), types={"kind": "varchar(9)"}, is_made=True
    )
    made = tomllib.loads(drill_file(raw, WayBack((table,), {}, ()), "written"))
    assert made["name"] == "shop-drill" and "load" not in made and "reverse" not in made
    assert made["source"] == {"url": "postgresql://u:${Q}@b/y"} and made["target"] == {"url": "postgresql://u:${P}@a/x"}
    assert made["rules"] == [{"include": ["public.a"], "target": f"{shadow_of('shop')}.{{table}}"}]
    assert made["tables"][0]["columns"]["type"] == {"kind": "varchar(9)"}


def test_names_of_a_drill_fit_and_tell_jobs_apart() -> None:
    long = "a" * 62
    assert len(drill_name_of(long)) <= NAME_LIMIT and len(shadow_of(long)) <= 63
    assert shadow_of("shop.a") != shadow_of("shop-a")
    assert drill_name_of(long) != long
