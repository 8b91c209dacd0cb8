"""`anabranch ddl plan`: what it prints of a plan, and what it refuses before it asks a target."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from anabranch.cli import main as shell
from anabranch.cli.ddl_plan_text import backlog_lines, plan_lines, planned, planned_backlog
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.job.ddl_plan import DdlPlan, PlannedColumn
from anabranch.model.altering_plan import AlteringPlan
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.ddl_changes import Outcome
from anabranch.model.schema import Column
from anabranch.model.table_life import TableState, park
from anabranch.trail.writer import TrailWriter
from rigs import trail_source

THEN = trail_source.definition()
N = Column("n", LogicalType(Kind.INT32), "int", has_default=True, default="5")
AFTER = trail_source.definition()


def made(fidelity: Fidelity, rewrites: bool = False) -> DdlPlan:
    altering = AlteringPlan(
        ("ALTER TABLE o ADD n",), ("ALTER TABLE o DROP n",), "a lock", "a page", rewrites, 1000, 100 << 20
    )
    columns = (PlannedColumn(N, "n", Fit("integer", fidelity, "it is so")),)
    return DdlPlan("ALTER …", THEN.id, THEN, True, AFTER, Outcome.ALTERED, "", columns, altering)


@pytest.mark.parametrize(
    ("fidelity", "code"), [(Fidelity.EXACT, 0), (Fidelity.WIDENED, 0), (Fidelity.LOSSY, 4), (Fidelity.REFUSED, 3)]
)
def test_the_worst_column_decides_the_exit_code(fidelity: Fidelity, code: int) -> None:
    assert made(fidelity).exit_code == code and planned(made(fidelity))["exit_code"] == code


def test_a_plan_is_shown_with_what_it_costs() -> None:
    text = "\n".join(plan_lines(made(Fidelity.EXACT)))
    assert "altered\n  n: int is n integer there, exact (it is so)\n  ALTER TABLE o ADD n;" in text
    assert "lock: a lock (a page)" in text and "about 1,000 rows, 100.0 MiB: no row is written" in text
    assert "back: ALTER TABLE o DROP n;" in text
    assert "all rows are written anew, about 2 s" in "\n".join(plan_lines(made(Fidelity.EXACT, rewrites=True)))
    told = planned(made(Fidelity.LOSSY))
    assert json.loads(json.dumps(told))["altering"]["seconds"] == 0 and told["columns"][0]["fidelity"] == "lossy"


def test_a_table_that_would_be_parked_says_why() -> None:
    parks = DdlPlan("ALTER …", THEN.id, THEN, False, None, Outcome.PARKED, "that is why")
    assert parks.exit_code == 3 and "parked: that is why" in list(plan_lines(parks))
    assert "the source's catalogue" in next(plan_lines(parks))


def test_plans_of_the_log_say_where_it_has_each_statement() -> None:
    assert list(backlog_lines([])) == ["the target has come to every change of a definition that the trail has"]
    found = [replace(made(Fidelity.EXACT), sequence=7), DdlPlan("", THEN.id, THEN, True, None, Outcome.WAITING, "why")]
    lines = list(backlog_lines(found))
    assert lines[0].startswith("at 7: ") and "altered" in lines[2] and lines[-1] == "  waiting: why"
    told = planned_backlog(found)["changes"]
    assert [one["sequence"] for one in told] == [7, None] and told[0]["outcome"] == "altered"


@pytest.fixture
def plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    with TrailWriter.open(tmp_path / "shop" / "trail", **trail_source.JOB, pack=False) as writer:
        for table in (trail_source.ORDERS, trail_source.NOTES):
            writer.schema(trail_source.definition(table))
        writer.append(trail_source.chunk(1, 2))
        writer.park(trail_source.NOTES, "dropped at the source", "DROP TABLE notes")
        writer.append(trail_source.chunk(3, 3))
        writer.flush()

    def call(*statement: str, source: str = "mysql://u:p@127.0.0.1:1") -> tuple[int, str]:
        job = tmp_path / "job.toml"
        job.write_text(
            f'name = "shop"\n[source]\nurl = "{source}"\n[target]\nurl = "postgresql://u:p@127.0.0.1:1/d"\n'
            '[[rules]]\ninclude = ["shop.*"]\n'
        )
        code = shell.exit_code(["ddl", "plan", str(job), *statement])
        said = capsys.readouterr()
        structlog.reset_defaults()
        assert said.err.count("error: ") == 1 and "Traceback" not in said.err
        return code, said.err

    return call


def test_what_cannot_be_planned_is_said_before_a_target_is_asked(plan: Callable[..., tuple[int, str]]) -> None:
    orders = trail_source.ORDERS
    code, said = plan("DROP TABLE orders, notes")
    assert code == 2 and "not about one table alone" in said
    for statement in ("CREATE OR REPLACE TABLE orders (id INT)", "SELECT 1", "", "ALTER VIEW v AS SELECT 1"):
        code, said = plan(statement)
        assert code == 2 and "not an ALTER TABLE of one table" in said, statement
    code, said = plan("ALTER TABLE shop.nowhere ADD n INT")
    assert code == 2 and "no table nowhere" in said
    code, said = plan("ALTER TABLE other.orders ADD n INT")
    assert code == 2 and "no rule includes other.orders" in said
    code, said = plan("ALTER TABLE shop.`odd.name` ADD n INT")
    assert code == 2 and "is parked: dropped at the source" in said
    code, said = plan(f"ALTER TABLE {orders} ADD n INT", source="postgresql://u:p@127.0.0.1:1/s")
    assert code == 5 and "127.0.0.1" in said  # of a log without statements the source is asked what it notes
    code, said = plan(f"ALTER TABLE {orders} ADD n INT")
    assert code == 6 and "127.0.0.1" in said
    for nothing in ((), (f"ALTER TABLE {orders} ADD n INT", "--from-log")):
        code, said = plan(*nothing)
        assert code == 2 and "nothing to plan" in said


ADD = f"ALTER TABLE {trail_source.ORDERS} ADD n INT DEFAULT 5"
STREAMS = TableState(trail_source.ORDERS, trail_source.ORDERS, "streaming", schema=THEN)
FOUND = {
    # [ddl], state at the target, statement -> outcome, exit code, why
    "not loaded": ("apply", None, ADD, "passed", 0, "not loaded yet"),
    "parked": ("apply", park(STREAMS, "full"), ADD, "passed", 0, "is parked: full"),
    "no setting": ("park", STREAMS, ADD, "parked", 3, '[ddl] add_column = "park"'),
    "stops": ("stop", STREAMS, ADD, "stopped", 3, '[ddl] add_column = "stop"'),
    "no such target": ("apply", STREAMS, ADD, "parked", 3, "tables are not altered"),
    "a key": ("apply", STREAMS, f"{ADD}, ADD FULLTEXT KEY k (n)", "parked", 3, "something else"),
    "an index alone": (
        "apply",
        STREAMS,
        f"ALTER TABLE {trail_source.ORDERS} ADD KEY k (id)",
        "ignored",
        0,
        "stays as it is: indexes",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_the_table_and_the_job_file_decide(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting, state, statement, outcome, code, why = FOUND[case]
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    with TrailWriter.open(tmp_path / "shop" / "trail", **trail_source.JOB, pack=False) as writer:
        writer.schema(THEN)
        writer.append(trail_source.chunk(1, 1))
        writer.flush()
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "shop"\n[source]\nurl = "mysql://u:p@127.0.0.1:1"\n[target]\nurl = "memory:///planned"\n'
        f'[ddl]\nadd_column = "{setting}"\n[[rules]]\ninclude = ["shop.*"]\n'
    )
    store = MemoryStore(database("planned"))
    store.prepare()
    if state:
        store.save_table("shop", state, None)
    try:
        assert shell.exit_code(["ddl", "plan", str(job), statement, "--json"]) == code
        found = json.loads(capsys.readouterr().out)
    except SystemExit as end:
        assert end.code == code
        found = json.loads(capsys.readouterr().out)
    finally:
        forget()
        structlog.reset_defaults()
    assert (found["outcome"], found["exit_code"]) == (outcome, code) and why in found["why"]
