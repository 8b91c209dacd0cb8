"""MySQL and MariaDB as targets: every check on a server that is right, and on one that is wrong in one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pymysql
import pytest

from anabranch import connectors
from anabranch.connectors.mysql.target import preflight_cluster, preflight_server, row_sizes
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.ddl import create_table
from anabranch.connectors.mysql.target.own_source import own_identity
from anabranch.connectors.mysql.target.preflight import MysqlTargetChecks
from anabranch.connectors.mysql.target.preflight_sizes import row_size
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import connect as connect_target
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import PreflightContext, ValueRules
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, connect
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

pytestmark = pytest.mark.every_server("fractions")
Make = Callable[[Server], Database]
INT, BIG, WORD = LogicalType(Kind.INT32), LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=40)
ID, NAME = Column("id", INT, "int", nullable=False), Column("name", WORD, "varchar(40)", charset="utf8mb4")
BINARY = "utf8mb4_0900_bin"
FoundBy = dict[str, list[CheckResult]]


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Database:
    return source_database(mysql_family)


def table(*columns: Column, name: str = "orders", key: tuple[str, ...] = ("id",), **more: object) -> TableSchema:
    made = TableSchema(TableId("shop", name), columns or (ID, NAME), key, engine="InnoDB")
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def target_of(schema: TableSchema, place: str, computes: bool = False) -> TargetTable:
    """`computes`: generated columns are computed at the target."""
    computed = tuple((column.name, column.name) for column in schema.columns if computes and column.generated)
    written = [column for column in schema.columns if (column.name, column.name) not in computed]
    names, types = tuple(column.name for column in written), tuple(column.type for column in written if column.type)
    return TargetTable(schema.id, TableId(place, schema.id.name), names, types, schema.primary_key, names, computed)


def checked(
    database: Database,
    *schemas: TableSchema,
    endpoint: Endpoint | None = None,
    family: str = "",
    place: str = "",
    computes: bool = False,
    **choices: str,
) -> FoundBy:
    """Results by check; choices like load__existing="empty"."""
    tables = {one.id: one for one in schemas or (table(),)}
    targets = {id: target_of(one, place or database.name, computes) for id, one in tables.items()}
    named = {name.replace("__", "."): value for name, value in choices.items()}
    context = PreflightContext("job", named, tables, targets)
    return by_check(database, context, endpoint, family)


def by_check(
    database: Database, context: PreflightContext, endpoint: Endpoint | None = None, family: str = ""
) -> FoundBy:
    found: FoundBy = {}
    checks = MysqlTargetChecks(endpoint or endpoint_of(database), family or database.server.name)
    with closing(checks):
        for result in checks.run(context):
            found.setdefault(result.check.removeprefix("target."), []).append(result)
    return found


def one(found: FoundBy, check: str) -> CheckResult:
    assert check in found, sorted(found)
    (result,) = found[check]
    return result


def wrong(found: FoundBy) -> list[CheckResult]:
    return [result for results in found.values() for result in results if result.verdict != "ok"]


@contextmanager
def setting(server: Server, name: str, value: str) -> Iterator[None]:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        (before,) = cursor.fetchone()
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


@contextmanager
def user_with(database: Database, *grants: str) -> Iterator[Endpoint]:
    name = database.name[-16:]
    database.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'")
    try:
        database.execute(*(f"GRANT {grant} TO {name}@'%'" for grant in grants))
        yield replace(endpoint_of(database), user=name, password="pw", database="")
    finally:
        database.execute(f"DROP USER {name}@'%'")


def test_mysql_target_that_is_ready(database: Database) -> None:
    with setting(database.server, "local_infile", "ON"):
        found = checked(database)
    assert wrong(found) == []
    assert {"version", "connections", "rights", "types"} <= set(found)


def test_mysql_target_of_another_family_than_the_scheme_says(database: Database) -> None:
    other = {"mysql": "mariadb", "mariadb": "mysql"}[database.server.name]
    found = checked(database, family=other)
    assert (one(found, "family").verdict, len(found)) == ("failed", 1)
    assert one(found, "family").hint == f"write {database.server.name}:// in [target] url"


def test_mysql_target_of_a_release_that_no_test_has_seen(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_server, "TESTED", {"mysql": ((10, 1),), "mariadb": ((11, 8),)})
    assert one(checked(database), "version").verdict == "warning"
    monkeypatch.setattr(preflight_server, "OLDEST", {"mysql": (10, 0, 0), "mariadb": (11, 0, 0)})
    assert one(checked(database), "version").verdict == "failed"


SETTINGS = [  # variable, value, check, verdict, part of the hint
    ("local_infile", "OFF", "local_infile", "warning", "SET GLOBAL local_infile = ON"),
    ("read_only", "ON", "read_only", "warning", "SET GLOBAL read_only = OFF"),
    ("super_read_only", "ON", "super_read_only", "failed", "SET GLOBAL super_read_only = OFF"),
    ("binlog_format", "'STATEMENT'", "binlog_format", "failed", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_format", "'MIXED'", "binlog_format", "warning", "SET GLOBAL binlog_format = 'ROW'"),
]


def test_pitfall_62_mysql_target_settings(database: Database) -> None:
    known = {name for name, _ in database.query("SHOW GLOBAL VARIABLES")}
    for name, value, check, verdict, hint in SETTINGS:
        if name not in known:
            continue
        ((before,),) = database.query("SELECT @@GLOBAL.read_only")
        try:
            with setting(database.server, name, value):
                result = one(checked(database), check)
        finally:
            database.execute(f"SET GLOBAL read_only = {before}")  # super_read_only switches it on
        assert result.verdict == verdict and hint in result.hint, result


def test_mysql_target_takes_small_packets_only(database: Database) -> None:
    documents = table(ID, Column("body", LogicalType(Kind.TEXT), "longtext"))
    with setting(database.server, "max_allowed_packet", "4194304"):
        result = one(checked(database, documents), "max_allowed_packet")
        assert (result.verdict, result.names) == ("warning", ("shop.orders.body",))
        assert "SET GLOBAL max_allowed_packet" in result.hint
        assert "max_allowed_packet" not in checked(database)  # its columns are short
    with setting(database.server, "max_allowed_packet", "65536"):
        assert one(checked(database), "max_allowed_packet").verdict == "failed"


@pytest.mark.every_server("keys that are wanted")
def test_pitfall_62_mysql_target_keys_that_the_server_wants(database: Database) -> None:
    name = {"mysql": "sql_require_primary_key", "mariadb": "innodb_force_primary_key"}[database.server.name]
    keyless = table(key=())
    assert name not in checked(database, keyless)
    with setting(database.server, name, "ON"):
        result = one(checked(database, keyless), name)
        assert (result.verdict, result.names) == ("failed", ("shop.orders",))
        assert f"SET GLOBAL {name} = OFF" in result.hint
        assert name not in checked(database)


def test_mysql_target_key_that_the_server_makes_up(mysql: Server, source_database: Make) -> None:
    """A keyless table that the job has made there has one at the next start."""
    database, keyless = source_database(mysql), table(key=())
    with setting(mysql, "sql_generate_invisible_primary_key", "ON"):
        with closing(MysqlTables(endpoint_of(database), ValueRules(), "mysql")) as tables:
            tables.create_table(keyless, target_of(keyless, database.name), ValueRules(), False)
        assert "my_row_id" in str(database.query("SHOW CREATE TABLE orders"))
        assert [r for r in wrong(checked(database, keyless)) if r.table] == []
    assert "my_row_id" in one(checked(database), "key").message


# --- rights -----------------------------------------------------------------------------------------------------------


def test_mysql_target_rights_and_the_grants_that_give_them(database: Database) -> None:
    with user_with(database, f"SELECT, INSERT ON `{database.name}`.*", "SELECT ON `anabranch`.*") as endpoint:
        found = checked(database, endpoint=endpoint)
        rights, state = one(found, "rights"), one(found, "state")
        assert rights.verdict == state.verdict == "failed"
        assert "UPDATE" in rights.message and "lacks SELECT" not in rights.message
        database.execute(rights.hint, state.hint)
        found = checked(database, endpoint=endpoint)
        assert one(found, "rights").verdict == "ok" and "state" not in found


def test_mysql_target_rights_on_a_database_that_is_not_there(database: Database) -> None:
    with user_with(database) as endpoint:
        found = checked(database, endpoint=endpoint, place=f"{database.name[:50]}_new")
        result = one(found, "rights")
        assert result.verdict == "failed"
        database.execute(result.hint, one(found, "state").hint)
        assert one(checked(database, endpoint=endpoint, place=f"{database.name[:50]}_new"), "rights").verdict == "ok"


def test_mysql_target_truncate_needs_a_right_more(database: Database) -> None:
    with user_with(database) as endpoint:
        lacking = checked(database, endpoint=endpoint, apply__truncate="truncate")["truncate"]
        assert [result.verdict for result in lacking] == ["failed", "failed"]
        database.execute(*(result.hint for result in lacking))
        assert "truncate" not in checked(database, endpoint=endpoint, apply__truncate="truncate")
        assert "truncate" not in checked(database, endpoint=endpoint, apply__truncate="delete")


def test_mysql_target_read_only_holds_for_an_ordinary_user(database: Database) -> None:
    with user_with(database, "SELECT ON *.*") as endpoint, setting(database.server, "read_only", "ON"):
        assert one(checked(database, endpoint=endpoint), "read_only").verdict == "failed"


# --- tables that are there --------------------------------------------------------------------------------------------

TABLE = "CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) COLLATE utf8mb4_bin)"
EXISTING = [  # statements, check, verdict, part of message, part of hint, choices
    ([TABLE, "INSERT INTO orders VALUES (1, 'x')"], "existing", "failed", "holds rows", "TRUNCATE TABLE", {}),
    ([TABLE, "INSERT INTO orders VALUES (1, 'x')"], "existing", "warning", "stay", "", {"load__existing": "keep"}),
    (["CREATE VIEW orders AS SELECT 1 AS id, 'x' AS name"], "existing", "failed", "is a view", "another target", {}),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40)) ENGINE = MyISAM"],
        "engine",
        "failed",
        "MyISAM",
        "ENGINE = InnoDB",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY)"],
        "columns",
        "failed",
        "name is missing",
        "ADD `name` varchar(40)",
        {},
    ),
    (
        ["CREATE TABLE orders (id smallint PRIMARY KEY, name varchar(40))"],
        "columns",
        "failed",
        "id is smallint",
        "MODIFY `id` int",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(39))"],
        "columns",
        "failed",
        "varchar(39)",
        "MODIFY `name` varchar(40)",
        {},
    ),
    (
        [TABLE, "ALTER TABLE orders ADD more int NOT NULL"],
        "columns",
        "failed",
        "extra column more",
        "MODIFY `more` int",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) AS ('x') STORED)"],
        "columns",
        "failed",
        "generated",
        "MODIFY `name`",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) NOT NULL)"],
        "columns",
        "failed",
        "NOT NULL",
        "varchar(40) NULL",
        {},
    ),
    (
        ["CREATE TABLE orders (id int, name varchar(40))"],
        "key",
        "failed",
        "primary key is ()",
        "ADD PRIMARY KEY (`id`)",
        {},
    ),
    (
        ["CREATE TABLE orders (id int, name varchar(40), PRIMARY KEY (id, name))"],
        "key",
        "failed",
        "(id, name)",
        "DROP PRIMARY KEY",
        {},
    ),
    (
        [TABLE, "CREATE UNIQUE INDEX u ON orders (name)"],
        "constraints",
        "failed",
        "unique index u",
        "defer_constraints",
        {},
    ),
    (
        [TABLE, "CREATE UNIQUE INDEX u ON orders (name)"],
        "constraints",
        "warning",
        "unique index u",
        "",
        {"load__defer_constraints": "true"},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) CHARACTER SET latin1)"],
        "collations",
        "warning",
        "latin1",
        "CHARACTER SET utf8mb4",
        {},
    ),
]


def test_mysql_target_tables_that_are_there(database: Database) -> None:
    for statements, check, verdict, message, hint, choices in EXISTING:
        if "STORED" in statements[0] and not knows(database.server, "generated columns"):
            continue
        database.execute(*statements)
        result = next(r for r in checked(database, **choices).get(check, []) if message in r.message)
        assert result.verdict == verdict and hint in result.hint, statements
        assert result.table == "shop.orders"
        database.execute("DROP VIEW orders" if "VIEW" in statements[0] else "DROP TABLE orders")


def test_mysql_target_year_as_every_server_shows_it(database: Database) -> None:
    """`year(4)` on MariaDB and on MySQL before 8.0, where the job has made a `year`."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, y year)")
    found = checked(database, table(ID, Column("y", LogicalType(Kind.YEAR), "year")))
    assert "columns" not in found


