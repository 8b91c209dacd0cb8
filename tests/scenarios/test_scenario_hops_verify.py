"""Verification where the source is not reached: the job that captures tells sums and digests, the one that applies compares."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.job.asked_checks import LOCK
from anabranch.testing.databases import Database
from anabranch.testing.faults import descendants
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail import checks
from anabranch.trail.lock import holder
from anabranch.trail.replica_files import CHECKS
from rigs.hops import Hops, capturing, hops, moved, over_three
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[..., Scenario]
WORDS = "a-word-nobody-else-has"


def verified(job: Scenario, *more: str, code: int) -> dict[str, Any]:
    """Verify a job; return its tables' results by their names at the source."""
    found = json.loads(job.cli("verify", "--json", *more, code=code).stdout)
    return {one["source"].partition(".")[2]: one for one in found["tables"]}


def equal_beside_writers(job: Scenario) -> dict[str, Any]:
    """Verify a job whose source is written to, until all was told: where apply is late, another time. Nothing differs."""

    def found() -> dict[str, Any]:
        done = job.cli("verify", "--json", code=None)
        assert done.code in (0, 9), done.stdout
        tables = {one["source"].partition(".")[2]: one for one in done.json["tables"]}
        assert not any(one["missing"] + one["extra"] + one["different"] for one in tables.values()), tables
        return {} if done.code else tables

    return until(found, "all was told beside writers")


def streaming(way: Hops) -> tuple[Running, Running]:
    run, applied = way.start()
    way.there.wait_streaming(applied, seconds=200)
    way.there.sync(applied)
    return run, applied


def changed_at_the_target(made: Scenario) -> dict[str, dict[str, str]]:
    """Change a row of the table `cell`, remove one and add one; return their keys by what they are then."""
    (x, y), (a, b) = made.target.query("SELECT x, y FROM public.cell ORDER BY x DESC, y LIMIT 2")
    made.target.execute(
        f"UPDATE public.cell SET value = coalesce(value, 0) + 1 WHERE x = {x} AND y = '{y}'",
        f"DELETE FROM public.cell WHERE x = {a} AND y = '{b}'",
        "INSERT INTO public.cell VALUES (-5, 'none', 1, NULL)",
    )
    return {
        "different": {"x": str(x), "y": y},
        "missing": {"x": str(a), "y": b},
        "extra": {"x": "-5", "y": "none"},
    }


