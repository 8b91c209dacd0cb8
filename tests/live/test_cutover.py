"""Cut-overs between real servers, while writers write: nothing is lost, whoever comes through the fence is caught, what was
taken back is as it was, and a kill at any step leaves a cut-over that says who writes and goes on."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch.cutover.flip import flip_lock
from anabranch.cutover.report import CutoverReport
from anabranch.errors import ConfigError, DifferencesFound, PreflightFailed, SourceError, StateError
from anabranch.failpoints import EXIT_CODE
from anabranch.job import cutting_over, verifying
from anabranch.job.at_fence import STRAYS
from anabranch.job.keep_verifying import Watch
from anabranch.job.signals import Stop
from anabranch.model.cutover import Step
from anabranch.model.ids import TableId
from anabranch.testing.in_time import PATIENCE, in_time, until
from anabranch.verify.again import LEFT_OUT
from anabranch.view.opened import store_of
from rigs.cutover import DRAWN, MARGIN, MAX_LAG, WAITING, Cut, Writers, is_armed, job, running, way_back
from rigs.job_here import JobHere, without_spark


@pytest.mark.parametrize(
    ("source", "target"),
    [("postgresql", "postgresql"), ("mysql", "postgresql"), ("mariadb", "mysql"), ("postgresql", "mariadb")],
)
@pytest.mark.one_case("postgresql-mariadb", "mysql-postgresql")
def test_rule_24_pitfall_47_73_the_target_takes_over_under_writers(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """An older open transaction is awaited, whatever was acknowledged is at the target, and new rows there get numbers behind
    those that the source has given, rolled back ones too."""
    with job(request, source, target, tmp_path / "job") as cut, takes_over(cut) as writers:
        draft = cut.there("draft")
        cut.made.target.execute(f"UPDATE {draft} SET v = 99 WHERE id = 1")
        with pytest.raises(DifferencesFound, match="both ends differ at the fence"):
            cut.run_verified()
        assert cut.here.job.cutover_status().state == "aborted" and cut.admits()
        cut.made.target.execute(f"UPDATE {draft} SET v = 1 WHERE id = 1")

        older = cut.as_application(autocommit=False)
        older.cursor().execute("INSERT INTO item (v) VALUES (-1)")

        def during(line: str) -> None:
            cut.told.append(line)
            if line.startswith("waits for"):
                with suppress(pymysql.err.Error):  # a MySQL refuses the commit then, and the transaction is rolled back
                    older.commit()
                older.close()

        began = time.time()
        report = cut.run_verified(during)
        assert report.state == "finished" and report.cutover.downtime is not None
        assert 0 < report.cutover.downtime <= time.time() - began
        assert any(line.startswith("waits for") for line in cut.told), cut.told
        until(lambda: writers.refused, "the application is refused")
        assert not cut.admits()
        assert set(writers.acknowledged) <= set(cut.at_target())
        cut.made.assert_identical("item")
        assert source != "postgresql" or -1 in cut.at_target()
        flipped = json.loads(cut.flips.read_text())
        assert flipped["ANABRANCH_TARGET_URL"].startswith(f"{target}://") and "app-secret" not in cut.flips.read_text()
        assert [table["rows_source"] for table in report.to_json()["steps"][4]["tables"]] != []
        for table, given in (("item", max(cut.at_target("id"))), ("draft", DRAWN)):
            cut.made.target.execute(f"INSERT INTO {cut.there(table)} (v) VALUES (0)")
            first = cut.made.target.query(f"SELECT max(id) FROM {cut.there(table)}")[0][0]
            assert first == given + MARGIN + 1 or (table == "item" and first > given + MARGIN), table
        assert json.loads(next(cut.made.home.glob("cutover-*.json")).read_text())["state"] == "finished"
        with pytest.raises(PreflightFailed, match="cut over: the target takes writes"):
            cut.run()
        with pytest.raises(StateError, match="nothing can be taken back: cut over"):
            cut.here.job.abort_cutover()


@contextmanager
def takes_over(cut: Cut) -> Iterator[Writers]:
    """The job is at work, and its application. Before, while no capture could bring it in, a table that the target lacks."""
    if not cut.is_mysql:
        cut.write_job(max_lag=1)  # nobody follows
        cut.made.source.execute("CREATE TABLE later (id int PRIMARY KEY)")
        with pytest.raises(PreflightFailed, match=r"1 tables of the source are not at the target: public\.later"):
            cut.run()
        cut.made.source.execute("DROP TABLE later")
        cut.write_job()
    with running(cut), Writers(cut) as writers:
        yield writers


@pytest.mark.parametrize(("source", "target"), [("mysql", "logical_postgresql"), ("mariadb", "mysql")])
@pytest.mark.one_case("mariadb-mysql")
def test_rule_24_the_way_back_is_armed_behind_the_fence_and_passes_it(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut-over that is killed while it arms it goes on; one that is taken back removes it. Behind the flip the application's
    changes at the target come back through the fence, which still refuses the application, and nothing comes back twice."""
    with (
        job(request, source, target, tmp_path / "job") as cut,
        way_back(cut, monkeypatch) as back,
        running(cut),
    ):
        with Writers(cut) as writers:
            arms_the_way_back(cut, back, monkeypatch)
            report = cut.run()
        assert report.state == "finished" and is_armed(back) and not cut.admits()
        assert set(writers.acknowledged) <= set(cut.at_target())
        cut.made.assert_identical("item", "draft")
        assert [one.message for one in back.job.preflight().failed] == []
        a_second_one_is_told_that_nothing_is_left(cut, back)
        item = cut.there("item")
        for statement in (
            f"INSERT INTO {item} (v) VALUES (-5)",
            f"UPDATE {item} SET v = -6 WHERE id = 1",
            f"DELETE FROM {item} WHERE id = 2",
        ):
            cut.made.target.execute(statement)
        back.stream()
        cut.made.assert_identical("item", "draft")
        assert cut.made.source.query("SELECT v FROM item WHERE v < 0 ORDER BY v") == [(-6,), (-5,)]
        assert not cut.admits() and report.alarms == []
        with pytest.raises(ConfigError, match="a way back is cut over by another command"):
            back.job.cutover()
        returned(cut, back, monkeypatch)


