"""The same statements through pgoutput, wal2json and decoderbufs of one PostgreSQL: what comes out is the same, and what one
of them cannot show is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.source.preflight_decoder import ALLOWED
from anabranch.contracts import Bounds, LogOptions, PreflightContext
from anabranch.errors import SourceError
from anabranch.testing.databases import Database, drop_database, unique_name
from anabranch.testing.servers import Server, start_postgresql
from rigs.endpoints import endpoint_of
from rigs.postgresql_decoders import NAMES, PATIENCE, Change, Rig, changes
from rigs.postgresql_load import RULES
from rigs.postgresql_sessions import drop_origins, session_from

pytestmark = pytest.mark.servers
MANY = """
CREATE TABLE many (id int PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric NOT NULL,
  v varchar(40), c char(5), tx text, by bytea, d date, ti time(3), ts timestamp, tstz timestamptz(3), iv interval, o oid,
  u uuid, j jsonb, js json, bi bit(3), vb varbit, md mood, dm price, arr text[], ine inet, x xml, nm name, ch "char",
  rng int4range, gen int GENERATED ALWAYS AS (id * 2) STORED)"""
ROWS = (
    r"""(1, true, -7, -9, 1.1, 0.1, 1.50, E'ü"\\ \n\t', ' ab', repeat('x', 9000), '\x00ff', '2020-01-02', '24:00',
    '0044-03-15 BC', '2020-01-01 00:00:00.123456+02', '1 mon -2 days 3 us', 4294967295,
    'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1.0}', '{"a" :1}', '101', '1', 'it''s', 3.1, '{a,NULL,"b,c"}',
    '1.2.3.0/24', '<a/>', 'nm', 'c', '[1,5)')""",
    """(2, false, 32767, 9223372036854775807, 3.4028235e38, 5e-324, 1e30, '', '', '', '', '4713-01-01 BC', '0:00',
    '294276-12-31 23:59:59.999999', '4713-01-01 BC', '-1 year', 0, NULL, 'null', 'null', '000', '', 'ok', 0, '{}', '::1',
    '', '', '', 'empty')""",
    """(3, NULL, NULL, NULL, 1e-40, -0.0, 0, NULL, NULL, NULL, NULL, '5874897-12-31', '23:59:59.9996',
    '1969-12-31 23:59:59.999999', '1900-02-28 23:59:59.999+00')""",
    """(4, NULL, NULL, NULL, 16777216, 1e15, -0.10, NULL, NULL, NULL, NULL, '0001-12-31 BC', NULL, '2000-02-29',
    '0001-01-01')""",
)
INFINITE = (
    """(5, NULL, NULL, NULL, 'NaN', '-Infinity', 'NaN', NULL, NULL, NULL, NULL, 'infinity', NULL, 'infinity',
    '-infinity')""",
    """(6, NULL, NULL, NULL, '-Infinity', 'NaN', 'Infinity', NULL, NULL, NULL, NULL, '-infinity', NULL, '-infinity',
    'infinity')""",
)
MakeRig = Callable[..., "Rig"]


@pytest.fixture
def rig(postgresql15: Server, source_database: Callable[[Server], Database]) -> Iterator[MakeRig]:
    """`rig(*statements, decoders=…)`: a database with these tables."""
    made: list[Rig] = []

    def make(*statements: str, decoders: Sequence[str] = NAMES) -> Rig:
        database = source_database(postgresql15)
        database.execute(*statements)
        made.append(Rig(database, decoders))
        return made[-1]

    yield make
    for one in made:
        one.drop()


def without_nulls_before(found: list[list[Change]]) -> list[list[Change]]:
    """As decoderbufs has old rows."""
    return [
        [
            (*change[:3], {name: value for name, value in change[3].items() if value != "None"})
            if len(change) == 4 and change[2] in ("BEFORE", "DELETE")
            else change
            for change in transaction
        ]
        for transaction in found
    ]


def test_pitfall_29_values_of_many_types(rig: MakeRig) -> None:
    made = rig("CREATE TYPE mood AS ENUM ('ok', 'it''s')", "CREATE DOMAIN price AS numeric(8, 2)", MANY)
    made.database.execute(*(f"INSERT INTO many VALUES {row}" for row in ROWS))
    with closing(made.connector.snapshot()) as snapshot:
        (schema,) = made.tables.values()
        snapshot.open(schema, "none")
        lines = b"".join(snapshot.lines(schema, [c.name for c in schema.columns], Bounds(), RULES))
    found = made.read()
    assert found["wal2json"][:2] == found["pgoutput"][:2] and len(found["pgoutput"]) == 4
    assert found["decoderbufs"] == found["pgoutput"]
    texts = {row.split(b"\t")[0]: row.split(b"\t") for row in lines.splitlines()}
    for _, (_, _, _, image) in found["pgoutput"]:
        for name, text in zip((c.name for c in schema.columns), texts[image["id"].encode()], strict=True):
            if schema.column(name).native in (
                "date",
                "time(3) without time zone",
                "timestamp without time zone",
                "numeric",
            ):
                assert image[name] == ("None" if text == b"\\N" else repr(text.decode())), name


def test_pitfall_33_not_a_number_and_infinity(rig: MakeRig) -> None:
    made = rig("CREATE TYPE mood AS ENUM ('ok')", "CREATE DOMAIN price AS numeric(8, 2)", MANY)
    made.database.execute(*(f"INSERT INTO many VALUES {row}" for row in INFINITE))
    found = made.read()
    assert found["decoderbufs"] == found["pgoutput"] and len(found["pgoutput"]) == 2
    (_, parked), *rest = found["wal2json"]
    assert rest == [] and parked[1:3] == ("many", "park")
    assert parked[3].startswith("column f4, real, is NULL, NaN or infinite, and this wal2json does not tell which")


KEYED = "CREATE TABLE keyed (id int PRIMARY KEY, v text, large text)"
WHOLE = "CREATE TABLE whole (id int PRIMARY KEY, v text, large text)"
KEYLESS = "CREATE TABLE keyless (id int, v text, large text)"
OTHER = "CREATE TABLE other (id int PRIMARY KEY)"
ODD = 'CREATE TABLE "Od.d, \'*\\ T" ("K e" int PRIMARY KEY, "sel""ect" text, "type" "My Type")'
TOAST = ("ALTER TABLE keyed ALTER large SET STORAGE EXTERNAL", "ALTER TABLE keyless ALTER large SET STORAGE EXTERNAL")
FULL = "ALTER TABLE whole ALTER large SET STORAGE EXTERNAL, REPLICA IDENTITY FULL"


def test_transactions_keys_and_what_was_not_changed(rig: MakeRig) -> None:
    odd = '"Od.d, \'*\\ T"'
    made = rig("CREATE TYPE \"My Type\" AS ENUM ('a')", KEYED, WHOLE, KEYLESS, OTHER, ODD, *TOAST, FULL)
    large = "x" * 9000
    made.database.execute(
        *(f"INSERT INTO {name} VALUES (1, NULL, '{large}')" for name in ("keyed", "whole", "keyless")),
        *(f"UPDATE {name} SET v = 'ü'" for name in ("keyed", "whole", "keyless")),
        *(f"UPDATE {name} SET v = NULL, id = 2" for name in ("keyed", "whole", "keyless")),
        f"INSERT INTO {odd} VALUES (1, E'a\\nb', 'a')",
        f'UPDATE {odd} SET "K e" = 2',
        "INSERT INTO other VALUES (1)",
        "BEGIN; INSERT INTO keyed VALUES (5, 'a'); INSERT INTO other VALUES (2); INSERT INTO whole VALUES (5, 'b');"
        " SAVEPOINT a; INSERT INTO keyed VALUES (6, 'c'); ROLLBACK TO a; DELETE FROM whole WHERE id = 5;"
        " SAVEPOINT b; UPDATE keyed SET id = id + 10; RELEASE b; INSERT INTO keyless VALUES (2, 'x'), (2, 'x'); COMMIT",
        "BEGIN; INSERT INTO keyed VALUES (7, 'gone'); ROLLBACK",
        "SELECT pg_logical_emit_message(true, 'ours', 'within'), pg_logical_emit_message(false, 'ours', '\\xff00'::bytea)",
        *(f"DELETE FROM {name}" for name in ("keyed", "whole", "keyless")),
    )
    found = made.read()
    assert [len(one) - 1 for one in found["pgoutput"]] == [1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 9, 2, 1, 3]
    assert found["wal2json"] == found["pgoutput"]
    assert found["decoderbufs"] != found["pgoutput"]
    expected = without_nulls_before(found["pgoutput"])
    for mine, theirs in zip(without_nulls_before(found["decoderbufs"]), expected, strict=True):
        assert mine == theirs
    keyless = [c for one in found["decoderbufs"] for c in one[1:] if c[1] == "keyless"]
    assert keyless == [c for one in found["pgoutput"] for c in one[1:] if c[1] == "keyless"]


def test_pitfall_22_truncates_in_their_place(rig: MakeRig) -> None:
    made = rig(KEYED, "CREATE TABLE child (id int PRIMARY KEY REFERENCES keyed)", OTHER)
    made.database.execute(
        "BEGIN; INSERT INTO keyed VALUES (1); INSERT INTO child VALUES (1); TRUNCATE keyed RESTART IDENTITY CASCADE;"
        " INSERT INTO keyed VALUES (1, 'again'); COMMIT",
        "TRUNCATE other",
        "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE child; COMMIT",
    )
    found = made.read()
    assert found["wal2json"] == found["pgoutput"] == found["decoderbufs"]
    assert [[c[1:3] for c in one[1:]] for one in found["pgoutput"]] == [
        [("keyed", "INSERT"), ("child", "INSERT"), ("child", "truncate"), ("keyed", "INSERT"), ("keyed", "truncate")],
        [("child", "truncate")],
    ]


@pytest.mark.parametrize("decoder", NAMES)
def test_rule_19_a_table_that_is_not_as_defined_is_parked(rig: MakeRig, decoder: str) -> None:
    made = rig(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(40), t text)" for name in ("a", "b", "c", "d", "e")),
        decoders=[decoder],
    )
    made.database.execute(
        "ALTER TABLE a ALTER v TYPE varchar(50)", "ALTER TABLE b ADD extra int", "ALTER TABLE c DROP t",
        "ALTER TABLE d RENAME t TO u",
        *(f"INSERT INTO {name} VALUES (1)" for name in ("a", "b", "c", "d", "e")),
    )  # fmt: skip
    found = [change[1:3] for one in made.read_by(decoder) for change in one[1:]]
    assert found == [*((name, "park") for name in ("a", "b", "c", "d")), ("e", "INSERT")]


@pytest.mark.parametrize("decoder", ["wal2json", "decoderbufs"])
def test_a_table_without_an_identity_refuses_its_updates(rig: MakeRig, decoder: str) -> None:
    """These decoders would pass them over."""
    made = rig(KEYED, decoders=[decoder])
    made.database.execute("INSERT INTO keyed VALUES (1)", "ALTER TABLE keyed REPLICA IDENTITY NOTHING")
    with pytest.raises(Exception, match="does not have a replica identity"):
        made.database.execute("UPDATE keyed SET v = 'x'")


def test_what_came_to_the_source_by_replication_is_captured(rig: MakeRig) -> None:
    """Each decoder gives it as if it were the source's own."""
    made = rig(KEYED)
    elsewhere = f"{made.database.name} elsewhere"
    with session_from(made.database, elsewhere) as connection:
        connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
        connection.execute("INSERT INTO keyed VALUES (1)")
        connection.commit()
    made.database.execute("INSERT INTO keyed VALUES (2)")
    drop_origins(made.database, elsewhere)
    for decoder, found in made.read().items():
        assert [change[3]["id"] for transaction in found for change in transaction[1:]] == ["1", "2"], decoder


