"""Any rows of many types, from an INSERT at the source to the row at the target: log, trail, PostgreSQL. Both ends are
compared by SELECT. Spark has no part in it: what an epoch does is done here, in process (`scenarios/` go the whole way)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from anabranch import connectors
from anabranch.apply.context import ApplyContext, Followed
from anabranch.config.url import parse_url
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.scenario import Scenario

JOB = "shop"
Row = tuple[Any, ...]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
CHANGING = "äß€‰ñ\\\t\n\r'\" aZ%"  # what COPY, SQL and latin1 make something else of
JSON = st.dictionaries(
    TEXT, st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.lists(TEXT), max_size=4
)


def clock(time: timedelta) -> str:
    seconds = abs(time) // timedelta(seconds=1)
    hours, rest = divmod(seconds, 3600)
    return f"{'-' * (time < timedelta())}{hours}:{rest // 60:02}:{rest % 60:02}.{abs(time).microseconds:06}"


def among(*members: str) -> st.SearchStrategy[str]:
    return st.sets(st.sampled_from(members)).map(lambda some: ",".join(m for m in members if m in some))


COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-128, 127),
    "mediumint unsigned": st.integers(0, 2**24 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "bigint unsigned": st.integers(0, 2**64 - 1),
    "decimal(30,9)": st.decimals(-(10**12), 10**12, allow_nan=False, places=9),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bit(10)": st.integers(0, 1023),
    "year": st.integers(1901, 2155),
    "date": st.dates(date(1000, 1, 1)),
    "datetime(6)": st.datetimes(datetime(1000, 1, 1)),
    "timestamp(6) null": st.datetimes(datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7)),
    "time(6)": st.timedeltas(-timedelta(seconds=3020399), timedelta(seconds=3020399)).map(clock),
    "varchar(60)": TEXT,
    "char(30)": TEXT,
    "mediumtext": TEXT,
    "varchar(60) character set latin1": st.text(CHANGING, max_size=30),
    "varchar(30) character set gbk": st.text("a?\\'你好啊Ωー", max_size=20),
    "text character set sjis": st.text("aソ表\\?~ｱ漢", max_size=20),
    "char(20) character set koi8r": st.text("яЖ─a?%", max_size=20),
    "varchar(20) character set utf16": TEXT.map(lambda text: text[:20]),
    "enum('a?','ж') character set cp1251": st.sampled_from(("a?", "ж")),
    "varbinary(60)": st.binary(max_size=60),
    "blob": st.binary(max_size=60),
    "enum('a','b\\\\c','it''s','')": st.sampled_from(("a", "b\\c", "it's", "")),
    "set('p','q','r s')": among("p", "q", "r s"),
    "json": JSON.map(json.dumps),
}
NAMES = [f"c{number}" for number in range(len(COLUMNS))]
ROWS = st.lists(st.tuples(*(st.none() | values for values in COLUMNS.values())), min_size=1, max_size=12)
DEFINITION = ", ".join(f"{name} {native}" for name, native in zip(NAMES, COLUMNS, strict=True))


class Target:
    """A trail, and the target's table that follows it."""

    def __init__(self, made: Scenario, follower: Any, trail: Path) -> None:
        follower.begin()
        self.follower, schema = follower, follower.schema("t")
        names = tuple(column.name for column in schema.columns)
        types = tuple(column.type for column in schema.columns)
        table = TargetTable(schema.id, TableId("public", "t"), names, types, schema.primary_key, names)
        self.trail = TrailWriter.open(trail, job=JOB, job_uuid="u", source_identity="s", pack=False)
        self.trail.schema(schema)
        endpoint, _ = parse_url(made.target.url, {}, needs_database=True)
        assert endpoint is not None
        target = connectors.target(endpoint)
        self.store, self.writer = target.store(), target.writer(ValueRules(), False)
        with closing(target.loader(ValueRules())) as loader:
            loader.create_table(schema, table, ValueRules(), False)
        self.store.prepare()
        self.store.create_checkpoint(JOB, Position(0, ""), 0)
        self.store.save_table(JOB, TableState(schema.id, table.target, "streaming", schema=schema), None)
        self.writer.claim(JOB, "me")
        context = ApplyContext({schema.id: Followed(schema, table)})
        self.reader = TrailReader(trail)
        self.applier = an_applier(JOB, self.reader, self.writer, self.store, lambda _: context)

    def catch_up(self) -> None:
        for item in self.follower.take():
            assert isinstance(item, Chunk)
            self.trail.append(item)
        self.trail.flush()
        self.applier.apply(self.reader.end().position.sequence)

    def close(self) -> None:
        for part in (self.reader, self.trail, self.writer, self.store):
            part.close()


def write(source: Database, image: str, ids: Sequence[int], inserted: Sequence[Row], updated: Sequence[Row]) -> None:
    """In one transaction: rows come, some of them change."""
    with closing(source.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(
            f"SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', SESSION binlog_row_image = '{image}'"
        )
        places = ", ".join(["%s"] * (1 + len(NAMES)))
        for number, row in zip(ids, inserted, strict=True):
            cursor.execute(f"INSERT INTO t VALUES ({places})", (number, *row))
        for number, row in zip(ids, updated, strict=False):
            cursor.execute(f"UPDATE t SET {', '.join(f'{name} = %s' for name in NAMES)} WHERE id = %s", (*row, number))
        connection.commit()


def test_pitfall_29_33_35_any_rows_arrive_as_they_are(
    mysql_family: Server, scenario: Callable[..., Scenario], follow: Callable[..., Any], tmp_path: Path
) -> None:
    made = scenario(mysql_family, f"CREATE TABLE t (id int PRIMARY KEY, {DEFINITION}) CHARACTER SET utf8mb4")
    numbers = count(1)

    @settings(max_examples=12, deadline=None, phases=[Phase.generate])
    @given(st.sampled_from(("FULL", "MINIMAL", "NOBLOB")), ROWS, ROWS)
    def any_rows(image: str, inserted: list[Row], updated: list[Row]) -> None:
        write(made.source, image, [next(numbers) for _ in inserted], inserted, updated)
        target.catch_up()
        made.assert_identical("t")

    with closing(Target(made, follow(made.source), tmp_path / "trail")) as target:
        any_rows()
    assert made.target.query("SELECT count(*) FROM public.t")[0][0] >= 12
