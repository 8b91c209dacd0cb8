"""Generated columns of a MySQL or MariaDB at a target of this family: computed there where that gives the same, else plain;
invisible columns and indexes, and indexes over expressions, as they are at the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.config import load_job
from anabranch.connectors.mysql.source.catalog import MysqlCatalog
from anabranch.connectors.mysql.target import own_computed
from anabranch.connectors.mysql.target.copy_in import copy
from anabranch.connectors.mysql.target.load_data import way_to
from anabranch.connectors.mysql.target.session import connect
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.mysql.target.verify import MysqlTargetReader
from anabranch.contracts import Bounds, Conflict, HashingSnapshot, ValueRules
from anabranch.errors import RowRefused
from anabranch.job.verifying import _as_compared
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.fingerprint import Hashed, Hashing
from anabranch.rows.lines import parse_line
from anabranch.rows.net import INSERT, RowChange, TargetTable
from anabranch.rules.rule_set import RuleSet
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_epoch import epoch_at

Make = Callable[[Server], Database]
BASE = """id INT PRIMARY KEY, a INT, b BIGINT UNSIGNED, n DECIMAL(12,3), f DOUBLE, d DATE, at DATETIME, fine DATETIME(3),
  seen TIMESTAMP NULL, s VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci, l VARCHAR(20) CHARACTER SET latin1,
  c CHAR(5) CHARACTER SET utf8mb4, t TEXT"""
# Type and expression of what is computed at the target, too.
SAME = [
    ("INT", "a * 2"),
    ("BIGINT", "a + 7 - id"),
    ("INT", "a % 3"),
    ("INT", "a DIV 2"),
    ("DECIMAL(14,3)", "n + a"),
    ("DECIMAL(20,7)", "n * n + 1.5"),
    ("DATE", "date(at)"),
    ("INT", "CASE WHEN a > 3 AND b < 100 THEN 1 ELSE 0 END"),
    ("INT", "a IS NULL"),
    ("INT", "if(a BETWEEN 1 AND 4, a, -1)"),
    ("INT", "if(a IN (1, 3), greatest(a, id), coalesce(a, 0))"),
    ("INT", "year(d) * 12 + month(d)"),
    ("INT", "hour(at)"),
    ("DATE", "last_day(d)"),
    ("VARCHAR(60)", "concat(s, ' it''s \\\\ ', a)"),
    ("VARCHAR(60)", "concat_ws('/', s, a)"),
    ("VARCHAR(10)", "left(s, 3)"),
    ("INT", "char_length(s)"),
    ("VARCHAR(40)", "md5(s)"),
    ("INT", "s IS NOT NULL"),
]
# … and of what gets the source's values, with a part of the reason.
OTHER = [
    ("DECIMAL(12,6)", "a / 3", "/"),
    ("DOUBLE", "f * 2", "f (double)"),
    ("INT", "hour(seen)", "seen (timestamp)"),
    ("VARCHAR(20)", "dayname(d)", "dayname"),
    ("INT", "week(d)", "week"),
    ("INT", "s = 'x'", "="),
    ("VARCHAR(20)", "lower(s)", "of its expression is not known"),
    ("INT", "char_length(c)", "c (char(5) utf8mb4)"),
    ("INT", "char_length(t)", "t (text"),
    ("DATE", "fine", "time of fine"),
    ("DECIMAL(12,1)", "n * 1.19", "more decimals"),
    ("INT", "left(s, 1)", "left"),
    ("DATETIME", "at", "datetime"),
    ("INT", "a & 3", "&"),
    ("VARCHAR(40)", "md5(l)", "l (varchar(20) latin1)"),
    ("BIGINT UNSIGNED", "b - 0", "of unsigned numbers"),
    ("VARCHAR(60)", "concat(s, '😀')", "of a text"),  # the catalogue has others for it
]
BY_SESSION = ("hour(seen", "dayname", "week(", "char_length(c", "b - 0")
# Settings of who writes at the source, at their worst
WRITER = (
    "SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH', time_zone = '+09:30', lc_time_names = 'de_DE'",
    "SET SESSION default_week_format = 3, div_precision_increment = 1",
)
ROWS = [
    "(1, 3, 7, 1.2345, 0.1, '2024-02-29', '2024-02-29 23:59:59', '2024-12-31 23:59:59.999', '2024-02-29 01:00:00',"
    " 'Äb ', 'ß', 'x', 'y')",
    "(2, -5, 18446744073709551615, -0.05, -0.0, '1999-12-31', '1999-01-01', '1999-01-01', NULL, '😀😀😀😀', NULL, NULL, NULL)",
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'it''s \\\\', '', '')",
]


class Pair:
    """A table at a source, and what a job makes of it at the target."""

    def __init__(self, source: Database, target: Database, file: Path, more: str = "") -> None:
        file.write_text(
            f'name = "computed"\n[source]\nurl = "{source.server.url()}"\n[target]\nurl = "{target.server.url()}"\n{more}'
            f'[[rules]]\ninclude = ["{source.name}.*"]\ntarget = "{target.name}.{{table}}"\n'
        )
        self.source, self.target = source, target
        self.rules = RuleSet(load_job(file), MysqlTypes(target.server.name))
        endpoint = replace(endpoint_of(target), database="")
        with closing(MysqlStore(endpoint)) as store:
            store.prepare()
        self.tables = MysqlTables(endpoint, self.rules.values, target.server.name)

    def read(self, database: Database) -> TableSchema:
        with closing(MysqlCatalog(endpoint_of(database))) as catalog:
            return catalog.tables(lambda one: one.schema == database.name)[TableId(database.name, "made")]

    def make(self) -> tuple[TableSchema, TargetTable, list[str]]:
        """Make and build the table; its definition comes out of a trail."""
        schema = TableSchema.from_json(self.read(self.source).to_json())
        table = self.rules.target_table(schema)
        self.tables.create_table(schema, table, self.rules.values, False)
        said = self.tables.build("computed", schema, table, lambda _: None)
        assert self.tables.build("computed", schema, table, lambda _: None) == said
        return schema, table, said

    def compared(self, schema: TableSchema) -> TargetTable:
        """The table as `verify` compares it."""
        with closing(self.reader()) as reader:
            return _as_compared(self.rules, schema, reader)

    def reader(self) -> MysqlTargetReader:
        return MysqlTargetReader(replace(endpoint_of(self.target), database=""))

    def differing(self, schema: TableSchema, table: TargetTable) -> tuple[bool, list[tuple[str, str]]]:
        """Do sums differ, and which columns of which rows do."""
        bounds, may_be_null = Bounds(), {column.name: column.nullable for column in schema.columns}
        hashed = [Hashed(name, type, may_be_null[name]) for name, type in zip(table.columns, table.types, strict=True)]
        source = connectors.source(endpoint_of(self.source)).snapshot()
        with closing(source) as snapshot, closing(self.reader()) as reader:
            assert isinstance(snapshot, HashingSnapshot)
            there = b"".join(snapshot.lines(schema, table.source_columns, bounds, self.rules.values))
            here = b"".join(line for piece in reader.pieces(table, 100) for line in reader.lines(table, piece))
            sums = {
                snapshot.fingerprint(schema, hashed, bounds, Hashing.SHA256),
                reader.fingerprint(table, hashed, "TRUE", Hashing.SHA256),
            }
        rows = [sorted(parse_line(line) for line in lines.split(b"\n")[:-1]) for lines in (there, here)]
        pairs = (
            (a[0], name)
            for a, b in zip(*rows, strict=True)
            for name, x, y in zip(table.columns, a, b, strict=True)
            if x != y
        )
        return len(sums) > 1, [(str(key), name) for key, name in pairs]

    def copy(self, table: TargetTable) -> None:
        names = ", ".join(f"`{name}`" for name in table.columns)
        places = ", ".join(["%s"] * len(table.columns))
        for row in self.source.query(f"SELECT {names} FROM made"):
            self.target.query(f"INSERT INTO made ({names}) VALUES ({places})", row)


@pytest.fixture(params=["same", "other"])
def pair(
    request: pytest.FixtureRequest,
    mysql_family: Server,
    mysql: Server,
    mariadb: Server,
    source_database: Make,
    tmp_path: Path,
) -> Iterator[Pair]:
    other = mariadb if mysql_family.name == "mysql" else mysql
    source = source_database(mysql_family if request.param == "same" else other)
    found = Pair(source, source_database(mysql_family), tmp_path / "job.toml")
    yield found
    found.tables.close()


def test_mysql_and_mariadb_compute_what_means_the_same_and_get_the_values_of_what_does_not(pair: Pair) -> None:
    same = {f"s{n}": f"{type} GENERATED ALWAYS AS ({text})" for n, (type, text) in enumerate(SAME)}
    other = {f"o{n}": f"{type} GENERATED ALWAYS AS ({text}) STORED" for n, (type, text, _) in enumerate(OTHER)}
    if pair.source.server.name == "mariadb":  # which refuses what depends on a session
        other = {name: line for name, line in other.items() if not any(word in line for word in BY_SESSION)}
    lines = [f"{name} {line}{' STORED' * (n % 2)}" for n, (name, line) in enumerate({**same, **other}.items())]
    lines = [line.replace("STORED STORED", "STORED") for line in lines]
    inserts = [f"INSERT INTO made (id, a, b, n, f, d, at, fine, seen, s, l, c, t) VALUES {row}" for row in ROWS]
    pair.source.execute(*WRITER, f"CREATE TABLE made ({BASE}, {', '.join(lines)})", *inserts)
    schema, table, said = pair.make()
    assert said == []
    assert dict(table.computed) == {name: name for name in same}
    for n, (_, _, reason) in enumerate(OTHER):
        if f"o{n}" in other:
            why = own_computed.why_not(schema.column(f"o{n}"), schema, ValueRules(), pair.target.server.name)
            assert reason in why, why
    made = {column.name: (column.generated, column.stored) for column in pair.read(pair.target).columns}
    assert {name: made[name] for name in same} == {c.name: (True, c.stored) for c in schema.columns if c.name in same}
    assert not any(made[name][0] for name in other)
    pair.copy(table)
    for name in (*same, *other):
        query = f"SELECT id, CAST(`{name}` AS CHAR CHARACTER SET utf8mb4) FROM made ORDER BY id"
        assert pair.target.query(query) == pair.source.query(query), f"{name} {(same | other)[name]}"


def test_mysql_and_mariadb_a_column_is_plain_where_the_job_says_so_or_changes_what_it_reads(
    mysql_family: Server, source_database: Make, tmp_path: Path
) -> None:
    source, target = source_database(mysql_family), source_database(mysql_family)
    source.execute("CREATE TABLE made (id INT PRIMARY KEY, a INT, b INT, twice INT AS (a * 2), more INT AS (b + 1))")
    entry = f'[[tables]]\nname = "{source.name}.made"\n'
    for more, computed in (
        ("", ["twice", "more"]),
        ('[target.options]\ncomputed = "values"\n', []),
        (f"{entry}columns.rename = {{ a = 'c' }}\n", ["more"]),
        (f"{entry}columns.drop = ['b', 'more']\n", ["twice"]),
        (f"{entry}columns.type = {{ twice = 'bigint' }}\n", ["more"]),
        (f'{entry}on_conflict = "newest"\nnewest_by = "twice"\n', ["more"]),
        ('[types]\nzero_date = "null"\n', ["twice", "more"]),
    ):
        pair = Pair(source, target, tmp_path / "job.toml", more)
        table = pair.rules.target_table(pair.read(source))
        assert [name for name, _ in table.computed] == computed, more
        assert {"twice", "more"} - set(computed) <= {*table.columns, "more"}
        pair.tables.close()


def test_mysql_and_mariadb_verify_compares_what_is_computed(pair: Pair) -> None:
    """Both by the servers' own sums and row by row; a column that could not be made is left out."""
    pair.source.execute(
        "CREATE TABLE made (id INT PRIMARY KEY, a INT, s VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci,"
        " twice BIGINT AS (a * 2) STORED, told VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
        " AS (concat(s, '\\\\', a)) VIRTUAL, day DATE AS (date('2024-02-29')) VIRTUAL)",
        "INSERT INTO made (id, a, s) VALUES (1, 3, 'Äb '), (2, NULL, '😀'), (3, -7, ''), (4, 0, NULL)",
    )
    schema, table, said = pair.make()
    assert said == [] and {"twice", "told"} <= {name for _, name in table.computed}
    pair.copy(table)
    one = pair.compared(schema)
    assert (
        set(one.columns) == {column.name for column in schema.columns}
        and one.columns[: len(table.columns)] == table.columns
    )
    assert pair.differing(schema, one) == (False, [])
    for change, differing in (
        ("DROP told", {"twice"}),
        ("DROP twice", set()),
        ("ADD twice BIGINT AS (a * 2 + (a < 0)) VIRTUAL", {"twice"}),
    ):
        pair.target.execute(f"ALTER TABLE made {change}")
        one = pair.compared(schema)
        assert set(one.columns) - {*table.columns, "day"} == differing
    assert pair.differing(schema, one) == (True, [("3", "twice")])