def a_second_one_is_told_that_nothing_is_left(cut: Cut, back: JobHere) -> None:
    """It said to drop the way back, with all that was to return, and to open the source. The way back's own file is no file of
    `failback`, and led to one more way back."""
    with pytest.raises(PreflightFailed) as again:
        cut.run()
    assert "1 checks failed" in str(again.value) and "failback JOB leads back" in str(again.value)
    assert not any(word in str(again.value) for word in ("drop", "read_only", "TRIGGER")), again.value
    with pytest.raises(StateError, match="being cut over, or was"):
        cut.here.job.rewind("0")
    with pytest.raises(ConfigError, match="the file of a way back itself"):
        back.job.failback()


def arms_the_way_back(cut: Cut, back: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is asked for. Killed before and behind, and taken back: the way back is removed."""
    with pytest.raises(PreflightFailed, match="asks for a way back, and there is no"):
        cut.run()
    cut.made.cli("reverse", "-o", str(back.made.job_file))
    what_differs_is_found(cut, back, monkeypatch)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "cutover.admitted=exit")
    assert cut.made.cli("cutover", *WAITING, code=None).code == EXIT_CODE and not cut.admits()
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "cutover.noted=exit@2")  # armed, and the flip is noted
    assert cut.made.cli("cutover", *WAITING, code=None).code == EXIT_CODE and not cut.flips.exists()
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    assert is_armed(back)
    cut.here.job.abort_cutover(flip_undone=True)
    assert cut.admits() and not is_armed(back)
    there = cut.made.source.query("SELECT count(*) FROM item")[0][0]
    until(lambda: len(cut.at_target()) >= there, "forward goes on")


def what_differs_is_found(cut: Cut, back: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the way back is not armed it has written nothing: a wrong row is told beside writers, at one position, and at the
    fence. Armed while rows are compared, nobody can tell of it, and nothing is repaired."""
    draft = cut.there("draft")
    cut.made.target.execute(f"UPDATE {draft} SET v = 99 WHERE id = 1")
    late = time.monotonic() + PATIENCE
    while not (found := cut.here.verify(max_pause=30.0)).exact:
        in_time(late, found.not_exact)
    assert [one.source for one in found.tables if one.differs] == [f"{cut.made.schema}.draft"]
    assert cut.here.verify().exit_code == DifferencesFound.exit_code
    with pytest.raises(DifferencesFound, match=r"both ends differ at the fence: .*draft"):
        cut.run_verified()
    assert cut.here.job.cutover_status().state == "aborted" and cut.admits() and not is_armed(back)

    compared = verifying.compared

    def armed_meanwhile(*asked: Any, **how: Any) -> Any:
        result = compared(*asked, **how)
        back.job.arm()
        return result

    with monkeypatch.context() as patched:
        patched.setattr(verifying, "compared", armed_meanwhile)
        patched.setattr(verifying, "require_apply", lambda _: None)  # it runs in this process
        found = cut.here.verify(repairs=True, patterns=(f"{cut.made.schema}.draft",))
    assert [one.why for one in found.tables] == [LEFT_OUT] and not found.repaired
    assert is_armed(back)
    back.job.drop(execute=True)
    assert cut.here.verify().exit_code == DifferencesFound.exit_code
    cut.made.target.execute(f"UPDATE {draft} SET v = 1 WHERE id = 1")


def returned(cut: Cut, back: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way back; first killed when the old side is open for the flip, and taken back, which shuts it again. Behind it the
    job goes on as before, with the application at its source."""
    flip = cut.made.job_file.read_text().split("[cutover]\n")[1].split("\n")[0]
    settings = f"[cutover]\n{flip}\nmax_lag = {MAX_LAG}\ngrace = 0\n"
    back.made.job_file.write_text(f"{back.made.job_file.read_text()}\n{settings}")
    item = cut.there("item")
    with back.running():
        cut.made.target.execute(f"UPDATE {item} SET v = -7 WHERE v = -5")
        monkeypatch.setenv("ANABRANCH_FAILPOINTS", "cutover.flipped=exit")
        assert cut.made.cli("failback", *WAITING, code=None).code == EXIT_CODE
        monkeypatch.delenv("ANABRANCH_FAILPOINTS")
        assert cut.admits() and cut.here.job.failback_status().state == "flip unknown"
        cut.here.job.abort_failback(flip_undone=True, tell=cut.told.append)
        assert not cut.admits(), cut.told
        cut.made.target.execute(f"DELETE FROM {item} WHERE v = 7")

        # The row that the old side took while it was open is there alone: the job has it in its trail, and is held.
        until(lambda: cut.made.source.query("SELECT count(*) FROM item WHERE v = 7") == [(1,)], "the others are gone")
        assert back.verify().exit_code == DifferencesFound.exit_code, "beside writers, since the job writes nothing"
        cut.made.source.execute("DELETE FROM item WHERE v = 7")
        what_differs_is_found_before_it_returns(cut)
        report = it_returns_by_what_changed(cut, back)
        assert report.state == "finished" and cut.here.job.cutover_status().state == "aborted"
        assert cut.admits()
        if cut.made.target.server.name == "postgresql":
            with pytest.raises(psycopg.Error, match="takes no more writes"):
                cut.made.target.execute(f"INSERT INTO {item} (v) VALUES (8)")
        else:
            assert cut.made.target.query("SELECT @@GLOBAL.read_only") == [(1,)]
        cut.made.source.execute("UPDATE item SET v = -8 WHERE v = -7")
        until(lambda: -8 in cut.at_target(), "the job goes on")
        cut.made.assert_identical("item", "draft")

        assert cut.run().state == "finished" and not cut.admits(), "and to the target once more"
        assert cut.here.job.failback_status().state == "aborted"
        cut.made.target.execute(f"UPDATE {item} SET v = -9 WHERE v = -8")
        until(lambda: cut.made.source.query("SELECT count(*) FROM item WHERE v = -9") == [(1,)], "the way back goes on")
        cut.made.assert_identical("item", "draft")


def what_differs_is_found_before_it_returns(cut: Cut) -> None:
    """The way back leaves out the job, which has written to what it reads: at the fence both stand still, and what differs is
    told all the same."""
    for value in (99, 1):
        cut.made.source.execute("SET SESSION sql_log_bin = 0", f"UPDATE draft SET v = {value} WHERE id = 1")
        if value == 99:
            back, other = cutting_over.turned(cut.here.job)
            with without_spark() as spark, pytest.raises(DifferencesFound, match=r"at the fence: .*draft"):
                cutting_over.cut_over(back, True, False, PATIENCE, cut.told.append, other, spark)
    assert not cut.admits(), cut.told


def it_returns_by_what_changed(cut: Cut, back: JobHere) -> CutoverReport:
    """Since the cut-over is through the job writes nothing, so the way back's trail tells all: beside writers what differs is
    found, and at the fence a table that its own `--watch` has found equal is compared by the rows that changed since. Not one
    to which somebody else has written behind the job's fence, as its trail tells, which the way back's does not: it is
    compared whole."""
    back_job, other = cutting_over.turned(cut.here.job)
    schema = "public" if "." in cut.there("item") else cut.made.target.name
    item, draft = TableId(schema, "item"), TableId(schema, "draft")

    def returns() -> CutoverReport:
        return cutting_over.cut_over(back_job, "since-watch", False, PATIENCE, cut.told.append, other, spark)

    def arrives(value: int, before: int) -> None:
        cut.made.target.execute(f"UPDATE {cut.there('draft')} SET v = {value} WHERE v = {before}")
        there = f"SELECT count(*) FROM draft WHERE v = {value}"
        until(lambda: cut.made.source.query(there) == [(1,)], "the change has come back")

    with without_spark() as spark:
        found = {table: watched(back, table, spark) for table in (item, draft)}[draft]
        arrives(-70, 2)
        for value, before in ((-71, -70), (-70, -71)):
            cut.made.source.execute("SET SESSION sql_log_bin = 0", f"UPDATE draft SET v = {value} WHERE v = {before}")
            if value == -71:
                differs = back.verify(patterns=(str(draft),)).tables[0]
                assert (differs.different, differs.pending) == (1, 0), str(differs)
                keeps(back, found)  # which was forgotten with that, and is with the next
                with pytest.raises(DifferencesFound, match=r"1 different of the 1 rows that changed since"):
                    returns()
                keeps(back, found)
        arrives(2, -70)
        watched(back, item, spark)
        cut.made.source.execute("UPDATE item SET v = -70 WHERE v = -7")
        planned = {one.table: one.message for one in cut.here.job.plan_failback(verify="since-watch").results}
        assert "by what changed since" in planned[str(draft)] and STRAYS in planned[str(item)], planned
        with pytest.raises(DifferencesFound, match=r"at the fence: .*item.* 1 different"):
            returns()
        cut.made.source.execute("UPDATE item SET v = -7 WHERE v = -70")
        watched(back, item, spark)
        report = returns()
    tables = {TableId.parse(one["source"]).name: one for one in report.cutover.facts(Step.VERIFY)["tables"]}
    assert (tables["draft"]["since"], tables["item"]["why"]) == (found.place.position, STRAYS), tables
    return report


def keeps(back: JobHere, found: Any) -> None:
    with store_of(back.job) as store:
        assert store.verifications.note_verified(back.job.config.name, found)


def watched(back: JobHere, table: TableId, spark: Any) -> Any:
    """Let `verify --watch` have a turn at a table. Returns what it keeps, with the place."""
    stop = Stop()
    Watch(back.job, spark, (str(table),), False, 1.0, stop, lambda _: stop.ask()).run()
    with store_of(back.job) as store:
        (found,) = [one for one in store.verifications.verified(back.job.config.name) if one.source == table]
    assert found.place is not None and found.result == "identical", found
    return found


@pytest.mark.parametrize("source", ["mariadb", "mysql", "postgresql"])
def test_rule_24_a_writer_whose_rights_pass_the_fence_is_caught(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Before the flip he breaks it off, and forward goes on with his row; behind it he is an alarm, with his row."""
    with job(request, source, "postgresql", tmp_path / "job") as cut, running(cut):
        found = {
            one.verdict: one.message for one in cut.here.job.plan_cutover().results if one.check == "cutover.fence"
        }
        assert not cut.here.job.cutover_status().cutover.notes, "a plan changes nothing"
        assert "failed" not in found, found

        def at(step: str, value: int) -> Callable[[str], None]:
            def during(line: str) -> None:
                if line.startswith(f"{step}:"):
                    write_all_the_same(cut, value)

            return during

        with pytest.raises(SourceError, match=r"took writes behind the fence: insert \S+\.item id="):
            cut.run(at("fence", 41))
        assert cut.here.job.cutover_status().state == "aborted" and cut.admits()
        cut.wait_equal()
        assert 41 in cut.at_target() and not cut.flips.exists()

        cut.write_job(grace=1)
        with pytest.raises(SourceError, match="took 1 rows behind the flip"):
            cut.run(at("flip", 42))
        report = cut.here.job.cutover_status()
        assert [(row["operation"], list(row["key"])) for row in report.alarms] == [("insert", ["id"])]
        assert any(line.startswith("ALARM") for line in cut.told) and 42 not in cut.at_target()
        assert "written to the source behind the flip" in next(cut.made.home.glob("cutover-*.md")).read_text()


def write_all_the_same(cut: Cut, value: int) -> None:
    """Write as somebody who passes the fence, or opens it for his write and leaves it as it was."""
    opens, shuts = list[str](), list[str]()
    if cut.made.source.server.name == "mysql":
        opens, shuts = ["SET GLOBAL read_only = OFF"], ["SET GLOBAL super_read_only = ON"]
    elif cut.made.source.server.name == "postgresql":
        names = cut.made.source.query("SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'item'::regclass")
        opens = [f"ALTER TABLE item DISABLE TRIGGER {name}" for (name,) in names]
        shuts = [f"ALTER TABLE item ENABLE ALWAYS TRIGGER {name}" for (name,) in names]
    cut.made.source.execute(*opens, f"INSERT INTO item (v) VALUES ({value})", *shuts)


@pytest.mark.parametrize("source", ["mysql", "mariadb"])
@pytest.mark.one_case("mysql")
def test_rule_24_prepared_transactions_and_events_do_not_pass(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One that stays prepared breaks it off, by name; events write until then, not behind the fence, and again behind it."""
    with job(request, source, "postgresql", tmp_path / "job") as cut, running(cut):
        cut.made.source.execute(
            "SET GLOBAL event_scheduler = ON",
            "CREATE EVENT ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO item (v) VALUES (9)",
        )
        with closing(cut.as_application()) as connection:
            session = connection.thread_id()
            for statement in ("XA START 'one'", "INSERT INTO item (v) VALUES (5)", "XA END 'one'", "XA PREPARE 'one'"):
                connection.cursor().execute(statement)
        sessions = f"SELECT 1 FROM information_schema.processlist WHERE id = {session}"
        until(lambda: not cut.made.source.query(sessions), "the session has left it prepared")
        try:
            with pytest.raises(SourceError, match="prepared XA transaction"):
                cut.run(wait=1.0)
        finally:
            cut.made.source.execute("XA ROLLBACK 'one'")
        assert cut.here.job.cutover_status().state == "aborted" and cut.admits()
        assert cut.made.source.query("SELECT @@GLOBAL.event_scheduler, @@GLOBAL.read_only") == [("ON", 0)]

        until(lambda: 9 in cut.at_target(), "the event writes")
        cut.write_job(grace=2)
        report = until(lambda: unless_an_event_had_begun(cut), "no event is at its beginning when they are stopped")
        assert report is not None and report.alarms == []
        cut.made.assert_identical("item")


def test_rule_24_a_prepared_transaction_a_schedule_and_statements_from_before_do_not_pass_a_postgresql(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One that stays prepared breaks it off, by name. Refused are a session that has its INSERT planned since before the fence,
    and one that a schedule begins each time anew, as a superuser who lets no ordinary trigger fire."""
    with job(request, "postgresql", "postgresql", tmp_path / "job") as cut, running(cut):
        name = f"nightly of {cut.made.source.name}"
        with closing(cut.as_application(autocommit=False)) as connection:
            connection.execute("INSERT INTO item (v) VALUES (5)")
            connection.execute(f"PREPARE TRANSACTION '{name}'")
        try:
            with pytest.raises(SourceError, match=f"the prepared transaction '{name}' of "):
                cut.run(wait=1.0)
        finally:
            cut.made.source.execute(f"ROLLBACK PREPARED '{name}'")
        assert cut.here.job.cutover_status().state == "aborted" and cut.admits()

        refused = list[str]()

        def scheduled(line: str) -> None:
            """Each time something is told: behind the fence that is behind every step."""
            cut.told.append(line)
            with suppress(psycopg.errors.ReadOnlySqlTransaction), closing(cut.as_application()) as session:
                session.execute("SET session_replication_role = replica")
                session.execute("INSERT INTO item (v) VALUES (6)")
                return
            refused.append(line)

        with closing(cut.as_application()) as planned:
            planned.execute("PREPARE write AS INSERT INTO item (v) VALUES ($1)")
            planned.execute("EXECUTE write (8)")
            report = cut.run(during=scheduled)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="being cut over"):
                planned.execute("EXECUTE write (9)")
        assert report.state == "finished" and report.alarms == []
        steps = [line.partition(":")[0] for line in refused]
        assert {"fence", "drain", "hold", "flip"} <= set(steps) and "lag" not in steps, cut.told
        cut.made.assert_identical("item")


def unless_an_event_had_begun(cut: Cut) -> CutoverReport | None:
    """Cut over. None where one that was begun before events were stopped wrote late, which is found and breaks it off."""
    try:
        return cut.run()
    except SourceError as found:
        if "took writes behind the fence" not in found.message:
            raise
        return None


def test_pitfall_74_what_is_refused_until_a_kill_is_gone_on_with_and_when_the_job_is_dropped(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it raises the fence, while it is taken back, behind the flip. The fence outlives a job that is dropped only
    where that is said; a source that does not answer keeps nobody from reading the notes."""
    with job(request, "postgresql", "postgresql", tmp_path / "job") as cut:

        def killed(point: str, *asked: str) -> bool:
            monkeypatch.setenv("ANABRANCH_FAILPOINTS", point)
            result = cut.made.cli("cutover", "--json", *WAITING, *asked, code=None)
            monkeypatch.delenv("ANABRANCH_FAILPOINTS")
            assert result.code in (0, EXIT_CODE), result.stderr
            return result.code != 0

        with running(cut):
            assert killed("cutover.denied=exit") and not cut.admits()
            assert killed("cutover.lifted=exit", "--abort") and cut.admits()
            assert "it is being taken back" in cut.made.cli("cutover", code=7).stderr
            assert not killed("", "--abort")
            assert cut.made.source.query("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'anabranch%'") == [(0,)]
            cut.wait_equal()
            assert killed("cutover.flipped=exit") and cut.here.job.cutover_status().state == "flip unknown"
            refused = cut.made.cli("cutover", "--abort", code=7)
            assert "nobody knows how it ended" in refused.stderr and not cut.admits()
            with closing(flip_lock(cut.here.job)):  # the command of before still runs
                assert "still runs" in cut.made.cli("cutover", code=7).stderr and not cut.admits()
            assert cut.here.job.cutover_status().state == "flip unknown"
            assert "being cut over" in cut.made.cli("verify", "--repair", code=7).stderr
            assert not killed("") and cut.here.job.cutover_status().state == "finished"
            assert len(cut.flips.read_text().splitlines()) == 2, "one that may have run is run again"
            cut.made.assert_identical("item")
        with monkeypatch.context() as short:
            short.setattr(cutting_over, "LOOK_SECONDS", 2.0)
            a_source_that_does_not_answer_is_not_waited_for(cut)
        the_fence_is_not_left_unsaid(cut)


def a_source_that_does_not_answer_is_not_waited_for(cut: Cut) -> None:
    text, source = cut.made.job_file.read_text(), cut.made.source.server
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        there = f"@{source.host}:{source.port}/{cut.made.source.name}"
        assert there in text
        cut.made.job_file.write_text(
            text.replace(there, f"@127.0.0.1:{silent.getsockname()[1]}/{cut.made.source.name}", 1)
        )
        report = cut.here.job.cutover_status()
    cut.made.job_file.write_text(text)
    assert report.state == "finished" and report.gaps[0].startswith("nobody could look within 2 s: "), report.gaps


def the_fence_is_not_left_unsaid(cut: Cut) -> None:
    """A job that was cut over is dropped with its fence, or leaves it as that was said."""
    assert "would remove: source: the fence of the cut-over" in cut.made.cli("drop").stdout
    refused = cut.made.cli("drop", "--execute", code=7).stderr
    assert "cut over: the target takes writes" in refused and "--lift-fence" in refused
    assert not cut.admits() and cut.here.job.cutover_status().state == "finished", "nothing was removed"
    gone = cut.made.cli("drop", "--execute", "--lift-fence").stdout
    assert "removed: source: the fence of the cut-over" in gone and cut.admits()
    assert cut.made.source.query("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'anabranch%'") == [(0,)]


def test_pitfall_74_a_fence_that_was_lost_is_told_and_an_abort_needs_no_trail(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a kill and the command that goes on, somebody opens the fence, or alters a table, which no trigger refuses."""
    with job(request, "postgresql", "mysql", tmp_path / "job") as cut:
        source, at = cut.made.source, cut.here.job.cutover_status

        def killed_behind_the_fence() -> None:
            while at().cutover.next != Step.DRAIN:
                monkeypatch.setenv("ANABRANCH_FAILPOINTS", "cutover.noted=exit@2")
                assert cut.made.cli("cutover", *WAITING, code=None).code == EXIT_CODE
                monkeypatch.delenv("ANABRANCH_FAILPOINTS")
            assert at().gaps == ()

        with running(cut):
            killed_behind_the_fence()
            source.execute("ALTER TABLE item DISABLE TRIGGER ALL")
            assert ["public.item has not both triggers" in gap for gap in at().to_json()["gaps"]] == [True]
            refused = cut.made.cli("cutover", code=5).stderr
            assert "the fence does not hold: public.item" in refused and "broken off" in refused
            assert at().state == "aborted" and cut.admits() and not cut.flips.exists()
            cut.wait_equal()

            killed_behind_the_fence()
            source.execute("ALTER TABLE draft ALTER v TYPE int USING v + 1")
            said = "**The fence is not known to hold**: public.draft was rewritten"
            until(lambda: said in cut.made.cli("cutover", "--status").stdout, said)
            with pytest.raises(SourceError, match=r"does not hold: public\.draft was rewritten"):
                cut.run()
            assert at().state == "aborted" and cut.admits()
            source.execute("ALTER TABLE draft ALTER v TYPE int USING v - 1")
            killed_behind_the_fence()

        kept = cut.here.job.trail.rename(tmp_path / "elsewhere")
        cut.made.job_file.write_text(f'{cut.made.job_file.read_text()}[[rules]]\ninclude = ["public.new"]\n')
        assert cut.made.cli("cutover", code=None).code != 0 and at().cutover.is_fenced and at().gaps == ()
        assert cut.here.job.abort_cutover(tell=cut.told.append).state == "aborted", cut.told
        assert cut.admits() and source.query("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'anabranch%'") == [(0,)]
        kept.rename(cut.here.job.trail)
