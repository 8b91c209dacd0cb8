"""What an edited job file means, told by rules and definitions alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import describe_change, load_job
from anabranch.config.changes import JSON as KEY_JSON
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.lifecycle.planning import TableChange, _changed, _former, _older
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rules.rule_set import RuleSet

HEAD = 'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
RULES = '[[rules]]\ninclude = ["shop.*"]\ntarget = "public.{table}"\n'
OF = '[[tables]]\nname = "shop.a"\n'
INT, BOOL, JSON = LogicalType(Kind.INT32), LogicalType(Kind.INT8), LogicalType(Kind.JSON)
TABLE = TableSchema(
    TableId("shop", "a"),
    (Column("id", INT, "int"), Column("v", BOOL, "tinyint(1)"), Column("w", INT, "int"), Column("j", JSON, "json")),
    ("id",),
)
NEWER = replace(TABLE, columns=(*TABLE.columns, Column("added", INT, "int")))


def change(tmp_path: Path, before: str, after: str) -> list[TableChange]:
    former, now = (load_job(_written(tmp_path, text), {}) for text in (before, after))
    assert describe_change(former.fingerprint(), now.fingerprint())
    again = _former(now, former.fingerprint())
    assert again.fingerprint() == former.fingerprint()
    has_json = KEY_JSON in [change.what for change in describe_change(former.fingerprint(), now.fingerprint())]
    return list(
        _changed(
            RuleSet(again, PostgresTypes()),
            RuleSet(now, PostgresTypes()),
            {TABLE.id: TABLE},
            {TABLE.id: NEWER},
            has_json,
        )
    )


def _written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "job.toml"
    file.write_text(HEAD + text)
    return file


@pytest.mark.parametrize(
    ("before", "after", "why", "recreates"),
    [
        (RULES, RULES + OF + 'where = "id > 1"\n', "rows: every row -> 'id > 1'", False),
        (RULES + OF + 'where = "id > 1"\n', RULES, "rows: 'id > 1' -> every row", False),
        (RULES, RULES.replace("public", "x"), "target: public.a -> x.a", False),
        (RULES, RULES + OF + 'columns = { drop = ["w"] }\n', "column w: w int32 -> left out", True),
        (RULES + OF + 'columns = { drop = ["w"] }\n', RULES, "column w: left out -> w int32", True),
        (RULES, RULES + OF + 'columns = { rename = { w = "x" } }\n', "column w: w int32 -> x int32", True),
        (RULES, RULES + '[types]\njson = "text"\n', "column j: another type for JSON", True),
        (RULES, RULES + OF + 'columns = { rename = { added = "x" } }\n', "column added: left out -> x int32", True),
        (RULES, RULES + '[types.map]\n"tinyint(1)" = "boolean"\n', "column v: v int8 -> v boolean", True),
    ],
)
def test_what_is_otherwise_about_a_table(tmp_path: Path, before: str, after: str, why: str, recreates: bool) -> None:
    assert change(tmp_path, before, after) == [TableChange(TABLE.id, "changed", why, recreates)]


def test_what_concerns_other_tables_only_changes_nothing(tmp_path: Path) -> None:
    other = RULES.replace('["shop.*"]', '["shop.*", "crm.*"]')
    assert change(tmp_path, RULES, other) == []
    assert change(tmp_path, RULES, RULES.replace('["shop.*"]', '["crm.*"]')) == []  # left out, not changed


AT_MYSQL = """
name = "shop"
[source]
url = "postgresql://u:p@h/d"
[target]
url = "mysql://u:p@h"
[target.options]
composites = "json"
arrays = "json"
[[rules]]
include = ["public.*"]
target = "there.{table}"
"""


def test_tables_of_a_release_before_whose_composites_stay_texts_are_named(tmp_path: Path) -> None:
    (file := tmp_path / "job.toml").write_text(AT_MYSQL)
    rules = RuleSet(load_job(file, {}), MysqlTypes("mysql"))

    def table(**more: object) -> dict[TableId, TableSchema]:
        pair, many = LogicalType(Kind.NATIVE, native="pair", **more), LogicalType(Kind.NATIVE, native="integer[]")
        columns = (Column("id", INT, "integer"), Column("p", pair, "pair"), Column("many", many, "integer[]"))
        schema = TableSchema(TableId("public", "a"), columns, ("id",))
        return {schema.id: schema}

    (note,) = _older(rules, table(), table(fields=(("x", "integer"),)))
    assert note.startswith("public.a: p stay text") and note.endswith(
        "load JOB --table public.a --recreate makes JSON of them"
    )
    assert list(_older(rules, table(fields=(("x", "integer"),)), table(fields=(("x", "integer"), ("y", "text"))))) == []
    assert list(_older(rules, table(), {})) == []  # gone from the source
