"""The preflight engine on ends that answer from values: what it makes of definitions, and how ends fail."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from anabranch.errors import (
    NOT_ADMITTED,
    AnabranchError,
    PreflightFailed,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetUnavailable,
)
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId
from anabranch.preflight import Report
from anabranch.preflight.known import KnownJob
from anabranch.preflight.run import FULL_IMAGES
from rigs.preflight import ALL, End, failures, run, table


def test_results_of_both_ends_and_of_the_rules_are_in_one_report(tmp_path: Path) -> None:
    source = End([table("shop.a"), table("crm.b")], [CheckResult("source.log_bin", "ok", "on")])
    target = End(results=[CheckResult("target.rights", "failed", "no CREATE", "GRANT CREATE")])
    report = run(tmp_path, ALL, source, target)
    assert report.verdict == "failed"
    assert {r.check for r in report.results} == {
        "job.decoder",
        "job.rules",
        "job.tables",
        "source.log_bin",
        "target.rights",
    }
    with pytest.raises(PreflightFailed, match=r"target\.rights: no CREATE — GRANT CREATE"):
        report.require()


def test_the_decoder_in_use_is_named_with_what_python_costs(tmp_path: Path) -> None:
    report = run(tmp_path, ALL + '[capture]\ndecoding = "python"\n', End(), End())
    [decoder] = [result for result in report.results if result.check == "job.decoder"]
    assert decoder.verdict == "ok" and "three times as long" in decoder.message
    assert 'decoding = "python"' in decoder.message


def test_checks_see_settings_tables_and_what_is_loaded(tmp_path: Path) -> None:
    source, target = End([table("shop.a", "place")]), End()
    text = ALL + (
        '[[tables]]\nname = "shop.a"\ncolumns = { drop = ["place"] }\nwhere = "n > 1"\n[load]\nexisting = "empty"\n'
    )
    known = KnownJob(loaded=frozenset({TableId("shop", "a")}))
    assert run(tmp_path, text, source, target, lambda: known).verdict == "ok"
    (context,) = target.seen
    assert context.user_choices["load.existing"] == "empty"
    assert context.user_choices["load.defer_constraints"] == "false"
    assert context.user_choices["types.json"] == "jsonb"
    assert context.user_choices["apply.stage_rows"] == ""
    assert context.user_choices[FULL_IMAGES] == "shop.a"
    assert context.targets[TableId("shop", "a")].columns == ("id", "n")
    assert context.dropped_columns == {TableId("shop", "a"): ("place",)}
    assert context.loaded == {TableId("shop", "a")}


def test_a_filter_on_key_columns_needs_no_full_images(tmp_path: Path) -> None:
    source = End([table("shop.a")])
    run(tmp_path, ALL + '[[tables]]\nname = "shop.a"\nwhere = "id > 1"\n', source, End())
    assert source.seen[0].user_choices[FULL_IMAGES] == ""


def test_rows_that_may_have_to_be_written_anew_need_full_images(tmp_path: Path) -> None:
    for policy, needing in (("source_wins", "shop.a"), ("target_wins", ""), ("ignore_missing", "")):
        source = End([table("shop.a")])
        run(tmp_path, ALL + f'[apply]\non_conflict = "{policy}"\n', source, End())
        assert source.seen[0].user_choices[FULL_IMAGES] == needing
    newest = '[[tables]]\nname = "shop.a"\non_conflict = "newest"\nnewest_by = "x"\n'
    assert "has no column x" in failures(run(tmp_path, ALL + newest, End([table("shop.a")]), End()))[0]


def test_a_refused_column_fails_with_the_way_to_drop_it_and_the_rest_is_checked(tmp_path: Path) -> None:
    target = End()
    report = run(tmp_path, ALL, End([table("shop.a", "place")]), target)
    assert failures(report) == ["job.types shop.a: column place point: refused, geometry"]
    assert report.failed[0].hint == '[[tables]] name = "shop.a", columns = { drop = ["place"] }'
    assert target.seen[0].targets[TableId("shop", "a")].columns == ("id", "n")


def test_a_refused_key_column_leaves_the_table_out(tmp_path: Path) -> None:
    target = End()
    report = run(tmp_path, ALL, End([table("shop.a", "id")]), target)
    assert "exclude the table" in report.failed[0].hint
    assert target.seen[0].targets == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ALL.replace("shop.*", "shop.x"), "job.rules : the rules select no table"),
        (
            ALL.replace('["shop.*"]', '["shop.*", "crm.*"]') + 'target = "public.{table}"\n',
            "job.targets : line 6, [[rules]] target: public.a would get crm.a, shop.a",
        ),
        (
            ALL + '[[tables]]\nname = "shop.a"\nwhere = "ido = 1"\n',
            "job.columns shop.a: line 10, [[tables]] where: names the unknown column ido; did you mean id?",
        ),
        (
            ALL + '[[tables]]\nname = "shop.a"\ncolumns = { drop = ["ido"] }\n',
            "job.columns shop.a: line 10, [[tables]] columns.drop: the table has no column ido; did you mean id?",
        ),
    ],
)
def test_rules_that_do_not_fit_the_source(tmp_path: Path, text: str, expected: str) -> None:
    source = End([table("shop.a"), table("crm.a")])
    assert expected in failures(run(tmp_path, text, source, End()))


def test_a_pattern_without_a_match_is_a_warning_with_the_nearest_table(tmp_path: Path) -> None:
    text = ALL.replace('"shop.*"', '"shop.*", "shop.ordes"')
    report = run(tmp_path, text, End([table("shop.orders")]), End())
    assert [(r.message, r.hint) for r in report.warnings] == [
        ("line 7, [[rules]] include: 'shop.ordes' matches no table", "did you mean shop.orders?")
    ]


def test_an_end_that_cannot_be_reached_is_its_error_and_the_other_ones_stands_beside(tmp_path: Path) -> None:
    source, target = End(error=SourceUnavailable("no source")), End(error=TargetUnavailable("no target"))
    with pytest.raises(TargetUnavailable):
        run(tmp_path, ALL, End([table("shop.a")]), target)
    with pytest.raises(SourceUnavailable) as caught:
        run(tmp_path, ALL, source, target)
    assert [note.split(" — ")[0] for note in caught.value.__notes__] == ["job shop: no target"]


def test_an_end_that_is_away_is_asked_once(tmp_path: Path) -> None:
    """Each try may take as long as `connect_s`. The other end is asked nevertheless."""
    source, target = End(error=SourceUnavailable("no source")), End(error=TargetUnavailable("no target"))
    with pytest.raises(SourceUnavailable):
        run(tmp_path, ALL, source, End())
    with pytest.raises(TargetUnavailable):
        run(tmp_path, ALL, End([table("shop.a")]), target)
    assert source.asked == target.asked == 1


RESULTS = (
    CheckResult("source.a", "failed", "bad [bold]x[/bold]", "SET a = 1", "shop.t", ("p", "q")),
    CheckResult("source.b", "ok", "fine", "nothing to do"),
    CheckResult("source.c", "warning", "hm"),
)
PLAIN = """\
ok      source.b: fine
warning source.c: hm
failed  source.a: shop.t: bad [bold]x[/bold]
        -> SET a = 1
