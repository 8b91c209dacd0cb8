"""The shop as text: what the issue promises about it. Its life on a real server: tests/live/test_mariadb_demo_shop.py."""

from __future__ import annotations

import re

from anabranch.demo import shop
from anabranch.demo.writer import LIFE


def test_at_least_nine_tables_and_exactly_200_000_rows() -> None:
    statements = shop.statements()
    tables = [found[1] for text in statements if (found := re.search(r"CREATE TABLE (\w+)", text))]
    assert len(tables) >= 9
    rows = [int(found[1]) for text in statements if (found := re.search(r"FROM seq_1_to_(\d+)$", text))]
    assert sum(rows) == 200_000


def test_the_shop_on_postgresql_is_as_large() -> None:
    statements = shop.statements("shop_postgresql.sql")
    tables = [found[1] for text in statements if (found := re.search(r"CREATE TABLE (\w+)", text))]
    assert len(tables) == 10
    rows = [int(found[1]) for text in statements if (found := re.search(r"FROM generate_series\(1, (\d+)\)", text))]
    assert sum(rows) == 200_000


def test_keys_of_every_kind() -> None:
    text = "\n".join(shop.statements())
    for wanted in ("ON DELETE CASCADE", "ON UPDATE CASCADE", "ON DELETE SET NULL", "UNIQUE KEY", "AUTO_INCREMENT"):
        assert wanted in text
    keyless = [one for one in shop.statements() if "CREATE TABLE" in one and "PRIMARY KEY" not in one]
    assert len(keyless) == 1


def test_the_common_types() -> None:
    text = "\n".join(shop.statements())
    types = "INT BIGINT SMALLINT TINYINT DECIMAL FLOAT DOUBLE VARCHAR CHAR TEXT MEDIUMTEXT BLOB BINARY VARBINARY DATE DATETIME"
    for wanted in (*types.split(), "TIMESTAMP", "TIME", "YEAR", "ENUM", "SET", "BIT", "JSON", "UNSIGNED", "latin1"):
        assert re.search(rf"\b{wanted}\b", text), wanted


def test_every_event_fits_its_column_and_happens() -> None:
    assert all(len(event) <= 20 and weight > 0 for event, _, weight in LIFE)
    assert len({event for event, _, _ in LIFE}) == len(LIFE)
