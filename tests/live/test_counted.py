"""Rows that are read and rows that are written are counted against what the server says: a row that is lost on the way, comes
twice, or is left out by a limit, a proxy or a trigger is an error, at each kind of server, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch import connectors
from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.source.load import MysqlSnapshot
from anabranch.connectors.postgresql.copy_out import rows_told
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.snapshot import PostgresSnapshot
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.connectors.postgresql.target.staging import stage_rows
from anabranch.connectors.postgresql.target.verify import PostgresReader
from anabranch.connectors.sql.merge_pieces import StageColumn
from anabranch.contracts import Bounds, SnapshotReader
from anabranch.errors import RowRefused, SourceError, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import CUSTOMERS, JOB, MARKS, ORDER, ORDERS, RULES, begin, load

COLUMNS = ["id", "customer"]
ROWS = 5000
WHOLE = Bounds()
# What the line makes of a row that is found in an answer: it is lost, or comes twice.
FAULTS = {-1: b"", 1: rb"\g<0>\g<0>"}
# The row with the key 7 and the customer 0: a packet of two values, or of one that the server joins; COPY's message with a
# line, or in binary form. https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS
PACKET = rb".\0\0.(?:\x017\x010|\x037\xff0)"
MESSAGE = rb"d\0\0\0\x087\t0\n"
TUPLE = rb"d\0\0\0.\0\x02\0\0\0\x08\0{7}\x07\0\0\0\x04\0{4}"


def definition(end: Any, name: str) -> TableSchema:
    with closing(end.catalog()) as catalog:
        (table,) = catalog.tables(lambda table: table.name == name).values()
        return table


def read(snapshot: SnapshotReader, table: TableSchema, bounds: Bounds = WHOLE) -> list[bytes]:
    return b"".join(snapshot.lines(table, COLUMNS, bounds, RULES)).splitlines()


# --- MySQL and MariaDB ------------------------------------------------------------------------------------------------


@pytest.fixture
def orders(mysql_family: Server, source_database: Callable[[Server], Database]) -> tuple[Endpoint, TableSchema]:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer int, share double)")
    values = ", ".join(f"({n}, {n % 7}, 0.5)" for n in range(1, ROWS + 1))
    database.execute(f"INSERT INTO orders VALUES {values}")
    at = (mysql_family.host, mysql_family.port, mysql_family.user, mysql_family.password)
    endpoint = Endpoint(mysql_family.name, *at, database.name, (("ssl_mode", "disabled"),))
    return endpoint, definition(connectors.source(endpoint), "orders")


@pytest.mark.every_server
def test_a_row_limit_that_came_behind_our_pins_is_an_error(orders: tuple[Endpoint, TableSchema]) -> None:
    """In whole tables, pieces, rows by key; with lines that the server joins and with values one by one (a float)."""
    endpoint, table = orders
    with closing(MysqlSnapshot(endpoint)) as snapshot:
        snapshot.open(table, "none")
        assert len(read(snapshot, table)) == ROWS
        ask(snapshot._session(), "SET SESSION sql_select_limit = 100")
        for bounds, place, rows in (
            (Bounds(), "the whole table", ROWS),
            (Bounds(("17",), ("4000",)), r"the piece with \(id\) > \(17\) and <= \(4000\)", 3983),
            (Bounds(None, ("101",)), r"the piece with \(id\) <= \(101\)", 101),
        ):
            with pytest.raises(SourceError, match=f"counts {rows} rows in {place}, and 100 came") as told:
                read(snapshot, table, bounds)
            assert told.value.table == str(table.id) and "sql_select_limit" in told.value.hint
        assert len(read(snapshot, table, Bounds(None, ("100",)))) == 100
        with pytest.raises(SourceError, match=f"{ROWS} rows"):
            list(snapshot.lines(table, ["share"], WHOLE, RULES))
        with pytest.raises(SourceError, match="counts 200 rows in the rows of some keys, and 100 came"):
            list(snapshot.lines_of(table, COLUMNS, [{"id": str(n)} for n in range(1, 201)], RULES))
        ask(snapshot._session(), "SET SESSION sql_select_limit = DEFAULT")
        assert len(read(snapshot, table)) == ROWS


@pytest.mark.every_server
@pytest.mark.parametrize("more", FAULTS)
def test_a_row_that_the_line_loses_or_repeats_is_an_error(
    orders: tuple[Endpoint, TableSchema], loader: PostgresLoader, more: int
) -> None:
    """Nothing stays of the chunk at the target; the same chunk is loaded when the line is as it should be."""
    endpoint, table = orders
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    with (
        Proxy(endpoint.host, endpoint.port) as line,
        closing(MysqlSnapshot(replace(endpoint, port=line.port))) as snapshot,
    ):
        snapshot.open(table, "none")
        line.change(PACKET, FAULTS[more])
        with pytest.raises(SourceError, match=f"counts {ROWS} rows in the whole table, and {ROWS + more} came"):
            load(loader, ORDER, *snapshot.lines(table, COLUMNS, WHOLE, RULES))
        line.restore()
        assert load(loader, ORDER, *snapshot.lines(table, COLUMNS, WHOLE, RULES)) == ROWS


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@dataclass
class Ends:
    """Orders at a PostgreSQL that is read by way of a line with faults, and the loader of another."""

    line: Proxy
    direct: Endpoint
    table: TableSchema

    @property
    def endpoint(self) -> Endpoint:
        return replace(self.direct, port=self.line.port)


@pytest.fixture
def ends(postgresql_source: Server, request: pytest.FixtureRequest) -> Iterator[Ends]:
    database = create_database(postgresql_source, request.node.name[:40])
    database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer int)",
        f"INSERT INTO orders SELECT n, n % 7 FROM generate_series(1, {ROWS}) AS n",
    )
    direct = endpoint_of(database)
    with Proxy(direct.host, direct.port) as line:
        yield Ends(line, direct, definition(source(direct), "orders"))
    drop_database(database)


@pytest.mark.parametrize("more", FAULTS)
def test_a_row_of_copy_that_the_line_loses_or_repeats_is_an_error(
    ends: Ends, loader: PostgresLoader, more: int
) -> None:
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    with closing(PostgresSnapshot(ends.endpoint)) as snapshot:
        snapshot.open(ends.table, "none")
        ends.line.change(MESSAGE, FAULTS[more])
        with pytest.raises(SourceError, match=f"counts {ROWS} rows in the whole table, and {ROWS + more} came") as told:
            load(loader, ORDER, *snapshot.lines(ends.table, COLUMNS, WHOLE, RULES))
        assert told.value.table == "public.orders" and "the server itself" in told.value.hint
        piece = Bounds(("3",), ("40",))
        with pytest.raises(
            SourceError, match=rf"37 rows in the piece with \(id\) > \(3\) and <= \(40\), and {37 + more}"
        ):
            read(snapshot, ends.table, piece)
        with pytest.raises(SourceError, match=f"1 rows in the rows of some keys, and {1 + more} came"):
            list(snapshot.lines_of(ends.table, COLUMNS, [{"id": "7"}], RULES))
        ends.line.restore()
        assert len(read(snapshot, ends.table)) == ROWS


def test_a_row_of_a_binary_stream_that_the_line_loses_is_refused_and_read_again_as_lines(
    ends: Ends, loader: PostgresLoader
) -> None:
    """By the two servers' own counts: nobody reads such a stream on its way."""
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    with closing(PostgresSnapshot(ends.endpoint)) as snapshot:
        snapshot.open(ends.table, "none")
        form = loader.raw_forms([ORDER])[ORDERS.id]
        assert snapshot.raw_form(ends.table, COLUMNS) == form
        ends.line.change(TUPLE, b"")
        with pytest.raises(
            RowRefused, match=f"load chunk 0: the server counts {ROWS} rows in the source, and {ROWS - 1}"
        ):
            loader.load_raw(JOB, ORDER, 1, 0, MARKS, form, snapshot.raw(ends.table, COLUMNS, Bounds()))
        ends.line.restore()
        assert loader.load_raw(JOB, ORDER, 1, 0, MARKS, form, snapshot.raw(ends.table, COLUMNS, Bounds())) == ROWS


