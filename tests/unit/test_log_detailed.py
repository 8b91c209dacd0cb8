"""The level `debug`: whether it is on, and statements without their values."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import log

POSTGRESQL = [
    ("SELECT 1", "SELECT …"),
    ("UPDATE \"t 1\".\"it's\" SET a = 'it''s' WHERE b = 12.5", 'UPDATE "t 1"."it\'s" SET a = … WHERE b = …'),
    (r"SELECT 'a\', x, 'b'", "SELECT …, x, …"),  # a backslash is itself
    (r"SELECT E'a\'b', x", "SELECT …, x"),
    ("DO $body$ SELECT 'secret' $body$", "DO …"),
    ("INSERT INTO t1 (c2)\n  SELECT v0 FROM s", "INSERT INTO t1 (c2) SELECT v0 FROM s"),
    ("SELECT 'never ends", "SELECT …"),
    ('SELECT "never ends', "SELECT …"),
    ("SELECT $1, %s", "SELECT $…, %s"),
]
MYSQL = [
    ("SELECT `a``b`, 'x', \"y\", 0x41, 5", "SELECT `a``b`, …, …, …, …"),
    (r"SELECT 'a\'b', c", "SELECT …, c"),
    ("SELECT 'never ends", "SELECT …"),
]


@pytest.mark.parametrize(("statement", "shown"), POSTGRESQL)
def test_statements_of_a_postgresql(statement: str, shown: str) -> None:
    assert log.shape(statement, '"') == shown


@pytest.mark.parametrize(("statement", "shown"), MYSQL)
def test_statements_of_a_mysql(statement: str, shown: str) -> None:
    assert log.shape(statement, "`") == shown


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_a_value_is_never_shown(value: str) -> None:
    """As the drivers write it into a statement."""
    written = value.replace("'", "''")
    assert log.shape(f"SELECT a FROM t WHERE b = '{written}'", '"') in ("SELECT a FROM t WHERE b = …", "SELECT …")
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    assert log.shape(f"SELECT a FROM t WHERE b = '{escaped}'", "`") in ("SELECT a FROM t WHERE b = …", "SELECT …")


def test_long_statements_are_cut() -> None:
    assert len(log.shape("SELECT " + "a, " * 10_000, '"')) < 1_100


def test_what_is_off_loads_nothing() -> None:
    code = """
import sys
from anabranch import log
print(log.is_detailed())
log.configure("info")
print(log.is_detailed(), "structlog" in sys.modules)
log.configure("debug")
print(log.is_detailed())
log.get().debug("one")
print(log.is_detailed())
log.configure("warning")
print(log.is_detailed())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "False", "True", "True", "False"], done
    assert '"event": "one"' in done.stderr
