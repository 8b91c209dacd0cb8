"""`mode = "transaction"` at a real PostgreSQL: source transactions that are committed one by one in one pipeline, and what
becomes of those that are refused in its middle."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch import failpoints
from anabranch.apply import pipelines
from anabranch.errors import Fenced, RowRefused
from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from rigs import one_by_one
from rigs.endpoints import endpoint_of
from rigs.one_by_one import ITEMS, alone, insert, item, statements
from rigs.postgresql_applier import TABLES, Applied

one, way = one_by_one.one, one_by_one.way
pytestmark = pytest.mark.usefixtures("way")


def test_rule_09_each_transaction_is_committed_by_itself_with_its_checkpoint(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A trigger at the target notes under which of its transactions a row came, and where the checkpoint was then."""
    target_database.execute(
        "CREATE TABLE public.seen (id bigint, xid xid8, sequence bigint)",
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen"
        " SELECT NEW.id, pg_current_xact_id(), sequence FROM anabranch.checkpoint; RETURN NEW; END $$",
        "CREATE TRIGGER note BEFORE INSERT ON shop.items FOR EACH ROW EXECUTE FUNCTION public.note()",
    )
    general, piped = alone(one, monkeypatch), statements(monkeypatch)
    one.applier.apply(one.append([[insert(item(2 * n)), insert(item(2 * n + 1))] for n in range(50)]))
    assert piped == ([] if way == "block" else [50])
    seen = target_database.query("SELECT id, xid::text, sequence FROM public.seen ORDER BY id")
    assert [(number, sequence) for number, _, sequence in seen] == [(n, n // 2 + 1) for n in range(100)]
    assert len({xid for _, xid, _ in seen}) == 50 and general == []
    assert one.applier.progress.totals.transactions == 50 and one.applier.progress.totals.changes == 100
    counts = "SELECT changes_applied FROM anabranch.table_state WHERE source_table = 'shop.items'"
    assert target_database.query(counts) == [(100,)]
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(50,)]


def test_every_form_of_a_change_arrives(one: Applied, target_database: Database) -> None:
    """Inserts, updates, deletes, keys that change, partial images, NULL, empty and odd texts, many of one row."""
    odd = "a\tb\\N'\" \n%s $1 {ä€},😀"
    one.applier.apply(
        one.append(
            [
                [insert(item(1, None, None))],
                [insert(item(2, 2, ""))],
                [insert(item(3, -(2**63), odd))],
                [("items", "u", item(1, None, None), item(1, 2**63 - 1, "x"))],
                [("items", "u", item(2, 2, ""), item(20, 2, odd))],
                [("items", "u", {"id": 3}, {"b": "partial"})],
                [insert(item(8, 8, "NULL"))],
                [],
                [insert(item(4)), ("items", "d", item(1, 2**63 - 1, "x")), ("items", "u", item(4), item(4, 5, "y"))],
                [("items", "d", item(4, 5, "y"))],
                [insert(item(5)), ("items", "u", item(5), item(6)), ("items", "u", item(6), item(7))],
            ]
        )
    )
    assert target_database.query(ITEMS) == [(3, -(2**63), "partial"), (7, 0, "new"), (8, 8, "NULL"), (20, 2, odd)]
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(11,)]


def test_rule_28_what_is_refused_in_the_middle_is_named_and_all_before_it_stays(
    one: Applied, target_database: Database
) -> None:
    """A row that is missing, one that is there already: nothing of that transaction, nothing behind it; then it goes on."""
    upto = one.append(
        [
            *([insert(item(n))] for n in range(1, 31)),
            [insert(item(99)), ("items", "u", item(50), item(50, 1))],
            *([insert(item(n))] for n in range(31, 61)),
        ]
    )
    with pytest.raises(RowRefused, match="id = 50"):
        one.applier.apply(upto)
    assert target_database.query("SELECT count(*), max(id) FROM shop.items") == [(30, 30)]
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(30,)]
    target_database.execute("INSERT INTO shop.items VALUES (50, 0, 'new'), (45, 1, 'there')")
    with pytest.raises(RowRefused, match="id = 45"):
        one.applier.apply(upto)
    target_database.execute("DELETE FROM shop.items WHERE id IN (45, 50)")
    one.applier.apply(upto)
    assert target_database.query("SELECT count(*), max(id) FROM shop.items") == [(61, 99)]


