"""Types of a PostgreSQL that users make themselves, at a MySQL or MariaDB: one job has a table or two of each, loaded,
followed, and compared with the source after both.

Types of the server's own stand in test_mysql_target_values.py, column by column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.mysql.target import labels, printed
from anabranch.connectors.mysql.target.printed import NAMED
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.connectors.postgresql.source import definitions
from anabranch.connectors.postgresql.source.typemap import KINDS, PRINTED, logical_type
from anabranch.errors import ConfigError, PreflightFailed, RowRefused, TargetError
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import value_rules
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

MANY = 150  # more rows than go without a staging table


@dataclass(frozen=True)
class Part:
    """Tables of the source with rows, and what changes them behind the load."""

    made: tuple[str, ...]
    changed: tuple[str, ...]


DOMAINS = Part(
    (
        "CREATE DOMAIN whole AS bigint CHECK (VALUE <> 5000)",
        "CREATE DOMAIN part AS whole CHECK (VALUE < 9223372036854775807)",
        "CREATE DOMAIN code AS varchar(20)",
        "CREATE DOMAIN short_code AS code CHECK (VALUE <> 'x')",
        "CREATE DOMAIN price AS numeric(10,2)",
        "CREATE DOMAIN anything AS numeric",  # more digits than any number has there
        "CREATE DOMAIN words AS text",
        "CREATE DOMAIN single AS real",
        "CREATE DOMAIN double AS double precision",
        "CREATE DOMAIN flag AS boolean",
        "CREATE DOMAIN bytes AS bytea",
        "CREATE DOMAIN moment AS timestamptz(3)",
        "CREATE DOMAIN day AS date",
        "CREATE DOMAIN token AS uuid",
        "CREATE DOMAIN document AS jsonb",
        "CREATE DOMAIN address AS inet",
        "CREATE DOMAIN bits AS bit(5)",
        "CREATE TABLE of_domains (id part, c short_code, w whole UNIQUE, p price, t words, f single, d double, b flag,"
        " raw bytes, at moment, born day, u token, j document, ip address, five bits, v int DEFAULT 1, z anything,"
        " PRIMARY KEY (id, c))",
        "INSERT INTO of_domains VALUES"
        " (9007199254740993, 'a', 9007199254740993, -1.50, E'tab\\t\\\\N\\n', '1e-45', 1e23, true, '\\x00ff5c0a',"
        " '2024-03-31 02:30:00.5+02', '0001-01-01', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{\"a\": [1, 2.50]}',"
        " '10.1.2.3/8', '10101'),"
        " (9007199254740992, 'a', 9007199254740992, 0, '', 3.4028235e38, 5e-324, false, '', '9999-12-31 23:59:59+00',"
        " '9999-12-31', NULL, '[]', '::1', '00000'),"
        " (-9223372036854775808, '', NULL, NULL, NULL, 16777215, 0.1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        f"INSERT INTO of_domains (id, c, w, f) SELECT n, 'b' || n, n + 1000000, n / 7.0 FROM generate_series(1, {MANY}) AS n",
        "CREATE TABLE of_domains_child (id int PRIMARY KEY, of_id part, of_c short_code,"
        " FOREIGN KEY (of_id, of_c) REFERENCES of_domains ON UPDATE CASCADE ON DELETE CASCADE)",
        "INSERT INTO of_domains_child SELECT row_number() OVER (), id, c FROM of_domains",
        "CREATE TABLE of_domains_bag (w whole, f single, d double, t words, z anything, y anything DEFAULT 10,"
        " CHECK (z < y))",
        "ALTER TABLE of_domains_bag REPLICA IDENTITY FULL",
        "INSERT INTO of_domains_bag VALUES (1, 0.1, 1e23, 'a'), (1, 0.1, 1e23, 'a'), (NULL, 3.4028235e38, NULL, 'A')",
    ),
    (
        "UPDATE of_domains SET v = 2",
        "UPDATE of_domains SET w = 9007199254740994, d = d / 3, f = 0.1 WHERE w = 9007199254740993",
        "UPDATE of_domains SET id = id + 1 WHERE id = 9007199254740993",
        "UPDATE of_domains SET c = 'z' WHERE id = 9007199254740992",
        "DELETE FROM of_domains WHERE id = -9223372036854775808",
        "INSERT INTO of_domains (id, c, w, p, at) VALUES (7, 'new', 7, 99999999.99, '1000-01-01 00:00:00+00')",
        "BEGIN",
        "UPDATE of_domains SET w = -w WHERE w BETWEEN 1000001 AND 1000010",
        "UPDATE of_domains SET w = 2000011 + w WHERE w BETWEEN -1000010 AND -1000001",
        "COMMIT",
        f"UPDATE of_domains SET z = {'9' * 80}.{'1' * 40} WHERE id = 7",
        "UPDATE of_domains SET z = 'NaN' WHERE c = 'b3'",
        "INSERT INTO of_domains_bag VALUES (2, 1, 1, 'z', 1.0), (2, 1, 1, 'z', 1.00)",
        "DELETE FROM of_domains_bag WHERE z::text = '1.0'",
        "INSERT INTO of_domains_bag VALUES (3, 1, 1, 'as texts 9 is more than 10', 9)",
        "DELETE FROM of_domains_bag WHERE ctid = '(0,1)'",
        "UPDATE of_domains_bag SET t = 'b' WHERE w IS NULL",
    ),
)
ENUMS = Part(
    (
        "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy {0}', 'a,b', 'Happy', 'zé')",
        "CREATE TYPE grade AS ENUM ('2', '1')",  # places of labels, to a MySQL
        "CREATE TYPE padded AS ENUM ('a', 'a ')",
        "CREATE DOMAIN feeling AS mood CHECK (VALUE <> 'sad')",
        "CREATE TABLE of_enums (id int PRIMARY KEY, m mood NOT NULL DEFAULT 'it''s ok', f feeling, g grade, p padded)",
        "INSERT INTO of_enums VALUES (1, 'happy {0}', 'Happy', '1', 'a '), (2, 'Happy', 'zé', '2', 'a'),"
        " (3, 'a,b', NULL, NULL, NULL)",
        f"INSERT INTO of_enums SELECT n + 1000, 'sad', 'a,b', '2', 'a ' FROM generate_series(1, {MANY}) AS n",
        "CREATE TABLE of_enums_keyed (m mood, n int, v int, PRIMARY KEY (m, n))",
        "INSERT INTO of_enums_keyed SELECT m, n, 1 FROM generate_series(1, 40) AS n, unnest(enum_range(NULL::mood)) AS m",
        "CREATE TABLE of_enums_child (id int PRIMARY KEY, m mood, n int,"
        " FOREIGN KEY (m, n) REFERENCES of_enums_keyed ON UPDATE CASCADE)",
        "INSERT INTO of_enums_child SELECT row_number() OVER (), m, n FROM of_enums_keyed",
        "CREATE TABLE of_enums_bag (m mood, f feeling)",
        "ALTER TABLE of_enums_bag REPLICA IDENTITY FULL",
        "INSERT INTO of_enums_bag VALUES ('happy {0}', 'Happy'), ('Happy', NULL), ('Happy', NULL), (NULL, 'zé')",
        "CREATE TYPE hue AS ENUM ('red', 'green')",
        "CREATE TABLE of_enums_renamed (id int PRIMARY KEY, h hue)",
        "INSERT INTO of_enums_renamed VALUES (1, 'red'), (2, 'green')",
    ),
    (
        "UPDATE of_enums SET m = 'zé', f = 'it''s ok' WHERE id = 1",
        "UPDATE of_enums SET g = '1', p = 'a' WHERE id > 1000",
        "UPDATE of_enums_keyed SET v = 2 WHERE m IN ('happy {0}', 'Happy')",
        "UPDATE of_enums_keyed SET m = 'Happy', n = n + 1000 WHERE m = 'it''s ok'",
        "ALTER TYPE mood ADD VALUE 'first' BEFORE 'sad'",
        "ALTER TYPE mood ADD VALUE 'be''tween' AFTER 'sad'",
        "ALTER TYPE mood ADD VALUE 'last'",
        "ALTER TYPE mood ADD VALUE 'ü \\ %s'",
        "INSERT INTO of_enums VALUES (4, 'first', 'last', NULL, NULL)",
        "UPDATE of_enums SET m = 'be''tween' WHERE id > 1000",
        "UPDATE of_enums_keyed SET m = 'last' WHERE m = 'a,b'",
        "DELETE FROM of_enums_bag WHERE f IS NULL AND ctid = '(0,2)'",
        "INSERT INTO of_enums_bag VALUES ('first', 'be''tween')",
        "UPDATE of_enums_bag SET m = 'last' WHERE m IS NULL",
        "DELETE FROM of_enums_bag WHERE m = 'happy {0}'",
        "ALTER TYPE mood ADD VALUE 'later'",
        "INSERT INTO of_enums VALUES (5, 'later', 'ü \\ %s', NULL, NULL)",
    ),
)
PARTS = (DOMAINS, ENUMS)


@dataclass
class Arrived:
    """Keep the differences that were found between both ends, after the load and after the changes; none where they agree."""

    here: JobHere
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def compare(self, when: str, *ways: bool) -> None:
        for by_rows in ways:
            found = self.here.verify(by_rows=by_rows).tables
            assert {name_of(one.source) for one in found} >= set(self.here.made.source_tables())
            for result in found:
                if not result.identical:
                    self.wrong.setdefault(name_of(result.source), []).append(f"verify behind the {when}: {result}")

    def well(self, *tables: str) -> None:
        states = self.here.made.states()
        assert {table: states.get(table) for table in tables} == dict.fromkeys(tables, "streaming")
        assert [one for table in tables for one in self.wrong.get(table, ())] == []

    def types(self, table: str) -> dict[str, str]:
        """The types of a table's columns at the target."""
        query = "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        return {name: str(native) for name, native in self.here.made.target.query(query, [self.here.made.there, table])}


