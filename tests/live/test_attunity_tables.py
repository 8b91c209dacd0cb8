"""Attunity's tables beside change tables, read by SQL as a program for them does, at a PostgreSQL, a MySQL and a MariaDB."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch import failpoints
from anabranch.job.attunity import Keeper
from anabranch.job.status import status
from anabranch.lifecycle.attunity import tables_of
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.version import __version__
from anabranch.view.attunity import as_asked, noted, transactions_at_once
from rigs.change_readers import changes_between
from rigs.job_here import JobHere
from rigs.scenario import Scenario

ASKED = "[compat]\nattunity = true\n"
WAYS = [
    ("mysql", "postgresql"),
    ("mysql", "mariadb"),
    pytest.param(("logical_postgresql", "mysql"), marks=pytest.mark.long),
    pytest.param(("mysql", "mysql56"), marks=pytest.mark.servers),
]
COLUMNS = {
    "config": "version connect_string use_windows_authentication username password transaction_staging_timeout memory_limit"
    " options",
    "state": "status sub_status active error status_message timestamp active_capture_node last_transaction_timestamp"
    " last_change_timestamp transaction_log_head_cn transaction_log_tail_cn current_cn software_version"
    " completed_transactions written_changes read_changes staged_transactions",
    "trace": "timestamp type node status sub_status status_message data",
    "staged_transactions": "transaction_id seq_num data_start_cn data_end_cn data",
}
PLACES = ("apply.appended", "apply.commit", "apply.committed")


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    with changes_between(request.param, request, source_database, tmp_path, ASKED) as made:
        yield made


@contextmanager
def keeping(here: JobHere) -> Iterator[Callable[[], bool]]:
    """Yield what has the tables of a job kept once, by one service."""
    job = here.job
    tables = tables_of(job)
    assert tables is not None
    with closing(tables):
        keeper = Keeper(job, tables)
        yield lambda: keeper.look(status(job))


def asked(made: Scenario, table: str, columns: str, more: str = "") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in made.target.query(f"SELECT {columns} FROM cdc.xdbcdc_{table} {more}")]


def told(made: Scenario) -> list[str]:
    """Return what the trace tells, the oldest first."""
    return [
        " ".join(row) for row in asked(made, "trace", "type, status, sub_status, status_message", "ORDER BY timestamp")
    ]


def test_tables_have_attunitys_columns_and_one_row_each(here: JobHere) -> None:
    made = here.made
    here.load()
    here.load()
    for table, names in COLUMNS.items():
        with closing(made.target.connect()) as session:
            cursor = session.cursor()
            cursor.execute(f"SELECT * FROM cdc.xdbcdc_{table}")
            found = [column[0] for column in cursor.description]
        assert found[: len(names.split())] == names.split()
        assert made.target.server.name == "mysql" or len(found) == len(names.split())
    at = made.source.server
    row = asked(made, "config", COLUMNS["config"].replace(" ", ", "))[0]
    place = f"{at.host}:{at.port}" + (f"/{made.source.name}" if at.name == "postgresql" else "")
    assert row == (1, place, 0, at.user, None, 120, 50, "")
    assert asked(made, "state", "status, active, error, completed_transactions") == [("STOPPED", 0, 0, 0)]
    with pytest.raises((psycopg.Error, pymysql.Error)):
        made.target.execute("INSERT INTO cdc.xdbcdc_config (connect_string) VALUES ('another')")


def test_an_epoch_counts_what_it_writes_once_whatever_dies(here: JobHere) -> None:
    made = here.made
    here.load()
    met, reader = [], made.target.query
    for number in range(12):
        key = 10 * number
        rows = ", ".join(f"({key + one}, 'v', {one})" for one in range(3))
        made.source.execute(
            "BEGIN", f"INSERT INTO item VALUES {rows}", f"UPDATE item SET n = 9 WHERE id = {key}", "COMMIT"
        )
        failpoints.arm({failpoints.VARIABLE: f"{PLACES[number % 3]}=raise"} if number % 2 else {})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(PLACES[number % 3])
        finally:
            failpoints.arm({})
        count = reader("SELECT count(*) FROM cdc.lsn_time_mapping")[0][0] - 1
        ((transactions, changes, last),) = asked(
            made, "state", "completed_transactions, written_changes, last_transaction_timestamp"
        )
        assert (transactions, changes) == (count, 4 * count), "as many as there are, at any moment"
        newest = reader("SELECT max(tran_end_time) FROM cdc.lsn_time_mapping")[0][0]
        assert not count or last == newest
    here.stream()
    assert set(met) == set(PLACES)
    assert asked(made, "state", "completed_transactions, written_changes") == [(12, 48)]


def test_a_service_tells_its_state_and_every_change_of_it(here: JobHere) -> None:
    made = here.made
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    with keeping(here) as look:
        assert look()
        assert asked(made, "state", "status, sub_status, active, error, software_version") == [
            ("STOPPED", "", 0, 0, __version__)
        ]
        assert look()
        assert told(made)[-1].startswith("INFO STOPPED") and len(told(made)) == 2, "and says nothing twice"
        here.stream()
        look()
        columns = "transaction_log_head_cn, transaction_log_tail_cn, current_cn, completed_transactions"
        ((head, tail, current, transactions),) = asked(made, "state", columns)
        assert transactions == 1 and head == tail and current
        made.target.execute("UPDATE cdc.xdbcdc_state SET active = (1 = 1), status = 'RUNNING'")
    with keeping(here) as look:
        look()
    assert "ERROR ABORTED  the service ended without saying so" in told(made)[-2]
    assert told(made)[-1].startswith("INFO STOPPED")


def test_a_death_between_trace_and_state_tells_nothing_twice(here: JobHere) -> None:
    made = here.made
    here.load()
    with keeping(here) as look:
        failpoints.arm({failpoints.VARIABLE: "attunity.noted=raise"})
        with pytest.raises(failpoints.FailpointReached):
            look()
        failpoints.arm({})
        before = told(made)
        look()
        assert told(made) == before
        assert asked(made, "state", "software_version") == [(__version__,)]


def test_the_configuration_row_is_read_as_it_is_written(here: JobHere) -> None:
    made = here.made
    here.load()
    with keeping(here) as look:
        look()
        assert told(made)[0] == "INFO STOPPED  version 1 of the configuration is in force"
        said = "trace=ON; target_command_timeout=0; source_prefetch_size=7;TARGET_MAX_BATCHED_TRANSACTIONS=2;aus"
        made.target.execute(f"UPDATE cdc.xdbcdc_config SET options = '{said}', memory_limit = 40, username = 'another'")
        failpoints.arm({failpoints.VARIABLE: "attunity.configured=raise"})
        with pytest.raises(failpoints.FailpointReached):
            look()
        failpoints.arm({})
        look()
        look()
        assert asked(made, "config", "version") == [(2,)], "one for each change"
        words = "\n".join(told(made))
        for expected in (
            "option target_command_timeout = '0' is ignored: expected 1 to 3600",
            "option source_prefetch_size has no counterpart here",
            "option target_max_batched_transactions = 2 takes effect as the parts",
            "option 'aus' is not known",
            "username is what the job file says",
        ):
            assert expected in words
        assert transactions_at_once(here.job) == 2
        assert noted(here.job).memory_limit == 40
        count = len(told(made))
        made.target.execute(
            "UPDATE cdc.xdbcdc_config SET options = 'trace_retention_period=1;cdc_memory_report=3', version = 7"
        )
        look()
        assert asked(made, "config", "version") == [(7,)], "the version of whoever has changed it stays"
        words = "\n".join(told(made)[count:])
        assert "version 7 of the configuration is in force" in words and "memory report: " in words
        assert transactions_at_once(here.job) == 0
        made.target.execute("UPDATE cdc.xdbcdc_trace SET timestamp = timestamp - INTERVAL '2' HOUR WHERE type = 'INFO'")
        look()
        assert not [line for line in told(made) if "is in force" in line], "what is older than the hours said is gone"
        made.target.execute("DELETE FROM cdc.xdbcdc_config")
        look()
        assert "has 0 rows, and has to have one: what it said before stays" in told(made)[-1]


def test_numbers_that_no_capture_could_have_are_told_and_those_of_before_stay(here: JobHere) -> None:
    made = here.made
    here.load()

    def limits() -> tuple[int, int]:
        capture = as_asked(here.job).config.capture
        return capture.memory_limit_mb, capture.transaction_staging_timeout_s

    with keeping(here) as look:
        made.target.execute("UPDATE cdc.xdbcdc_config SET memory_limit = -1")
        look()
        assert limits() == (50, 120), "of the job file"
        made.target.execute("UPDATE cdc.xdbcdc_config SET memory_limit = 40, transaction_staging_timeout = 60")
        look()
        assert limits() == (40, 60)
        made.target.execute("UPDATE cdc.xdbcdc_config SET memory_limit = 0, transaction_staging_timeout = -7")
        look()
        look()
        assert limits() == (40, 60), "of the row as it was"
        for name, value in (("memory_limit", 0), ("transaction_staging_timeout", -7)):
            assert sum(f"{name} = {value} is ignored: expected 1 or more" in line for line in told(made)) == 1
        made.target.execute("UPDATE cdc.xdbcdc_config SET transaction_staging_timeout = 61")
        look()
        assert limits() == (40, 61)
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    assert asked(made, "state", "completed_transactions") == [(1,)]


def test_prepared_transactions_are_staged_ones_until_they_end(here: JobHere) -> None:
    made, name = here.made, f"'staged_{here.made.name}'"
    if made.source.server.name == "postgresql":
        pytest.skip("its log has a prepared transaction once that is committed")
    here.load()
    made.source.execute(
        f"XA START {name}", "INSERT INTO item VALUES (1, 'one', 1)", f"XA END {name}", f"XA PREPARE {name}"
    )
    here.stream()
    for _ in range(2):  # a second service finds them, too
        with keeping(here) as look:
            look()
        ((xid, number, start, data),) = asked(
            made, "staged_transactions", "transaction_id, seq_num, data_start_cn, data"
        )
        assert (number, data) == (0, None) and xid and start
        assert asked(made, "state", "staged_transactions, completed_transactions") == [(1, 0)]
    made.source.execute(f"XA COMMIT {name}")
    here.stream()
    with keeping(here) as look:
        look()
    assert asked(made, "staged_transactions", "transaction_id") == []
    assert asked(made, "state", "staged_transactions, completed_transactions") == [(0, 1)]


@pytest.mark.quick
def test_a_running_job_is_seen_changed_and_killed(here: JobHere) -> None:
    made = here.made
    made.is_quick = True
    running = made.start("run")

    def state() -> tuple[Any, ...]:
        has = (
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'cdc' AND table_name = 'xdbcdc_state'"
        )
        found = asked(made, "state", "status, sub_status, active") if made.target.query(has)[0][0] else []
        return found[0] if found else ()

    until(lambda: state() == ("RUNNING", "IDLE", 1), "the job is idle")
    said = "trace=on; cdc_update_state_interval=1; target_max_batched_transactions=1; cdc_restart_limit=9"
    made.target.execute(f"UPDATE cdc.xdbcdc_config SET options = '{said}'")
    until(lambda: "parts_renewed" in running.stderr, "parts start again with it")
    made.source.execute(*(f"INSERT INTO item VALUES ({key}, 'v', 0)" for key in range(5)))
    until(lambda: asked(made, "state", "completed_transactions") == [(5,)], "all is written")
    until(lambda: any("5 changes of 5 transactions written" in line for line in told(made)), "and traced")
    until(lambda: state()[:2] == ("RUNNING", "IDLE"), "it is idle again")
    assert "part_restarts" not in running.stderr, "nothing has died"
    running.kill()
    assert state()[:1] == ("RUNNING",)
    running = made.start("run")
    until(lambda: any("ERROR ABORTED" in line for line in told(made)), "the next one tells of the death")
    until(lambda: state()[:2] == ("RUNNING", "IDLE"), "it goes on")
    running.signal(signal.SIGTERM)
    running.wait()
    assert state() == ("STOPPED", "", 0)
