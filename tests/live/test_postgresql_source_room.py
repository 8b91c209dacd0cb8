"""Preflight of a PostgreSQL source: room for a slot and its reader, and what bounds the log; at a server of its own, whose
settings stand in its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source.wal_stream import WalStream
from anabranch.model.checks import CheckResult
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.packages import find_postgresql
from anabranch.testing.servers import Server, start_postgresql
from rigs.endpoints import endpoint_of
from rigs.preflight_postgresql import results_of


def is_read_by(database: Database, count: int) -> None:
    """A server with room for one reader sees its end a moment after that."""
    senders = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"
    until(lambda: database.query(senders) == [(count,)], f"{count} read the log")


@pytest.fixture(scope="module")
def narrow(servers_directory: Path) -> Iterator[Server]:
    """A server with room for one slot and one reader, as its configuration says, not its command."""
    server = start_postgresql(servers_directory / unique_name("narrow"), options=("--wal-level=logical",))
    for setting in ("max_replication_slots", "max_wal_senders"):
        Database(server, "postgres").execute(f"ALTER SYSTEM SET {setting} = 1")
    server.stop()
    server.start()
    yield server
    server.stop(immediate=True)


def test_postgresql_source_preflight_counts_slots_of_everybody(narrow: Server) -> None:
    """Issue: with max_replication_slots = 1 a second job passed, and failed later."""
    database, whole = Database(narrow, "postgres"), endpoint_of(Database(narrow, "postgres"))

    def room(name: str = "", readers: int = 0) -> dict[str, CheckResult]:
        is_read_by(database, readers)
        found = {one.check.removeprefix("source."): one for one in results_of(whole, whole, source_name=name)}
        return {name: found[name] for name in ("max_replication_slots", "max_wal_senders")}

    assert {one.verdict for one in room().values()} == {"ok"}
    database.execute("SELECT pg_create_logical_replication_slot('anabranch_first_12345678', 'pgoutput')")
    full = room()["max_replication_slots"]
    assert full.verdict == "failed" and "anabranch_first_12345678 (pgoutput, read by nobody)" in full.message
    assert "max_replication_slots = 5" in full.hint and "pg_drop_replication_slot" in full.hint
    assert room("anabranch_other_12345678")["max_replication_slots"].verdict == "failed"
    assert room("anabranch_first_12345678")["max_replication_slots"].verdict == "ok", "the job's own needs no more room"

    is_read_by(database, 0)
    with closing(WalStream(whole)) as reading:
        sender = room("anabranch_first_12345678", readers=1)["max_wal_senders"]
        assert sender.verdict == "failed" and "anabranch of postgres (process" in sender.message
        database.execute("CREATE PUBLICATION anabranch_first_12345678")
        asked = {"proto_version": "1", "publication_names": "anabranch_first_12345678"}
        reading.begin("anabranch_first_12345678", 0, asked, {})
        assert room("anabranch_first_12345678", readers=1)["max_wal_senders"].verdict == "ok", (
            "who reads is the job itself"
        )
    a_restart_is_all_that_is_missing(narrow, room)


def a_restart_is_all_that_is_missing(narrow: Server, room: Callable[..., dict[str, CheckResult]]) -> None:
    database, setting = Database(narrow, "postgres"), "max_replication_slots"
    database.execute(f"ALTER SYSTEM SET {setting} = 5", "SELECT pg_reload_conf()")
    waits = f"SELECT pending_restart FROM pg_settings WHERE name = '{setting}'"
    until(lambda: database.query(waits)[0][0])
    waiting = room()[setting]
    assert (
        waiting.verdict == "failed"
        and "waits for a restart" in waiting.message
        and "restart the source" in waiting.hint
    )
    own = room("anabranch_first_12345678")[setting]
    assert own.verdict == "warning" and "from the next restart on" in own.message
    narrow.stop()
    narrow.start()
    assert room()[setting].verdict == "ok"
    database.execute("SELECT pg_drop_replication_slot('anabranch_first_12345678')")


def test_postgresql_source_preflight_judges_what_bounds_the_log(narrow: Server) -> None:
    database, whole = Database(narrow, "postgres"), endpoint_of(Database(narrow, "postgres"))

    def judged(check: str, value: str) -> CheckResult | None:
        database.execute(f"ALTER SYSTEM SET {check} = '{value}'", "SELECT pg_reload_conf()")
        until(lambda: database.query(f"SHOW {check}")[0][0] == value)
        return {one.check.removeprefix("source."): one for one in results_of(whole, whole)}.get(check)

    short = judged("idle_replication_slot_timeout", "5min")
    assert short is not None and short.verdict == "warning" and "= 300 s" in short.message
    assert judged("idle_replication_slot_timeout", "0") is None
    open_end, bounded = judged("max_slot_wal_keep_size", "-1"), judged("max_slot_wal_keep_size", "4GB")
    assert open_end is not None and open_end.verdict == "warning" and "from 10240 MB on" in open_end.message
    assert bounded is not None and bounded.verdict == "ok" and "from 2048 MB on" in bounded.message
    timeout = judged("wal_sender_timeout", "0")
    assert timeout is not None and timeout.verdict == "ok" and "sets 60 s for itself" in timeout.message


def test_postgresql_source_preflight_tries_to_read_the_log(narrow: Server) -> None:
    """Between us and the server is what lets ordinary sessions pass, and cuts those that read the log."""
    whole = endpoint_of(Database(narrow, "postgres"))
    with Proxy(whole.host, whole.port) as line:
        between = replace(whole, host="127.0.0.1", port=line.port)
        is_read_by(Database(narrow, "postgres"), 0)
        assert "source.log_connection" not in {one.check for one in results_of(between, whole)}
        is_read_by(Database(narrow, "postgres"), 0)
        line.cut_at(b"IDENTIFY_SYSTEM", "unheard")
        found = {one.check: one for one in results_of(between, whole)}["source.log_connection"]
        assert found.verdict == "failed" and "not to a pool" in found.hint


def test_postgresql_source_preflight_misses_the_file_of_a_decoder(narrow: Server) -> None:
    database, folder = Database(narrow, "postgres"), find_postgresql().home / "lib"
    missing = [name for name in ("wal2json", "decoderbufs") if not (folder / f"{name}.so").exists()]
    assert missing, "one of them is not there, or this test shows nothing"
    for decoder in missing:
        found = results_of(endpoint_of(database), endpoint_of(database), decoder=decoder)
        failed = [one for one in found if one.check == "source.decoder" and one.verdict == "failed"]
        assert f"does not have {decoder}" in failed[0].message and "install it at the source" in failed[0].hint
    assert database.query("SELECT count(*) FROM pg_replication_slots") == [(0,)]