def name_of(table: object) -> str:
    return str(table).partition(".")[2]


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def arrived(
    request: pytest.FixtureRequest, logical_postgresql: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Arrived]:
    target = request.getfixturevalue(request.param)
    database, there = create_database(logical_postgresql, "types"), create_database(target, "types")
    database.execute(*(one for part in PARTS for one in part.made))
    made = PostgresToMysql(database, there, tmp_path_factory.mktemp("types"), name=unique_name("job"))
    found = Arrived(JobHere(made))
    found.here.load()
    found.here.stream()
    found.compare("load", False)
    database.execute(*(one for part in PARTS for one in part.changed))
    found.here.stream()
    found.compare("changes", False, True)
    yield found
    found.here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


# Types of the server's own tables, of which no table of a user has a column.
INTERNAL = {"aclitem", "gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies", "pg_mcv_list",
            "pg_ndistinct", "pg_node_tree", "pg_ddl_command", "unknown"}  # fmt: skip
TYPES = """
SELECT pg_catalog.format_type(oid, NULL) FROM pg_catalog.pg_type
 WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') AND left(typname, 1) <> '_'
"""


def test_every_type_of_the_server_has_a_row_in_the_table(logical_postgresql: Server) -> None:
    found = {name for (name,) in Database(logical_postgresql, "postgres").query(TYPES)} - INTERNAL
    decided = {*KINDS, *PRINTED, *NAMED}
    assert len(found) >= 47 and {name for name in found if name not in decided} == set()
    assert {printed.row(logical_type(name), "mysql") for name in NAMED}.isdisjoint({printed.OTHER, printed.ARRAY})