def test_rule_21_what_a_job_has_written_is_left_out_by_its_marker(rig: MakeRig) -> None:
    """The set-up makes the tables and publishes them; another job's rows come, and what it has not marked first."""
    made = rig("CREATE TABLE t (id int PRIMARY KEY)")
    made.leave_out = frozenset(("anabranch:one",))
    for decoder in made.decoders:
        connector, options = made.by(decoder), made.options(decoder)
        connector.run(connector.steps(options, made.tables, begins=False), PATIENCE)
        assert connector.steps(options, made.tables, begins=False) == []
    checkpoint = "anabranch.checkpoint (job, target, sequence, position)"
    chunk = "INSERT INTO anabranch.load_chunk (job, source_table, generation, number) VALUES"
    made.database.execute(
        f"INSERT INTO {checkpoint} VALUES ('one', 't', 1, ''), ('two', 't', 1, '')",
        "BEGIN; UPDATE anabranch.checkpoint SET epoch = 1 WHERE job = 'one'; INSERT INTO t VALUES (1), (2); COMMIT",
        f"BEGIN; {chunk} ('one', 't', 1, 1); TRUNCATE t; INSERT INTO t VALUES (3); COMMIT",
        "BEGIN; DELETE FROM anabranch.load_chunk; INSERT INTO t VALUES (4); COMMIT",
        "BEGIN; UPDATE anabranch.checkpoint SET epoch = 1 WHERE job = 'two'; INSERT INTO t VALUES (5); COMMIT",
        "BEGIN; INSERT INTO t VALUES (6); UPDATE anabranch.checkpoint SET epoch = 2 WHERE job = 'one'; COMMIT",
        "INSERT INTO t VALUES (7)",
    )
    for decoder, found in made.read().items():
        assert [[change[3]["id"] for change in one[1:]] for one in found] == [["5"], ["6"], ["7"]], decoder