preflight of shop: 1 ok, 1 warning, 1 failed
"""


def test_plain_text_and_json() -> None:
    report, file = Report("shop", RESULTS), io.StringIO()
    report.write(file)
    assert file.getvalue() == PLAIN
    assert report.to_json()["checks"][0] == {
        "step": "",
        "check": "source.a",
        "verdict": "failed",
        "message": "bad [bold]x[/bold]",
        "hint": "SET a = 1",
        "table": "shop.t",
        "names": ("p", "q"),
    }


def test_on_a_terminal_it_is_a_table() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    file = Terminal()
    Report("shop", RESULTS).write(file)
    assert "bad [bold]x[/bold]" in file.getvalue()
    assert "-> SET a = 1" in file.getvalue()
    assert "nothing to do" not in file.getvalue()


def test_nobody_is_told_to_arm_a_job_whose_target_cannot_be_read(tmp_path: Path) -> None:
    """It may be armed: that stands in the target's state."""

    def known() -> KnownJob:
        raise TargetUnavailable("no target")

    text = ALL + '[load]\nexisting = "take_over"\n'
    target = End(error=TargetUnavailable("no target"))
    found = run(tmp_path, text, End([table("shop.a")]), target, known, goes_on=True)
    assert {"target.reached", "job.begun"} <= {one.check for one in found.results}
    assert "job.armed" not in {one.check for one in found.results}
    assert "job.armed" in {one.check for one in run(tmp_path, text, End([table("shop.a")]), End()).results}


@pytest.mark.parametrize(
    ("error", "at"), [(SourceError("shut"), 0), (TargetError("shut"), 1)], ids=["source", "target"]
)
def test_a_database_that_the_user_may_not_enter_lacks_a_right(tmp_path: Path, error: AnabranchError, at: int) -> None:
    error.code = NOT_ADMITTED
    ends = End([table("shop.a")]), End()
    ends[at].error = error
    found = run(tmp_path, ALL, *ends, goes_on=True)
    assert [one.verdict for one in found.results] == ["failed"] and found.exit_code == PreflightFailed.exit_code