def test_domains_have_the_type_that_they_are_made_of(arrived: Arrived) -> None:
    arrived.well("of_domains", "of_domains_child", "of_domains_bag")
    found = {name: native.partition(" ")[0] for name, native in arrived.types("of_domains").items()}
    assert found["id"].startswith("bigint") and found["w"].startswith("bigint")
    assert {name: found[name] for name in ("c", "p", "t", "f", "d", "b", "raw", "at", "born", "five", "ip", "z")} == {
        "c": "varchar(20)",
        "z": "longtext",
        "p": "decimal(10,2)",
        "t": "longtext",
        "f": "float",
        "d": "double",
        "b": "tinyint(1)",
        "raw": "longblob",
        "at": "datetime(3)",
        "born": "date",
        "five": "bit(5)",
        "ip": "varchar(49)",
    }
    assert arrived.types("of_domains_child")["of_c"] == "varchar(20)"


def test_enums_are_enums_and_get_the_labels_that_the_source_adds_and_in_keys_they_are_texts(arrived: Arrived) -> None:
    arrived.well("of_enums", "of_enums_keyed", "of_enums_child", "of_enums_bag")
    grown = "enum('first','sad','be''tween','it''s ok','happy {0}','a,b','Happy','zé','last','ü \\\\ %s','later')"
    found = arrived.types("of_enums")
    assert (found["m"], found["f"], found["g"], found["p"]) == (grown, grown, "longtext", "longtext")
    assert arrived.types("of_enums_bag")["m"].startswith(grown[:70])
    assert {arrived.types(table)["m"].partition("(")[0] for table in ("of_enums_keyed", "of_enums_child")} == {
        "varchar"
    }
    query = (
        "SELECT COLUMN_DEFAULT, IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    place = [arrived.here.made.there, "of_enums", "m"]
    ((default, nullable),) = arrived.here.made.target.query(f"{query} AND COLUMN_NAME = %s", place)
    assert (str(default).strip("'").replace("''", "'"), nullable) == ("it's ok", "NO")


HISTORIES = (
    "CREATE TYPE grade AS ENUM ('a', 'b')",
    "CREATE TABLE of_grades (id int PRIMARY KEY, g grade)",
    "INSERT INTO of_grades VALUES (1, 'a'), (2, 'b')",
    "CREATE TYPE hue AS ENUM ('red', 'green')",
    "CREATE TABLE of_hues (id int PRIMARY KEY, h hue)",
    "INSERT INTO of_hues VALUES (1, 'red'), (2, 'green')",
)


@pytest.mark.one_family
def test_labels_that_a_column_cannot_have_stop_the_job_until_the_table_is_made_anew(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, there = create_database(logical_postgresql, "labels"), create_database(mysql_family, "labels")
    database.execute(*HISTORIES)
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    found, grades, hues = Arrived(JobHere(made)), TableId("public", "of_grades"), TableId("public", "of_hues")
    here = found.here

    def rows(table: str) -> list[tuple[object, ...]]:
        return sorted(made.target.query(f"SELECT * FROM `{there.name}`.{table}"))

    here.load()
    here.stream()
    # a label that a server takes for the place of another one
    database.execute("ALTER TYPE grade ADD VALUE '2'", "INSERT INTO of_grades VALUES (3, '2')")
    with pytest.raises(
        RowRefused, match=r"lacks labels that the source has: '2', .*--table public.of_grades --recreate"
    ):
        here.stream()
    assert rows("of_grades") == [(1, "a"), (2, "b")]
    with pytest.raises(ConfigError, match=r"column g is enum\('a','b'\), needed is longtext"):
        here.load(grades)
    here.load(grades, recreate=True)
    here.stream()
    assert rows("of_grades") == [(1, "a"), (2, "b"), (3, "2")] and found.types("of_grades")["g"] == "longtext"

    # a label that was added and then renamed: the log has neither, and the definition that the table was loaded by no trace
    database.execute("ALTER TYPE hue ADD VALUE 'blue' BEFORE 'red'", "INSERT INTO of_hues VALUES (3, 'blue')")
    with monkeypatch.context() as beside:  # as if another session had added it since the row was staged
        asked: list[bool] = []
        real = labels.lacking_now

        def nothing_first(*given: Any) -> Any:
            asked.append(True)
            lacks, spelled = real(*given)
            return ([] if len(asked) == 1 else lacks), spelled

        beside.setattr(labels, "lacking_now", nothing_first)
        here.stream()
        assert len(asked) == 2
    assert found.types("of_hues")["h"] == "enum('blue','red','green')"
    database.execute("ALTER TYPE hue RENAME VALUE 'blue' TO 'azure'", "INSERT INTO of_hues VALUES (4, 'azure')")
    with pytest.raises(
        RowRefused, match=r"lacks labels that the source has: 'azure', .*--table public.of_hues --recreate"
    ):
        here.stream()
    assert rows("of_hues") == [(1, "red"), (2, "green"), (3, "blue")]
    with pytest.raises(
        ConfigError, match=r"column h is enum\('blue','red','green'\) .*needed is enum\('azure','red','green'\)"
    ):
        here.load(hues)
    here.load(hues, recreate=True)
    here.stream()
    assert rows("of_hues") == [(1, "red"), (2, "green"), (3, "azure"), (4, "azure")]

    # a label that comes while the table is loaded, and another task has added it first
    database.execute("ALTER TYPE hue ADD VALUE 'late'", "INSERT INTO of_hues VALUES (5, 'late')")
    with monkeypatch.context() as beside:
        really = MysqlTables.add_labels
        beside.setattr(MysqlTables, "rename_labels", lambda *given: [])
        beside.setattr(MysqlTables, "add_labels", lambda self, tables: really(self, tables) and [])
        here.load(hues)
    here.stream()
    found.compare("histories", False, True)
    found.well("of_grades", "of_hues")

    # what somebody has altered since: a text, for which labels are not guarded, and an enum(…) that takes 'A' for 'a'
    stands, seen = found.types("of_hues")["h"], rows("of_hues")
    database.execute("INSERT INTO of_hues VALUES (6, 'late')")
    narrow = f"{stands} CHARACTER SET latin1 COLLATE latin1_bin"  # for letters that it does not have it stores others
    for other in ("longtext", f"{stands} COLLATE utf8mb4_general_ci", narrow):
        made.target.execute(f"ALTER TABLE `{there.name}`.of_hues MODIFY h {other}")
        with pytest.raises(
            RowRefused, match=r"column h is .* now, which rows are not written for: .*of_hues --recreate"
        ):
            here.stream()
        assert rows("of_hues") == seen
        with pytest.raises(ConfigError, match=r"column h is .*, needed is enum"):
            here.load(hues)
        with pytest.raises(PreflightFailed):
            here.load()
    here.load(hues, recreate=True)
    here.stream()
    here.load(hues)  # and before it streams again there is a label that its column cannot have
    database.execute("ALTER TYPE hue ADD VALUE '2'", "INSERT INTO of_hues VALUES (7, '2')")
    with pytest.raises(RowRefused, match=r"lacks labels that the source has: '2'"):
        here.stream()
    here.load(hues, recreate=True)
    here.stream()
    found.compare("table made anew", False)
    found.well("of_hues")
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


# What a definition of the release before says of a domain: its name.
OF_BEFORE = (
    "CREATE DOMAIN whole AS bigint",
    "CREATE DOMAIN flag AS boolean",
    "CREATE DOMAIN bytes AS bytea",
    "CREATE DOMAIN moment AS timestamptz(3)",
    "CREATE DOMAIN bits AS bit(5)",
    "CREATE DOMAIN double AS double precision",
    "CREATE DOMAIN amount AS numeric(10,0)",
    "CREATE DOMAIN anything AS numeric",
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TABLE of_before (id whole PRIMARY KEY, b flag, raw bytes, at moment, five bits, d double, e mood, m amount,"
    " z anything)",
    "INSERT INTO of_before VALUES (1, true, '\\x00ff', '2024-03-31 02:30:00.5+02', '10101', 1e23, 'sad', 7),"
    " (2, false, '', '1000-01-01 00:00:00+00', '00000', -0.5, 'happy', -8), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)
LATER = (
    "INSERT INTO of_before SELECT {0} + n, n % 2 = 0, '\\x5c00', '2024-01-01 00:00:00+00', '00001', n / 7.0, 'happy', n"
    f" FROM generate_series(1, {MANY}) AS n",
    "UPDATE of_before SET b = NOT b, raw = '\\x0a', at = at + interval '1 ms', five = '11111', d = d * 3 WHERE id < 100",
    "UPDATE of_before SET z = id / 1.000 WHERE id % 2 = 0",
    "UPDATE of_before SET id = -id WHERE id = {0} + 7",
    "DELETE FROM of_before WHERE id = {0} + 9",
)
TEXTS = dict.fromkeys(("b", "raw", "at", "five", "d", "e"), "longtext")


@pytest.mark.one_family
def test_domains_and_enums_that_stand_as_texts_go_on_as_texts_until_the_table_is_made_anew(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, there = create_database(logical_postgresql, "before"), create_database(mysql_family, "before")
    database.execute(*OF_BEFORE)
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job('[types.map]\n"public.amount" = "bigint"\n')  # a choice is one for the text, as it was
    found, table = Arrived(JobHere(made)), TableId("public", "of_before")
    here = found.here
    with monkeypatch.context() as before:
        before.setattr(definitions, "logical_type", lambda native, *_: logical_type(native))
        here.load()
        here.stream()
    stood = found.types("of_before")
    assert stood.items() >= TEXTS.items() and stood["id"].startswith("varchar") and stood["m"].startswith("bigint")
    database.execute(*(one.format(1000) for one in LATER))
    here.load()  # what a start of this release does: preflight, and nothing to load
    here.stream()
    found.compare("release of now", False, True)
    assert made.target.query(f"SELECT b, d FROM `{there.name}`.of_before WHERE id = '2'") == [("t", "-1.5")]

    with pytest.raises(ConfigError, match=r"column b is longtext, needed is tinyint\(1\)") as refused:
        here.load(table)
    assert refused.value.hint == "anabranch load JOB --table public.of_before --recreate"
    with pytest.raises(ConfigError, match=r"stays as it is with --keep: .*column b is longtext"):
        here.load(table, keep=True)
    found.well("of_before")
    job = here.job
    with closing(source_of(job).catalog()) as catalog, closing(target_of(job).tables(value_rules(job))) as tables:
        (now,) = catalog.tables(lambda one: one == table).values()
        with pytest.raises(TargetError, match=r"column id is varchar.*, needed is bigint") as stays:
            tables.create_table(now, job.rules.target_table(now), value_rules(job), recreate=False)
        assert "--recreate" in stays.value.hint
    found.well("of_before")

    here.load(table, recreate=True)
    here.stream()
    database.execute(*(one.format(2000) for one in LATER))
    here.stream()
    found.compare("table made anew", False, True)
    found.well("of_before")
    stands = found.types("of_before")
    assert stands["id"].startswith("bigint") and stands["m"].startswith("bigint") and stands["z"] == "longtext"
    assert {name: stands[name] for name in TEXTS} == {
        "b": "tinyint(1)", "raw": "longblob", "at": "datetime(3)", "five": "bit(5)", "d": "double", "e": "enum('sad','happy')",
    }  # fmt: skip
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)