def test_mysql_target_hints_mend_tables(database: Database) -> None:
    """Statements of the findings, carried out: no finding is left."""
    database.execute(
        "CREATE TABLE orders (id smallint, more int NOT NULL) ENGINE = MyISAM",
    )
    for _ in range(3):
        found = [r for r in wrong(checked(database)) if r.check.split(".")[1] in ("columns", "key", "engine")]
        for result in found:
            database.execute(result.hint)
    assert [r for r in wrong(checked(database)) if r.table] == []


@pytest.mark.every_server("utf8mb4_0900_bin")
def test_pitfall_58_mysql_target_key_that_takes_other_texts_for_equal(database: Database) -> None:
    exact = Column("name", WORD, "varchar(40)", nullable=False, charset="utf8mb4", collation=BINARY)
    schema = table(exact, key=("name",))
    database.execute("CREATE TABLE orders (name varchar(40) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    result = one(checked(database, schema), "collations")
    assert result.verdict == "warning" and "COLLATE utf8mb4_" in result.hint
    database.execute(result.hint + " NOT NULL")
    assert "collations" not in checked(database, schema)
    loose = replace(exact, collation="utf8mb4_general_ci")
    assert "collations" not in checked(database, table(loose, key=("name",)))


def test_rule_07_mysql_triggers_cannot_be_switched_off(database: Database) -> None:
    database.execute(
        TABLE,
        "CREATE TABLE seen (n int)",
        "CREATE TRIGGER noisy AFTER INSERT ON orders FOR EACH ROW INSERT INTO seen VALUES (1)",
    )
    result = one(checked(database), "triggers")
    assert result.verdict == "failed" and result.names == ("noisy (AFTER INSERT)",)
    assert f"DROP TRIGGER `{database.name}`.`noisy`" in result.hint and "@anabranch_applies" in result.hint
    assert one(checked(database, apply__triggers="fire"), "triggers").verdict == "warning"
    database.execute(
        "DROP TRIGGER noisy",
        "CREATE TRIGGER quiet AFTER INSERT ON orders FOR EACH ROW BEGIN IF @anabranch_applies IS NULL THEN"
        " INSERT INTO seen VALUES (1); END IF; END",
    )
    assert one(checked(database), "triggers").verdict == "ok"


def test_mysql_target_is_the_source(database: Database) -> None:
    database.execute(TABLE)
    with closing(connect_target(endpoint_of(database), "anabranch-test")) as connection:
        identity = own_identity(connection)
    schema = replace(table(), id=TableId(database.name, "orders"))
    targets = {schema.id: target_of(schema, database.name)}
    context = PreflightContext("job", {}, {schema.id: schema}, targets, source_identity=identity)
    result = one(by_check(database, context), "own_source")
    assert result.verdict == "failed" and "same server" in result.message
    assert "own_source" not in by_check(database, replace(context, source_identity="another"))


def test_mysql_target_in_the_database_of_jobs(database: Database) -> None:
    found = checked(database, place="anabranch")
    assert one(found, "own_source").verdict == "failed"


# --- tables that would be made ----------------------------------------------------------------------------------------


def test_mysql_target_names(database: Database) -> None:
    long = "n" * 65
    found = checked(database, table(ID, Column(long, WORD, "varchar(40)")), table(name="t" * 65))
    assert [r.verdict for r in found["names"]] == ["failed", "failed"]
    assert "columns.rename" in found["names"][0].hint and "[[rules]] include" in found["names"][1].hint


def test_mysql_target_names_that_differ_by_their_case(database: Database) -> None:
    folds = int(database.query("SELECT @@lower_case_table_names")[0][0]) != 0
    found = checked(database, table(name="orders"), table(name="Orders"))
    assert ("names" in found) == folds


def test_pitfall_61_mysql_target_columns_that_differ_by_their_case(database: Database) -> None:
    """PostgreSQL has such tables. The server refuses them, and so does preflight; nobody takes the refusal for a table."""
    schema = table(ID, Column("a", WORD, "varchar(40)"), Column("A", WORD, "varchar(40)"))
    found = checked(database, schema)
    assert [r.verdict for r in found["names"]] == ["failed"] and '{ "A" = "A_2" }' in found["names"][0].hint
    target = target_of(schema, database.name)
    made = connectors.row_target(endpoint_of(database)).tables(ValueRules())
    with closing(made) as tables, pytest.raises(TargetError, match="Duplicate column name"):
        tables.create_table(schema, target, ValueRules(), False)


def wide(count: int, length: int) -> TableSchema:
    columns = (Column(f"c{n}", LogicalType(Kind.TEXT, length=length), f"varchar({length})") for n in range(count))
    return table(ID, *columns)


ROWS = [(4, 4000), (5, 4000), (3, 5461), (20, 800), (21, 800)]
ROWS += [(12, 63), (33, 63), (99, 20), (100, 20)]  # MariaDB keeps values of up to 255 bytes together
ROWS += [(196, 63), (197, 63), (300, 12), (150, 13), (190, 20), (191, 300), (25, 255), (31, 64), (32, 63)]


def test_mysql_target_row_size_as_the_server_judges(database: Database) -> None:
    """Either limit: a table that preflight lets pass can be made, and one that it refuses cannot."""
    for count, length in ROWS:
        schema = wide(count, length)
        refused = "row_size" in checked(database, schema)
        assert (made_at(database, schema) == 1118) == refused, (count, length)


def test_mysql_target_row_size_of_what_is_computed(database: Database) -> None:
    """A column that is stored takes room as all others do; one that is not counts for the first limit alone."""
    for length, count, limits in ((3000, 4, 0), (3000, 5, 1), (63, 199, 2)):
        text = LogicalType(Kind.TEXT, length=length)
        base = Column("c", text, f"varchar({length})", charset="utf8mb4", collation="utf8mb4_bin")
        for stored in (True, False):
            computed = replace(base, generated=True, computed_from=("c",), stored=stored)
            made = [replace(computed, name=f"g{n}", expression=f"concat(`c`,{n})") for n in range(count)]
            schema = table(ID, base, *made)
            refused = "row_size" in checked(database, schema, computes=True)
            assert refused == (limits == 1 or (limits == 2 and stored)), (length, count, stored)
            assert (made_at(database, schema, computes=True) == 1118) == refused, (length, count, stored)


def made_at(database: Database, schema: TableSchema, computes: bool = False) -> int:
    """The error of the server that is to make a table, 0 for none. It is gone then."""
    with closing(connect_target(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        target = target_of(schema, database.name, computes)
        statement = create_table(schema, target, ValueRules(), Release.of(connection))
    try:
        database.execute("SET SESSION innodb_strict_mode = ON", statement, f"DROP TABLE {schema.id.name}")
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


def test_mysql_target_row_size_says_which_column_to_change(database: Database) -> None:
    result = one(checked(database, wide(5, 4000)), "row_size")
    assert result.verdict == "failed" and "65,535" in result.message
    assert result.hint == '[[tables]] name = "shop.orders", columns.type = { "c0" = "text" }'


def test_mysql_target_row_size_of_small_pages() -> None:
    columns = [MadeColumn(f"c{n}", f"c{n}", "varchar(40)", True, "utf8mb4") for n in range(100)]
    assert list(row_size(target_of(table(), "d"), columns, 16_384, "mysql")) == []
    (found,) = row_size(target_of(table(), "d"), columns, 8192, "mysql")
    assert f"{row_sizes.page_room(8192):,}" in found.message and row_sizes.page_room(16_384) == 8126


def test_mysql_target_key_size_as_the_server_judges(database: Database) -> None:
    """3,072 bytes of an index row; of a column 767 before MySQL 5.7."""
    last, refusal = (768, 1071) if knows(database.server, "JSON") else (191, 1709)
    for length in (last, last + 1):
        schema = table(
            Column("id", LogicalType(Kind.TEXT, length=length), f"varchar({length})", nullable=False, charset="utf8mb4",
                   collation="utf8mb4_bin"),
        )  # fmt: skip
        found = [r for r in checked(database, schema).get("key", []) if r.verdict == "failed"]
        assert (made_at(database, schema) == refusal) == bool(found) == (length > last)
        assert all("columns.type" in one.hint for one in found)
        assert refusal != 1071 or all("3,072" in one.message for one in found)


def test_mysql_target_says_which_length_a_key_gives(database: Database) -> None:
    text = table(
        Column("id", LogicalType(Kind.TEXT, native="text"), "text", nullable=False), engine="", dialect="postgresql"
    )
    found = [r for r in checked(database, text).get("key", []) if r.verdict == "warning"]
    assert found and "the primary key" in found[0].message


def test_mysql_target_keys_where_blanks_do_not_count(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL 5.6 has no collation in which they do; of the others it is taken away."""
    schema = table(Column("id", WORD, "text", nullable=False), engine="", dialect="postgresql")
    if knows(database.server, "utf8mb4_0900_bin"):
        assert "collations" not in checked(database, schema)
        old = Release.of
        padded = frozenset(("utf8mb4_bin", "utf8mb4_general_ci"))
        monkeypatch.setattr(Release, "of", classmethod(lambda cls, c: replace(old(c), collations=padded)))
    result = one(checked(database, schema), "collations")
    assert (result.verdict, result.names) == ("warning", ("shop.orders.id",))


def test_mysql_target_types_and_what_is_not_carried(database: Database) -> None:
    place = Index("i", ("name",), kind="gist", definition="USING gist (name)")
    found = checked(database, table(indexes=(place,)))
    assert one(found, "types").verdict == "ok"
    assert one(found, "indexes").verdict == "warning" and one(found, "indexes").names == ("shop.orders.i",)


# --- clusters: what their variables say -------------------------------------------------------------------------------


def test_mysql_target_in_a_cluster() -> None:
    keyless = [target_of(table(key=()), "shop")]
    galera = {"wsrep_on": "ON", "wsrep_max_ws_size": "1048576", "wsrep_max_ws_rows": "1000"}
    group = {"group_replication_group_name": "aaaa", "group_replication_transaction_size_limit": "1000000"}
    for variables, verdicts in ((galera, ["failed", "warning", "warning"]), (group, ["failed", "warning"])):
        found = list(preflight_cluster.limits(variables, keyless))
        assert [result.verdict for result in found] == verdicts
        assert all(result.hint for result in found)
    assert list(preflight_cluster.limits({"wsrep_on": "OFF"}, keyless)) == []
    splits = {"wsrep_on": "ON", "wsrep_load_data_splitting": "ON"}
    (split,) = preflight_cluster.limits(splits, [])
    assert (split.verdict, split.hint) == ("failed", "SET GLOBAL wsrep_load_data_splitting = OFF")
    for name in splits:
        assert list(preflight_cluster.limits({**splits, name: "OFF"}, [])) == []
    assert (
        list(preflight_cluster.limits({**galera, "wsrep_max_ws_size": "2147483647", "wsrep_max_ws_rows": "0"}, []))
        == []
    )


def test_mysql_target_made_columns_have_sizes(database: Database) -> None:
    """Every type that the type map makes has a size here."""
    with closing(connect_target(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        release = Release.of(connection)
    kinds = [
        LogicalType(kind, length=8, precision=10, scale=2, values=("a", "b"))
        for kind in Kind
        if kind is not Kind.VECTOR
    ]
    columns = [Column(f"c{n}", type, str(type)) for n, type in enumerate(kinds)]
    schema = table(ID, *columns)
    made = made_columns(schema, target_of(schema, database.name), ValueRules(), release)
    assert all(0 < row_sizes.row_bytes([column]) < 4000 for column in made)
    assert all(row_sizes.page_bytes(made, ("id",), family) < 8126 for family in row_sizes.APART)