@pytest.mark.parametrize("decoder", NAMES)
def test_a_table_joins_a_log_that_is_read(rig: MakeRig, decoder: str) -> None:
    made = rig(KEYED, decoders=[decoder])
    by = made.by(decoder)
    with closing(by.log(made.options(decoder))) as reader:
        reader.start(made.begin, lambda table: made.tables.get(table))
        made.database.execute("INSERT INTO keyed VALUES (1)")
        (first,) = made.chunks(reader)
        made.database.execute(WHOLE)
        with closing(made.connector.catalog()) as catalog:
            made.tables = catalog.tables(lambda table: True)
        by.run(by.steps(made.options(decoder), made.tables, begins=False), PATIENCE)
        reader.reselect()
        made.database.execute("INSERT INTO whole VALUES (1)", "INSERT INTO keyed VALUES (2)")
        later = [
            change[1] for chunk in made.chunks(reader) for one in changes(chunk, made.tables) for change in one[1:]
        ]
    assert [table.table.name for table in first.tables] == ["keyed"] and later == ["whole", "keyed"]


def test_a_time_that_decoderbufs_does_not_give_parks_its_table(rig: MakeRig) -> None:
    made = rig("CREATE TABLE t (id int PRIMARY KEY, m timetz)", decoders=["decoderbufs"])
    made.database.execute("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2, '12:00+02')")
    first, (_, parked) = made.read_by("decoderbufs")
    assert first[1][2] == "INSERT" and parked[2:] == (
        "park",
        "column m, time with time zone: decoderbufs does not give its values exactly",
    )


