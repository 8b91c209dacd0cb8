"""A PostgreSQL to read definitions of and one to build them in, and what the catalogues of both say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.connectors.postgresql.source.catalog import PostgresCatalog
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.connectors.postgresql.target.preflight import PostgresChecks
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import Bounds, PreflightContext
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import RuleSet
from anabranch.testing import packages
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, RULES

RENAMED = """[[rules]]
include = ["public.*"]
target = "there.{table}"
[[tables]]
name = "public.one"
columns.rename = { a = "alpha" }
columns.drop = ["gone"]
"""
FACTS = {
    "columns": "SELECT a.attrelid::regclass::text, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum), a.attname,"
    " format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, a.attidentity <> '',"
    " pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation::text, col_description(a.attrelid, a.attnum)"
    " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " JOIN pg_class c ON c.oid = a.attrelid WHERE c.oid >= 16384 AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped",
    "indexes": "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid FROM pg_index i"
    " JOIN pg_class c ON c.oid = i.indrelid WHERE c.oid >= 16384 AND c.relkind = 'r'",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE conrelid >= 16384",
    "sequences": "SELECT s.seqrelid::regclass::text, s.seqtypid::regtype::text, seqstart, seqincrement, seqmin, seqmax,"
    " seqcache, seqcycle FROM pg_sequence s",
    "types": "SELECT t.oid::regtype::text, t.typtype, t.typnotnull, t.typdefault, format_type(t.typbasetype, t.typtypmod),"
    " ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),"
    " ARRAY(SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = t.oid AND contype = 'c'),"
    " ARRAY(SELECT attname || ' ' || format_type(atttypid, atttypmod) || attcollation::regcollation FROM pg_attribute"
    " WHERE attrelid = t.typrelid ORDER BY attnum) FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid"
    " WHERE t.oid >= 16384 AND t.typtype <> 'b' AND coalesce(c.relkind, 'c') = 'c'",
    "collations": "SELECT oid::regcollation::text, collprovider, collcollate, collctype FROM pg_collation WHERE oid >= 16384",
    "extensions": "SELECT extname, extnamespace::regnamespace::text FROM pg_extension",
}


@dataclass
class Ends:
    """A database to read and one to build in."""

    source: Database
    target: Database
    rules: RuleSet
    loader: PostgresLoader
    schemas: dict[TableId, TableSchema] = field(default_factory=dict)
    tables: dict[TableId, TargetTable] = field(default_factory=dict)
    small: dict[TableId, list[str]] = field(default_factory=dict)  # what was built at once

    def read(self) -> None:
        with closing(PostgresCatalog(endpoint_of(self.source))) as catalog:
            found = catalog.tables(self.rules.includes)
        self.schemas = {s.id: TableSchema.from_json(s.to_json()) for s in found.values()}
        assert self.schemas == found
        self.tables = {s.id: self.rules.target_table(s) for s in found.values()}

    def create(self) -> None:
        for table, schema in sorted(self.schemas.items()):
            self.loader.create_table(schema, self.tables[table], RULES, False)
            self.loader.begin_generation(JOB, self.tables[table], 1, [Bounds()], False)

    def build(self) -> list[str]:
        """Twice, as apply does: a foreign key may wait for another table's unique key."""
        self._build()
        return self._build()

    def _build(self) -> list[str]:
        """As apply does: small tables at once, then those that are left, one by one."""
        every = [(schema, self.tables[table]) for table, schema in sorted(self.schemas.items())]
        self.small = self.loader.build_small(JOB, every, self.tables.get)
        built = (
            self.small[t.source] if t.source in self.small else self.loader.build(JOB, s, t, self.tables.get)
            for s, t in every
        )
        return [problem for problems in built for problem in problems]

    def checks(self, user: str = "") -> dict[tuple[str, str], str]:
        with closing(PostgresChecks(endpoint_of(self.target, user, "x" if user else ""))) as checks:
            context = PreflightContext(JOB, {"load.existing": "empty"}, self.schemas, self.tables)
            return {(r.check, r.message): r.verdict for r in checks.run(context)}


Make = Callable[..., Ends]


@pytest.fixture
def ends(postgresql_source: Server, target_database: Database, tmp_path: Path) -> Iterator[Make]:
    source = create_database(postgresql_source, "structures")
    made: list[PostgresLoader] = []

    def make(*statements: str, more: str = "") -> Ends:
        source.execute(*statements)
        place = endpoint_of(target_database)
        with closing(target(place).store()) as store:
            store.prepare()
        made.append(PostgresLoader(place, RULES))
        file = tmp_path / "job.toml"
        file.write_text(
            f'name = "{JOB}"\n[source]\nurl = "{source.url}"\n[target]\nurl = "{target_database.url}"\n'
            + (more or '[[rules]]\ninclude = ["*.*"]\n')
        )
        ends = Ends(source, target_database, RuleSet(load_job(file), PostgresTypes()), made[-1])
        ends.read()
        return ends

    yield make
    for loader in made:
        loader.close()
    drop_database(source)


def facts(database: Database, what: str) -> list[tuple[Any, ...]]:
    rows = database.query(f"SELECT * FROM ({FACTS[what]}) AS f ORDER BY f::text")
    return [row for row in rows if not str(row[0]).startswith("anabranch.")]


def assert_same(both: Ends, what: str) -> None:
    """From 18 on NOT NULL is a constraint with a name."""
    there, here = facts(both.source, what), facts(both.target, what)
    if what == "constraints" and release(both.source) < 18:
        here = [row for row in here if not row[2].startswith("NOT NULL")]
    assert here == there, what


def release(database: Database) -> int:
    return int(database.server.version.partition(".")[0])


def psql(target: Database, file: Path) -> None:
    program = packages.find_postgresql().program("psql")
    done = subprocess.run(
        [str(program), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file), target.url], capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
