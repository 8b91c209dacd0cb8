"""Tables of a PostgreSQL made and built at a real MySQL and MariaDB: what has a counterpart stands there, what has
none is named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from anabranch import connectors
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, Index
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_tables import RULES, TEXT, WORD, Place, number, table

pytestmark = pytest.mark.every_server("fractions")


POSTGRESQL: list[tuple[LogicalType, str, Any]] = [
    (LogicalType(Kind.INT32), "42", "42"),
    (LogicalType(Kind.BOOLEAN), "true", "1"),
    (WORD, "'it''s \\ new'::character varying", "it's \\ new"),
    (LogicalType(Kind.DATE), "'2020-02-29'::date", "2020-02-29"),
    (WORD, "some_function()", None),
]


def test_postgresql_defaults_at_mysql_and_mariadb(place: Place) -> None:
    columns = [
        Column(f"c{n}", type, "x", has_default=True, default=told, default_is_expression=True)
        for n, (type, told, _) in enumerate(POSTGRESQL)
    ]
    schema = table("given", number(), *columns, dialect="postgresql")
    place.create(schema)
    place.database.execute("INSERT INTO given (id) VALUES (1)")
    (row,) = place.database.query("SELECT * FROM given")
    assert [None if value is None else str(value) for value in row[1:]] == [want for _, _, want in POSTGRESQL]
    notes = [step.note for step in place.tables.script([(schema, place.table(schema))])]
    assert "default of c4: some_function()" in notes


@pytest.mark.every_server("utf8mb4_0900_bin")
def test_postgresql_text_keys_get_a_length_at_mysql_and_mariadb(place: Place) -> None:
    """Compared byte by byte, blanks at the end included; a longer value is refused, never cut."""
    text = Column("word", TEXT, "text", nullable=False)
    other = Column("code", TEXT, "text")
    schema = table(
        "words", text, other, key=("word",), dialect="postgresql", indexes=(Index("by_code", ("code",), True),)
    )
    place.create(schema)
    assert place.build(schema) == []
    assert place.existing("words").column("word").type.startswith("varchar(")
    for word in ("a", "A", "a ", "ä", "a\u0308"):
        place.database.query("INSERT INTO words (word, code) VALUES (%s, %s)", [word, word])
    assert place.database.query("SELECT COUNT(*) FROM words WHERE word = 'a '") == [(1,)]
    notes = [step.note for step in place.tables.script([(schema, place.table(schema))])]
    assert any("a longer value stops the job" in note for note in notes)


@pytest.mark.every_server("checks")
def test_postgresql_checks_and_computed_columns_at_mysql_and_mariadb(place: Place) -> None:
    checks = (
        Check("state_known", "CHECK ((state = ANY (ARRAY['new'::text, 'done'::text])))"),
        Check("price_positive", "CHECK (((price >= 0) AND (price < 1000000)))"),
        Check("odd", "CHECK (is_odd(price))"),
    )
    total = Column("total", None, "integer", generated=True, expression="(price * 2)", computed_from=("price",))
    state = Column("state", TEXT, "text", nullable=False)
    schema = table("items", number(), number("price"), state, total, checks=checks, dialect="postgresql")
    with_total = place.table(schema, computed=(("total", "total"),))
    place.tables.create_table(schema, with_total, RULES, False)
    (problem,) = place.tables.build(place.job, schema, with_total, lambda _: None)
    assert "check odd" in problem
    place.database.execute("INSERT INTO items (id, price, state) VALUES (1, 21, 'new')")
    assert place.database.query("SELECT total FROM items") == [(42,)]
    for row in ("(2, -1, 'new')", "(3, 1, 'NEW')"):
        with pytest.raises(Exception, match=r"(?i)constraint"):
            place.database.execute(f"INSERT INTO items (id, price, state) VALUES {row}")


STORE = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy')",
    "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
    """CREATE TABLE buyers (
      email text PRIMARY KEY, nick varchar(30) NOT NULL DEFAULT 'new'::varchar, mood mood NOT NULL DEFAULT 'sad',
      active boolean NOT NULL DEFAULT true, rate numeric(8,3) DEFAULT 1.5, born date DEFAULT '2000-01-31',
      made timestamptz NOT NULL DEFAULT now(), seen timestamp(3), tags text[], extra jsonb, token uuid, raw bytea,
      score double precision, small smallint DEFAULT '-3', address inet, took interval, level positive,
      CONSTRAINT rate_known CHECK (rate >= 0 AND rate < 1000),
      CONSTRAINT nick_known CHECK (nick IN ('new', 'it''s old', 'back\\slash')), CONSTRAINT odd CHECK (nick ~ '^n')
    )""",
    "COMMENT ON TABLE buyers IS 'who ''buys'''",
    "COMMENT ON COLUMN buyers.rate IS 'per cent'",
    "CREATE UNIQUE INDEX buyers_nick ON buyers (nick)",
    "CREATE UNIQUE INDEX buyers_active ON buyers (token) WHERE active",
    "CREATE INDEX buyers_lower ON buyers (lower(nick))",
    "CREATE INDEX buyers_tags ON buyers USING gin (tags)",
    "CREATE INDEX buyers_born ON buyers (born DESC, nick)",
    """CREATE TABLE sales (
      id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, no serial NOT NULL,
      buyer text REFERENCES buyers ON DELETE CASCADE,
      amount integer NOT NULL, price integer NOT NULL, total integer GENERATED ALWAYS AS (amount * price) STORED,
      note text, UNIQUE (note), CONSTRAINT amounts CHECK (amount > 0 OR price IS NULL)
    )""",
    "CREATE INDEX sales_buyer ON sales (buyer)",
)


@pytest.mark.every_server("checks")
def test_postgresql_tables_at_mysql_and_mariadb(
    place: Place, logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """Make what has a counterpart at the target, and name what has none: nothing is left out in silence."""
    source = source_database(logical_postgresql)
    source.execute(*STORE)
    with closing(connectors.source(endpoint_of(source)).catalog()) as catalog:
        found = catalog.tables(lambda one: one.schema == "public")
    schemas = [found[TableId("public", name)] for name in ("buyers", "sales")]
    place.create(*schemas)
    for _ in range(2):
        problems = place.build(*schemas)
        assert sorted(problem.partition(" of ")[0] for problem in problems) == [
            "check odd",
            "index buyers_active",
            "index buyers_lower",
            "index buyers_tags",
        ], problems
    buyers, sales = place.existing("buyers"), place.existing("sales")
    assert (buyers.primary_key, sales.primary_key) == (("email",), ("id",))
    assert {index.name for index in buyers.indexes} == {"PRIMARY", "buyers_nick", "buyers_born"}
    assert sales.column("id").auto_increment and not sales.column("no").auto_increment
    assert [(key.columns, key.parent_columns, key.on_delete) for key in sales.foreign_keys] == [
        (("buyer",), ("email",), "CASCADE")
    ]
    assert {"rate_known", "nick_known"} <= set(buyers.checks) and "amounts" in sales.checks
    place.database.execute("INSERT INTO buyers (email) VALUES ('a@b')")
    place.database.execute("INSERT INTO sales (buyer, amount, price, no) VALUES ('a@b', 2, 21, 1)")
    told = "SELECT nick, mood, active, rate, CAST(born AS CHAR), small, made IS NOT NULL FROM buyers"
    (row,) = place.database.query(told)
    assert [str(value) for value in row] == ["new", "sad", "1", "1.500", "2000-01-31", "-3", "1"]
    pairs = [(schema, place.table(schema)) for schema in schemas]
    notes = [step.note for step in place.tables.script(pairs) if step.note]
    assert any(note.startswith("numbers of no:") for note in notes), notes
    assert "per cent" in place.shown("buyers") and "who ''buys''" in place.shown("buyers")