@pytest.mark.since(12)  # as a target
@pytest.mark.parametrize("more", FAULTS)
def test_verify_counts_what_it_reads_at_the_target(ends: Ends, more: int) -> None:
    table = ORDER
    at = TargetTable(ORDERS.id, ends.table.id, table.columns, table.types, table.key)
    with closing(PostgresReader(ends.endpoint)) as reader:
        pieces = reader.pieces(at, 1000)
        ends.line.change(MESSAGE, FAULTS[more])
        with pytest.raises(
            TargetError, match=r"read public.orders: the server counts \d+ rows in the (piece ctid|whole table)"
        ) as told:
            for piece in pieces:
                list(reader.lines(at, piece))
        assert told.value.table == str(ORDERS.id)
        ends.line.restore()
        assert sum(b"".join(reader.lines(at, piece)).count(b"\n") for piece in pieces) == ROWS


# --- the target -------------------------------------------------------------------------------------------------------

LEAVES_OUT = (
    "CREATE FUNCTION dest.leave_out() RETURNS trigger LANGUAGE plpgsql AS"
    " $$BEGIN IF NEW.id % 10 = 0 THEN RETURN NULL; END IF; RETURN NEW; END$$",
    'CREATE TRIGGER "Only some" BEFORE INSERT ON dest.orders FOR EACH ROW EXECUTE FUNCTION dest.leave_out()',
    'ALTER TABLE dest.orders ENABLE ALWAYS TRIGGER "Only some"',
)


