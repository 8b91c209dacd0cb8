"""Columns that are made at another database, and come back into the one that stands here."""

from __future__ import annotations

import pytest

from anabranch import connectors
from anabranch.config.sections.types_at_target import Types
from anabranch.contracts import SpelledTypes, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column
from anabranch.rules.choices import TypeChoices
from anabranch.rules.standing_types import why_not_back

CASES = [
    ("postgresql", "mysql", "integer", ""),
    ("postgresql", "mysql", "character varying(40)", ""),
    ("postgresql", "mysql", "numeric(10,2)", ""),
    ("postgresql", "mariadb", "double precision", ""),
    ("postgresql", "mysql", "timestamp(6) without time zone", ""),
    ("postgresql", "mysql", "date", ""),
    ("postgresql", "mysql", "boolean", "boolean is tinyint(1) there, which is smallint here"),
    ("postgresql", "mariadb", "uuid", "uuid is char(36) there, which is varchar(36) here"),
    ("mysql", "postgresql", "int", ""),
    ("mysql", "postgresql", "bigint", ""),
    ("mariadb", "postgresql", "varchar(40)", ""),
    ("mysql", "postgresql", "decimal(10,2)", ""),
    ("mysql", "postgresql", "datetime(6)", ""),
    ("mysql", "postgresql", "json", ""),
    ("mysql", "postgresql", "varbinary(9)", "varbinary(9) is bytea there, which is longblob here"),
    ("mariadb", "postgresql", "int unsigned", "int unsigned is bigint there, which is bigint here"),
]


def at(database: str) -> Endpoint:
    return Endpoint(database, "nowhere", 1, "u", "p", "d")


@pytest.mark.parametrize(("here", "there", "native", "why"), CASES)
def test_a_column_comes_back_or_it_is_said_as_what(here: str, there: str, native: str, why: str) -> None:
    source, read = connectors.source(at(here)), connectors.source(at(there))
    assert isinstance(source, SpelledTypes) and isinstance(read, SpelledTypes)
    types, back = connectors.target(at(there)).types, connectors.target(at(here)).types
    type = source.spelled(native.replace(" without time zone", ""))
    assert type is not None
    column = Column("c", type, native, True, charset="utf8mb4")
    assert why_not_back(column, type, types, read.spelled, back) == why


def test_a_type_that_a_person_has_chosen_is_their_word() -> None:
    read, types = connectors.source(at("mysql")), connectors.target(at("mysql")).types
    source = connectors.source(at("postgresql"))
    assert isinstance(source, SpelledTypes) and isinstance(read, SpelledTypes)
    column = Column("c", source.spelled("boolean"), "boolean", True)
    chosen = TypeChoices(Types(), types, ValueRules()).of(column, "tinyint(1)", False)
    assert chosen is not None and chosen.target == "tinyint(1)"
    assert why_not_back(column, chosen, types, read.spelled, connectors.target(at("postgresql")).types) == ""
