"""A second database beside one of the user's: made where that may be, said where not, gone afterwards."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.torture.second import made_beside


def databases(target: Database) -> list[str]:
    asked = "SELECT datname FROM pg_database WHERE datname LIKE %s ORDER BY 1"
    return [name for (name,) in target.query(asked, [f"{target.name}%"])]


def test_one_is_made_and_gone_again(target_database: Database) -> None:
    said = list[str]()
    with pytest.raises(KeyboardInterrupt), made_beside(target_database, said.append) as made:
        assert made is not None and databases(target_database) == [target_database.name, made.name]
        asked = "SELECT encoding, datcollate, datctype FROM pg_database WHERE datname = current_database()"
        assert made.query(asked) == target_database.query(asked)
        made.execute("CREATE TABLE t (n int)")
        with closing(made.connect()):
            raise KeyboardInterrupt
    assert databases(target_database) == [target_database.name] and said == []


def test_where_there_is_none_it_is_said(target_database: Database) -> None:
    said, name = list[str](), f"{target_database.name}_second"
    target_database.execute(f"CREATE DATABASE {name}")
    try:
        with made_beside(target_database, said.append) as made:
            assert made is None
    finally:
        target_database.execute(f"DROP DATABASE {name}")
    role = f"torture_{os.getpid()}"
    target_database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    server = replace(target_database.server, user=role, password="x")
    try:
        with made_beside(Database(server, target_database.name), said.append) as made:
            assert made is None
    finally:
        target_database.execute(f"DROP ROLE {role}")
    there, may_not = said
    assert f"there is a database {name}" in there and "if an earlier run left it, drop it" in there
    assert "may not make a database" in may_not and databases(target_database) == [target_database.name]