def by_kind(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    assert len(found["sample"]) == found["missing"] + found["extra"] + found["different"]
    return {one["kind"]: one["key"] for one in found["sample"]}


@pytest.mark.quick
@pytest.mark.one_family
def test_rule_25_rows_that_differ_are_found_by_their_keys_from_another_site(
    mysql_family: Server, scenario: Make
) -> None:
    """Compare while the source is written to: nothing differs. Then a row is changed, one removed and one added."""
    made = scenario(mysql_family, *SCHEMA, *fill(5))
    way = hops(made)
    run, applied = streaming(way)
    with Writer(made.source, seed=5, rate=30):
        equal = equal_beside_writers(way.there)
    assert set(equal) == set(way.there.states()) and all(one["identical"] for one in equal.values()), equal
    way.there.sync(applied)
    wanted = changed_at_the_target(made)
    found = verified(way.there, "--tables", "*.cell", code=4)["cell"]
    assert by_kind(found) == wanted and found["pending"] == 0 and found["is_complete"], found
    assert not list((way.trail / checks.ASKED).iterdir())
    assert "3 differing" in way.there.cli("status").stdout
    assert not verified(way.there, "--budget", "1h", code=4)["cell"]["compared"]["earlier"]
    goes_on = verified(way.there, "--resume", code=4)
    assert {name for name, one in goes_on.items() if not one["compared"]["earlier"]} == {"cell"}
    assert by_kind(goes_on["cell"]) == wanted
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_rule_25_a_row_that_changes_all_the_time_is_no_difference_at_another_site(
    mariadb: Server, scenario: Make
) -> None:
    """Nobody can tell of that row, and another one that differs is found beside it."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made)
    run, applied = streaming(way)
    (x, y) = made.target.query("SELECT x, y FROM public.cell ORDER BY x DESC, y LIMIT 1")[0]
    made.target.execute(f"UPDATE public.cell SET value = coalesce(value, 0) + 1 WHERE x = {x} AND y = '{y}'")
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            made.source.execute("UPDATE cell SET value = coalesce(value, 0) + 1 WHERE x = 1 AND y = 'y1'")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        found = verified(way.there, "--tables", "*.cell", code=4)["cell"]
    finally:
        ended.set()
        changing.join()
    assert by_kind(found) == {"different": {"x": str(x), "y": y}}, found
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_rows_of_a_postgresql_are_compared_with_those_of_a_mysql_at_another_site(
    logical_postgresql: Server, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """A table without a key tells how often a row is there; one whose rows pass a filter is not told of."""
    database = source_database(logical_postgresql)
    database.execute(
        "CREATE TABLE item (id bigint PRIMARY KEY, price numeric(10,2), half real, note text, raw bytea, at timestamp,"
        " flag boolean, said jsonb)",
        "CREATE TABLE noise (n int, text varchar(40))",
        "ALTER TABLE noise REPLICA IDENTITY FULL",
        "INSERT INTO item SELECT n, n + 0.25, n / 3.0, E'tab\\tnew\\nback\\\\slash ' || n, '\\x00ff5c09',"
        " '2024-02-29 12:00:00.5', n % 2 = 0, '{\"b\": 1.50, \"a\": [1, null]}' FROM generate_series(1, 499) n",
        "INSERT INTO noise VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (2, '')",
    )
    with job_at_mysql(database, mysql, tmp_path / "job", is_quick=True) as made:
        way = hops(made, at_apply='[apply]\nrunner = "continuous"\n')
        run, applied = streaming(way)
        equal = verified(way.there, code=0)
        assert all(one["identical"] for one in equal.values()), equal
        made.target.execute("UPDATE item SET note = 'other' WHERE id = 7", "DELETE FROM noise WHERE n = 1 LIMIT 1")
        found = verified(way.there, code=4)
        assert by_kind(found["item"]) == {"different": {"id": "7"}}
        assert [one["copies"] for one in found["noise"]["sample"]] == [[2, 1]]
        assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_rule_25_sites_that_are_killed_while_they_verify_say_the_same_again(
    mariadb: Server, scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pump, a router and a receiver lie between. Killed are: who asks, the job that captures with the question in its
    trail, and what answers, behind an answer."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made, trail=tmp_path / "in" / "shop")
    with moved(way, over_three(way, tmp_path)) as (run, applied):
        way.there.sync(applied)
        wanted = changed_at_the_target(made)
        run.stop()
        asker = way.there.start("verify", "--tables", "*.cell")
        wait_until(lambda: checks.pending(way.trail), 60, "the question has come back", asker.tail, asker)
        asker.kill()
        monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.check.answered=exit@2")
        monkeypatch.setenv("ANABRANCH_FAILPOINTS_LOG", str(made.directory / "reached"))
        run = way.here.start("run")
        monkeypatch.delenv("ANABRANCH_FAILPOINTS")
        wait_until((way.trail / CHECKS).exists, 120, "the answer that nobody waits for", run.tail, run)
        found = verified(way.there, "--tables", "*.cell", code=4)["cell"]
        assert by_kind(found) == wanted and found["pending"] == 0, found
        stand_still(run)  # it would answer before anybody sees the question
        asker = way.there.start("verify", "--tables", "*.cell", "--json")
        wait_until(lambda: checks.pending(way.trail), 60, "the question has come back", asker.tail, asker)
        run.kill()
        run = way.here.start("run")
        result = asker.wait(180)
        assert result.code == 4 and by_kind(json.loads(result.stdout)["tables"][0]) == wanted
        assert run.stop().code == applied.stop().code == 0
    assert "trail.check.answered=exit" in (made.directory / "reached").read_text()


def stand_still(run: Running) -> None:
    for pid in [run.pid, *descendants(run.pid)]:
        os.kill(pid, signal.SIGSTOP)


@pytest.mark.quick
def test_what_is_told_of_rows_is_encrypted_where_the_trail_is(mariadb: Server, scenario: Make) -> None:
    """Keys of rows stand in no file of either job, and another key takes over what was told."""
    item = "CREATE TABLE item (id VARCHAR(100) PRIMARY KEY, n INT)"
    made = scenario(mariadb, item, f"INSERT INTO item SELECT concat('{WORDS}-', seq), seq FROM seq_1_to_300")
    one, other = (made.directory / name for name in ("one.key", "other.key"))
    for number, path in enumerate((one, other), 1):
        path.touch(mode=0o600)
        path.write_text(bytes([number] * 32).hex() + "\n")
    both = f'[trail]\nencrypt = {{ key_file = "{other}", former = [{{ key_file = "{one}" }}] }}\n'
    way = hops(made, f'[trail]\nencrypt = {{ key_file = "{one}" }}\n', both)
    run, applied = streaming(way)
    made.target.execute(f"UPDATE public.item SET n = 0 WHERE id = '{WORDS}-7'")
    for _ in range(2):
        found = verified(way.there, code=4)["item"]
        assert by_kind(found) == {"different": {"id": f"{WORDS}-7"}}
        told = (way.trail / CHECKS).read_bytes()
        assert b'"sealed"' in told and b'"answers"' in told
        assert [
            str(file) for file in way.trail.rglob("*") if file.is_file() and WORDS.encode() in file.read_bytes()
        ] == []
        capturing(made, both)
        way.here.cli("trail", "rekey")
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_an_answer_waits_for_room_in_the_trail(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for it, and takes what comes; what was answered is answered once."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.check.answer=full:2")
    monkeypatch.setenv("ANABRANCH_FAILPOINTS_LOG", str(made.directory / "reached"))
    run, applied = streaming(way)
    assert all(one["identical"] for one in verified(way.there, code=0).values())
    assert run.stop().code == applied.stop().code == 0
    assert "trail.check.answer=full" in (made.directory / "reached").read_text()
    assert "answer_waits_for_room" in run.tail()


@pytest.mark.quick
def test_answers_by_hand_beside_a_run_keep_nobody_from_being_answered(mariadb: Server, scenario: Make) -> None:
    """The run waits for who answers by hand, and refuses nothing."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    run, applied = streaming(way)
    by_hand = way.here.start("verify")
    lock = way.here.home / LOCK
    wait_until(lambda: holder(lock), 60, "it answers by hand", by_hand.tail, by_hand)
    assert all(one["identical"] for one in verified(way.there, code=0).values())
    assert by_hand.stop().code == 0
    assert all(one["identical"] for one in verified(way.there, code=0).values())
    assert run.stop().code == applied.stop().code == 0


def test_spark_reads_the_rows_of_both_sites(mariadb: Server, scenario: Make) -> None:
    """The job that captures answers by hand, beside its capture. Without Spark the rows have come to the target."""
    made = scenario(
        mariadb,
        "CREATE TABLE cell (x INT, y VARCHAR(10), value DOUBLE, data VARBINARY(20), PRIMARY KEY (x, y))",
        "INSERT INTO cell SELECT seq, 'y', seq / 3, x'00ff' FROM seq_1_to_2000",
    )
    made.is_quick = True
    way = hops(made)
    way.until_caught_up()
    way.here.is_quick = way.there.is_quick = False
    wanted = changed_at_the_target(made)
    capture = way.here.start("capture")
    asker = way.there.start("verify", "--tables", "*.cell", "--json")
    wait_until(lambda: checks.pending(way.trail), 60, "the question", asker.tail, asker)
    answering = way.here.start("verify", "--json")
    result = asker.wait()
    assert answering.stop().json == {"version": 1, "answered": 3}  # it would wait for more
    assert result.code == 4 and by_kind(json.loads(result.stdout)["tables"][0]) == wanted
    assert capture.stop().code == 0


@pytest.mark.quick
def test_tables_are_verified_for_ever_from_another_site(mariadb: Server, scenario: Make) -> None:
    """A row that differs shows in the status once its table has come to its turn."""
    made = scenario(mariadb, *SCHEMA, *fill(1))
    way = hops(made)
    run, applied = streaming(way)
    assert "source itself" in way.there.cli("verify", "--watch", "--sample", "5%", code=2).stderr
    watch = way.there.start("verify", "--watch", "--share", "100%")
    wait_until(lambda: results(way) == {"identical"}, 120, "all tables are found equal", watch.tail, watch)
    changed_at_the_target(made)
    wait_until(lambda: "different" in results(way), 120, "what differs is found", watch.tail, watch)
    assert watch.stop().code == run.stop().code == applied.stop().code == 0
    assert not list((way.trail / checks.ASKED).iterdir())


def results(way: Hops) -> set[str]:
    """Return the last result of each table, "" for none."""
    return {(one.get("verified") or {}).get("result", "") for one in way.there.status()["targets"][0]["tables"]}