def test_mysql_and_mariadb_say_how_to_get_rid_of_a_column_that_cannot_be_computed(
    mysql_family: Server, source_database: Make
) -> None:
    """In the stream and in the load."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE small (id INT PRIMARY KEY, a INT, made TINYINT AS (a * 2) STORED)",
        "CREATE TABLE short (id INT PRIMARY KEY, a INT, made VARCHAR(2) AS (concat(a, 'x')) STORED)",
        "CREATE TABLE big (id INT PRIMARY KEY, a INT, made BIGINT AS (a * 9223372036854775807) STORED)",
    )
    types = (LogicalType(Kind.INT32), LogicalType(Kind.INT32))
    with epoch_at(database) as at:
        for name in ("small", "short", "big"):
            table = TargetTable(
                TableId("s", name), TableId(database.name, name), ("id", "a"), types, ("id",), ("id", "a")
            )
            with pytest.raises(Conflict, match=r'\[target.options\] computed = "values"'):
                at.writer.change(RowChange(table, INSERT, values={"id": "1", "a": "1000"}))
            at.again()
            with closing(connect(at.endpoint, "anabranch-test")) as session, pytest.raises(RowRefused) as refused:
                copy(session, "job", table, 1, way_to(session, table), [b"1\t1000\n"])
            assert '[target.options] computed = "values"' in refused.value.hint


def test_mysql_and_mariadb_hide_what_the_source_hides(pair: Pair) -> None:
    """Invisible columns and indexes. MariaDB has no invisible column that is NOT NULL and has no default."""
    pair.source.execute(
        """CREATE TABLE made (id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 3 INVISIBLE, c VARCHAR(9) INVISIBLE,
             n INT GENERATED ALWAYS AS (a + 1) VIRTUAL INVISIBLE, KEY by_a (a), KEY by_n (n), UNIQUE KEY by_b (b, id))"""
    )
    is_mysql = pair.source.server.name == "mysql"
    pair.source.execute(f"ALTER TABLE made ALTER INDEX by_a {'INVISIBLE' if is_mysql else 'IGNORED'}")
    if is_mysql:
        pair.source.execute(
            "ALTER TABLE made ADD COLUMN strict INT NOT NULL INVISIBLE, ADD KEY sums ((a + b), id DESC, c(3)),"
            " ADD UNIQUE KEY told ((concat(c, 'it''s'))), ADD KEY strictly ((CAST(c AS SIGNED)))"
        )
    schema, table, said = pair.make()
    there = pair.read(pair.target)
    hidden = [c.name for c in there.columns if c.invisible]
    if pair.target.server.name == "mysql" or not is_mysql:
        refused = ["strictly"] if is_mysql else []
        assert [problem.partition(" of ")[0] for problem in said] == [f"index {name}" for name in refused]
        assert hidden == [c.name for c in schema.columns if c.invisible]
        wanted = sorted((i.name, i.parts) for i in schema.indexes if i.name not in refused)
        assert sorted((i.name, i.parts) for i in there.indexes) == wanted
    else:
        assert hidden == ["b", "c", "n"]
        assert [problem.partition(" of ")[0] for problem in said] == ["index strictly", "index sums", "index told"]
        notes = [step.note for step in pair.tables.script([(schema, table)])]
        assert any(note.startswith("strict is visible: MariaDB has no invisible column") for note in notes), notes
    assert [i.name for i in there.indexes if i.invisible] == ["by_a"]
    assert dict(table.computed) == {"n": "n"}