def test_a_trigger_that_leaves_rows_out_is_an_error_and_named(
    ends: Ends, loader: PostgresLoader, target_database: Any
) -> None:
    """As lines and as a binary stream; nothing stays."""
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    target_database.execute(*LEAVES_OUT)
    lines = [b"%d\t1\n" % n for n in range(1, 101)]
    with pytest.raises(
        TargetError, match=r"load chunk 0: 100 rows were sent to dest\.orders, and the server took 90"
    ) as told:
        load(loader, ORDER, *lines)
    assert told.value.table == "shop.orders"
    with closing(PostgresSnapshot(ends.direct)) as snapshot:
        snapshot.open(ends.table, "none")
        form = snapshot.raw_form(ends.table, COLUMNS)
        with pytest.raises(RowRefused, match=f"counts {ROWS} rows in the source, and {ROWS * 9 // 10} came"):
            loader.load_raw(JOB, ORDER, 1, 0, MARKS, form, snapshot.raw(ends.table, COLUMNS, Bounds()))
    assert target_database.query("SELECT count(*) FROM dest.orders") == [(0,)]
    mend = told.value.hint.removeprefix("triggers of the target may leave rows out: ").partition(";")[0]
    assert mend == 'ALTER TABLE dest.orders DISABLE TRIGGER "Only some"'
    target_database.execute(mend)
    assert load(loader, ORDER, *lines) == 100


def test_staged_rows_are_counted(loader: PostgresLoader, target_database: Any) -> None:
    """By the same statement that epochs stage with; the table of the test has a trigger, which our own have not."""
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    target_database.execute(*LEAVES_OUT)
    columns = [StageColumn(name, kind) for name, kind in zip(ORDER.columns, ORDER.types, strict=True)]
    arrays = [pa.array(range(1, 101), pa.int64()), pa.array([1] * 100, pa.int32())]
    with pytest.raises(TargetError, match=r"stage changes: 100 rows were sent to dest\.orders, and the server took 90"):
        stage_rows(loader._session(), TableId("dest", "orders"), columns, arrays, "refuse")


def test_what_the_server_says_stands_behind_the_rows() -> None:
    """Also where rows hold what looks like it, and where settings or notices come behind it."""
    said, ready = b"C\0\0\0\x0cCOPY 42\0", b"Z\0\0\0\x05I"
    row = b"d\0\0\0\x10C\0\0\0\x0bCOPY 7\0"
    status = b"S\0\0\0\x11TimeZone\0UTC\0"
    assert rows_told(said + ready) == rows_told(row + b"c\0\0\0\x04" + said + status + ready) == 42
    for broken in (b"", ready, said[1:] + ready, b"C\0\0\0\x0eSELECT 42\0" + ready, said + ready[:-1]):
        with pytest.raises(ValueError, match="how many rows"):
            rows_told(broken)