def test_preflight_says_what_a_decoder_does_not_show(postgresql15: Server, rig: MakeRig) -> None:
    made = rig(
        KEYED,
        "CREATE TABLE parts (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE clock (id int PRIMARY KEY, at time(2) with time zone, paid money, n numeric(8,2), f real NOT NULL)",
        "CREATE PUBLICATION every FOR ALL TABLES",
        decoders=[],
    )
    found = {}
    for decoder in NAMES:
        with closing(made.by(decoder).checks()) as checks:
            found[decoder] = [
                (result.verdict, result.table, result.message.split(":")[0])
                for result in checks.run(PreflightContext("job", {"ddl.add_column": "apply"}, made.tables, {}))
                if result.check == "source.decoder"
            ]
    assert found["pgoutput"] == [("ok", "", "decoder pgoutput")]
    for choice, how in (
        (True, "large transactions come while they are open"),
        (False, "a transaction comes when it commits"),
    ):
        context, options = PreflightContext("job", {}, {}, {}), PostgresSourceOptions(streaming=choice)
        with closing(replace(made.connector, options=options).checks()) as checks:
            (told,) = (result.message for result in checks.run(context) if result.check == "source.decoder")
        assert told == f"decoder pgoutput: {how}"
    parks = ("warning", "", '[ddl] add_column = "apply"')
    assert found["wal2json"] == [parks, ("warning", "public.clock", "n, f"), ("failed", "public.parts", "partitioned")]
    assert found["decoderbufs"] == [
        ("warning", "", "decoderbufs does not show TRUNCATE"),
        ("failed", "", "the publication every is of all tables"),
        parks,
        ("failed", "public.clock", "column at, time with time zone"),
        ("failed", "public.clock", "column paid, money"),
        ("failed", "public.parts", "partitioned"),
    ]


def test_preflight_says_that_a_server_lets_nobody_use_a_decoder(
    servers_directory: Path, source_database: Callable[[Server], Database]
) -> None:
    """From 15.19 on, unless its setting names it: that of releases before does not exist."""
    options = ("--wal-level=logical", f"--{ALLOWED}=pgoutput, test_decoding")
    with start_postgresql(servers_directory / unique_name("strict"), release="15", options=options) as server:
        database = source_database(server)
        connector = source(endpoint_of(database), PostgresSourceOptions(decoder="wal2json"))
        context = PreflightContext("job", {}, {}, {})
        with closing(connector.checks()) as checks:
            (refused,) = (r for r in checks.run(context) if r.check == "source.decoder")
            assert refused.verdict == "failed"
            assert (
                refused.message
                == "the server lets nobody use wal2json: output_plugin_libraries = pgoutput, test_decoding"
            )
            with pytest.raises(SourceError, match="may not be used as an output plugin"):
                connector.run(connector.steps(LogOptions(1, 1, RULES, "anabranch_a"), {}, begins=True), PATIENCE)
            mend, _, _ = refused.hint.partition(" at the source, and ")
            assert mend == f"ALTER SYSTEM SET {ALLOWED} = pgoutput, test_decoding, wal2json"
        drop_database(database)
