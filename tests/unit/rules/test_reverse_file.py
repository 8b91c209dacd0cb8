"""The job file of the way back: what it carries over, what it leaves out and says so, and that the product reads it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from anabranch.config import parse_job
from anabranch.model.ids import TableId
from anabranch.model.way_back_names import name_of
from anabranch.rules.reverse_file import reverse_file
from anabranch.rules.way_back import TableBack, WayBack

FORWARD = """
name = "shop"
[source]
url = "mysql://repl:${SHOP_SOURCE}@db1:3306?ssl_mode=required"
options.server_id = 7
[target]
url = "postgresql://app:${SHOP_TARGET}@db2/shop"
options.json = "json"
[[rules]]
include = ["shop.*"]
target = "public.{table}"
[load]
parallel = 8
existing = "empty"
[capture]
segment_mb = 8
[apply]
mode = "transaction"
on_conflict = "source_wins"
[retry]
restarts_per_hour = 2
[retry.source]
connect_s = 3
[spark.conf]
"spark.executor.memory" = "4g"
"""
ENV = {"SHOP_SOURCE": 'secret#1"', "SHOP_TARGET": "secret#2"}
BACK = WayBack(
    (
        TableBack(
            TableId("public", "items"),
            TableId("shop", "items"),
            {"remark": "note"},
            {"seen": "only the target has it"},
            {"id": "int unsigned"},
            is_made=True,
        ),
        TableBack(TableId("public", "odd one"), TableId("shop", "odd"), is_made=True),
    ),
    {TableId("shop", "log"): "it is parked,\nso the rows are behind"},
    (),
)


def test_the_file_is_read_and_says_the_way_back(tmp_path: Path) -> None:
    text = reverse_file(tomllib.loads(FORWARD), BACK, "written from shop.toml")
    made = parse_job(text, tmp_path / "back.toml", ENV)
    assert made.name == "shop-reverse"
    assert (made.source.endpoint.scheme, made.source.endpoint.password) == ("postgresql", "secret#2")
    assert made.target is not None
    end = made.target.endpoint
    assert (end.scheme, end.password, end.option("ssl_mode")) == ("mysql", 'secret#1"', "required")
    assert [(rule.include, rule.target) for rule in made.rules] == [
        (["public.items"], "shop.{table}"),
        (['public."odd one"'], "shop.odd"),
    ]
    (entry,) = made.tables
    assert (entry.columns.drop, entry.columns.rename, entry.columns.type) == (
        ["seen"], {"remark": "note"}, {"id": "int unsigned"},
    )  # fmt: skip
    assert (made.load.existing, made.load.parallel) == ("take_over", 4)
    assert (made.apply.mode, made.apply.on_conflict) == ("transaction", "stop")
    assert (made.capture.segment_mb, made.retry.restarts_per_hour, made.retry.target.connect_s) == (8, 2, 3)
    assert made.followed_anywhere == frozenset() and made.column_actions(TableId("public", "items")).said
    without = parse_job(text.replace('[ddl]\naction = "park"', ""), tmp_path / "back.toml", ENV)
    assert without.followed_anywhere == frozenset(), "nor does a file of an earlier release"
    assert made.spark.conf == {"spark.executor.memory": "4g"}


def test_secrets_stay_variables_and_what_is_left_out_is_said() -> None:
    text = reverse_file(tomllib.loads(FORWARD), BACK, "written from shop.toml")
    assert "secret" not in text and "${SHOP_SOURCE}" in text and "${SHOP_TARGET}" in text
    comments = [line for line in text.splitlines() if line.startswith("#")]
    for what in (
        "options json",
        "options server_id",
        "[apply] on_conflict",
        "shop.log does not go back",
        "load (parallel)",
    ):
        assert any(what in line for line in comments), what
    assert text.isprintable() is False and all(line.isprintable() for line in text.splitlines())


def test_a_long_name_stays_a_name() -> None:
    assert name_of("shop") == "shop-reverse"
    assert len(name_of("s" * 63)) == 63 and name_of("s" * 63).endswith("-reverse")


def test_one_of_targets_is_the_source(tmp_path: Path) -> None:
    raw: dict[str, Any] = tomllib.loads(FORWARD)
    raw["targets"] = [{"name": "b", **raw.pop("target")}]
    made = parse_job(reverse_file(raw, BACK, "x"), tmp_path / "back.toml", ENV)
    assert made.source.endpoint.host == "db2"