def test_what_needs_more_than_its_rows_goes_alone_in_its_order(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables without a key, rows that go and come again, many rows; those around them are pipelined."""
    general = alone(one, monkeypatch)
    small = [[insert(item(n))] for n in range(1, 61)]
    middle = [
        [("heap", "i", {"a": 1, "b": "x"})],
        [("items", "d", item(1)), insert(item(1, 7))],
        [insert(item(n)) for n in range(1000, 1200)],
    ]
    one.applier.apply(one.append([*small[:20], *middle, *small[20:40], middle[0], *small[40:]]))
    assert general == [21, 22, 23, 44]
    assert target_database.query("SELECT count(*), sum(a) FROM shop.items") == [(260, 7)]
    assert target_database.query("SELECT count(*) FROM shop.heap") == [(2,)]


def test_a_unique_key_that_is_asked_at_commit_refuses_that_transaction(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the commit of one of the transactions refuses is done alone, and named there."""
    target_database.execute("ALTER TABLE shop.items ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED")
    general = alone(one, monkeypatch)
    upto = one.append([*([insert(item(n, n))] for n in range(1, 21)), [insert(item(21, 5))]])
    upto = one.append([[insert(item(n, n))] for n in range(22, 42)])
    with pytest.raises(RowRefused, match="duplicate key"):
        one.applier.apply(upto)
    assert general == [21] and target_database.query("SELECT count(*) FROM shop.items") == [(20,)]


def test_rule_09_whoever_was_replaced_changes_nothing(one: Applied, target_database: Database) -> None:
    """A process that was fenced while it waited, and one whose target is elsewhere by now."""
    one.applier.apply(one.append([[insert(item(n))] for n in range(20)]))
    target_database.execute("UPDATE anabranch.checkpoint SET owner = 'another', epoch = epoch + 1")
    with pytest.raises(Fenced):
        one.applier.apply(one.append([[insert(item(n))] for n in range(20, 40)]))
    assert target_database.query("SELECT count(*) FROM shop.items") == [(20,)]


def test_rule_09_a_line_that_is_cut_in_the_middle_is_resolved_by_the_row(
    target_database: Database, tmp_path: Path
) -> None:
    """Whatever of it was committed is there once, and all the rest comes behind it."""
    target_database.execute(*TABLES)
    server = target_database.server
    with Proxy(server.host, server.port) as line:
        endpoint = endpoint_of(target_database, port=line.port)
        options = {"per_transaction": True}
        with closing(Applied(target_database, tmp_path / "trail", endpoint=endpoint, options=options)) as one:
            for number, when in enumerate(("unheard", "heard", "answered"), 1):
                line.cut_at(b"anabranch_move", when)
                one.on_wait = lambda waits: line.restore()
                first = number * 100
                one.applier.apply(one.append([[insert(item(first + n))] for n in range(60)]))
                assert line.cuts == number and len(one.waits) >= number
                assert target_database.query("SELECT count(*) FROM shop.items") == [(number * 60,)]


def test_rule_09_a_crash_behind_a_pipeline_does_nothing_twice(one: Applied, target_database: Database) -> None:
    """All of it is committed, and nobody was told."""
    upto = one.append([[insert(item(n))] for n in range(20)])
    failpoints.arm({failpoints.VARIABLE: "apply.pipelined=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            one.applier.apply(upto)
    finally:
        failpoints.arm({})
    assert target_database.query("SELECT count(*) FROM shop.items") == [(20,)]
    assert one.applier.progress.checkpoint.position.sequence == 0
    one.applier.apply(upto)
    one.applier.apply(one.append([[("items", "d", item(n))] for n in range(20)]))
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(40,)]


TYPES = [
    ("real", "double precision", "0.1"),
    ("date", "timestamp", "2024-01-02 03:04:05"),
    ("timestamp(0)", "timestamp(6)", "2024-01-02 03:04:05.123456"),
    ("numeric(5,1)", "numeric(9,4)", "1.2345"),
    ("varchar(3)", "text", "longer than three"),
]


@pytest.mark.parametrize(("before", "after", "value"), TYPES)
def test_values_never_go_through_the_type_that_a_column_had(
    one: Applied, target_database: Database, before: str, after: str, value: str
) -> None:
    """The statements were prepared for the former type, which would cut the value off without a word."""
    target_database.execute(f"ALTER TABLE shop.items ALTER b TYPE {before} USING NULL")
    one.applier.apply(one.append([[insert(item(n, 0, None))] for n in range(20)]))
    target_database.execute(f"ALTER TABLE shop.items ALTER b TYPE {after}")
    one.applier.apply(one.append([[insert(item(n, 0, value))] for n in range(20, 40)]))
    same = f"SELECT count(*) FROM shop.items WHERE b = '{value}'::{after}"
    assert target_database.query(same) == [(20,)]


def test_values_never_go_through_the_type_of_a_moment_before(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is altered in the middle of a pipeline: between two of its transactions."""
    target_database.execute("ALTER TABLE shop.items ALTER b TYPE real USING NULL")
    rows = [[insert(item(n, 0, "0.1"))] for n in range(4000)]
    upto = one.append(rows)

    def alter() -> None:
        give_up = time.monotonic() + 180
        with psycopg.connect(target_database.url, autocommit=True) as other:
            while time.monotonic() < give_up:
                [(place,)] = other.execute("SELECT sequence FROM anabranch.checkpoint").fetchall()
                if place > 100:
                    break
            other.execute("ALTER TABLE shop.items ALTER b TYPE double precision")
            altered.append(other.execute("SELECT count(*) FROM shop.items").fetchone())

    altered: list[Any] = []
    thread = threading.Thread(target=alter)
    thread.start()
    one.applier.apply(upto)
    thread.join()
    rounded = "SELECT count(*), coalesce(max(id), 0) FROM shop.items WHERE b = 0.1::real::double precision"
    [(number, last)] = target_database.query(rounded)
    assert number <= altered[0][0] and last < altered[0][0]  # none of those behind the change
    assert target_database.query("SELECT count(*) FROM shop.items") == [(4000,)]


def test_commits_wait_for_the_disk_again_behind_a_pipeline(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this process says it has applied is on the target's disk: an epoch that waits for it ends each pipeline."""
    said: list[tuple[int, str]] = []
    writer: Any = one.applier.progress.writer
    commit = writer.commit

    def committed() -> None:
        with writer._open.cursor() as cursor:
            said.append(
                (
                    one.applier.progress.checkpoint.position.sequence,
                    cursor.execute("SHOW synchronous_commit").fetchone()[0],
                )
            )
        commit()

    general = alone(one, monkeypatch)
    monkeypatch.setattr(pipelines, "PIPELINED", 25)
    monkeypatch.setattr(writer, "commit", committed)
    one.applier.apply(one.append([[insert(item(n))] for n in range(100)]))
    assert said == [(0, "on"), (25, "on"), (50, "on"), (75, "on")] and general == []
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(100,)]


def test_statements_that_were_given_up_are_prepared_anew(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver deallocates all statements of the connection where an epoch is rolled back."""
    one.applier.apply(one.append([[insert(item(n))] for n in range(10)]))
    general, writer = alone(one, monkeypatch), one.applier.progress.writer
    for command in ("DEALLOCATE ALL", "DISCARD PLANS"):
        session = writer._session()  # type: ignore[attr-defined]  # of this writer
        session.execute(command)
        session.commit()
        one.applier.apply(
            one.append([[insert(item(one.applier.progress.checkpoint.position.sequence + n))] for n in range(10)])
        )
    assert general == [] and target_database.query("SELECT count(*) FROM shop.items") == [(30,)]


def test_zero_characters_never_cut_a_text_off(one: Applied, target_database: Database) -> None:
    with pytest.raises(RowRefused):
        one.applier.apply(one.append([[insert(item(n, 0, "a\0b" if n == 10 else "x"))] for n in range(20)]))
    assert target_database.query("SELECT max(id) FROM shop.items") == [(9,)]
