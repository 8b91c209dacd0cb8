"""Tell which columns of a PostgreSQL went, came and got other names, by the names in its rows and the numbers in its catalogue
(no server)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.added_columns import Attribute
from anabranch.connectors.postgresql.source.column_readings import readings
from anabranch.connectors.postgresql.source.redefined_columns import behind
from anabranch.connectors.postgresql.source.replaced_columns import why_replaced
from anabranch.connectors.postgresql.source.widened import keeps_rows, keeps_values
from anabranch.model.column_changes import Altered, ColumnChange, as_rows_tell
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, ForeignKey, Index, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ADD, DROP, RENAME, TYPE = ColumnChange.ADD, ColumnChange.DROP, ColumnChange.RENAME, ColumnChange.TYPE
ID = Column("id", INT, "integer", nullable=False, number=1)
A, B, C = (Column(name, TEXT, "text", number=number) for number, name in enumerate("abc", 2))
THEN = TableSchema(TableId("s", "t"), (ID, A, B), ("id",), oid=70, numbers=3, file=70, version=4)


def told(*columns: Column) -> list[tuple[str, str]]:
    return [(column.name, column.native) for column in columns]


def as_now(*columns: Column, numbers: int, **facts: Any) -> tuple[TableSchema, list[Attribute]]:
    """The catalogue with these columns, of as many numbers."""
    there = {column.number: column.name for column in columns}
    table = replace(THEN, columns=columns, numbers=numbers, version=1, **facts)
    return table, [Attribute(number, there.get(number, "")) for number in range(1, numbers + 1)]


def named(column: Column, name: str) -> Column:
    return replace(column, name=name)


RENAMED = named(A, "word")
CERTAIN = {
    "dropped": ((ID, B), as_now(ID, B, numbers=3), {DROP}, ()),
    "dropped, and its name came back later": ((ID, B), as_now(ID, B, named(C, "a"), numbers=4), {DROP}, ()),
    "renamed": ((ID, RENAMED, B), as_now(ID, RENAMED, B, numbers=3), {RENAME}, (("a", "word"),)),
    "renamed again later": ((ID, RENAMED, B), as_now(ID, named(A, "z"), B, numbers=3), {RENAME}, (("a", "word"),)),
    "renamed, and dropped later": ((ID, RENAMED, B), as_now(ID, B, numbers=3), {RENAME}, (("a", "word"),)),
    "renamed and added": ((ID, RENAMED, B, C), as_now(ID, RENAMED, B, C, numbers=4), {RENAME, ADD}, (("a", "word"),)),
    "two dropped": ((ID,), as_now(ID, numbers=3), {DROP}, ()),
    "added, then one dropped": ((ID, A, B, C), as_now(ID, B, C, numbers=4), {ADD}, ()),
}  # fmt: skip
UNCERTAIN = {
    "dropped and added": ((ID, B, C), as_now(ID, B, C, numbers=4), "a was dropped"),
    "dropped and renamed to the other's name, both gone": ((ID, B), as_now(ID, numbers=3), "a, b was dropped"),
    "names swapped": ((ID, named(A, "b"), named(B, "a")), as_now(ID, named(A, "b"), named(B, "a"), numbers=3), "two columns"),
    "a computed one is new": ((ID, B), as_now(ID, B, numbers=3, oid=71), "another table"),
    "retyped": ((ID, replace(A, native="integer"), B), as_now(ID, A, B, numbers=3), "a was text and is integer"),
}  # fmt: skip


@pytest.mark.parametrize("name", CERTAIN)
def test_rule_19_what_is_certain_goes_on(name: str) -> None:
    columns, (now, numbered), kinds, renamed = CERTAIN[name]
    found = behind(THEN, told(*columns), now, numbered)
    assert isinstance(found, Altered), found
    assert (found.kinds, found.untold.renamed) == (kinds, renamed)
    assert [(column.name, column.number) for column in found.schema.columns] == [(c.name, c.number) for c in columns]
    assert found.schema.version == 4


@pytest.mark.parametrize("name", UNCERTAIN)
def test_rule_19_what_is_not_certain_parks(name: str) -> None:
    columns, (now, numbered), why = UNCERTAIN[name]
    assert why in str(behind(THEN, told(*columns), now, numbered))


def test_rule_19_a_backlog_goes_on_one_by_one() -> None:
    """The catalogue is behind all of it: a got another name, b went. What came behind that may have had b's name."""
    now, numbered = as_now(ID, RENAMED, numbers=3)
    table, kinds = THEN, []
    for columns in ([ID, RENAMED, B], [ID, RENAMED]):
        found = behind(table, told(*columns), now, numbered)
        assert isinstance(found, Altered), found
        table, kinds = found.schema, [*kinds, set(found.kinds)]
    assert kinds == [{RENAME}, {DROP}] and table.columns == (ID, RENAMED)
    now, numbered = as_now(ID, RENAMED, C, numbers=4)
    assert "b was dropped" in str(behind(THEN, told(ID, RENAMED, B), now, numbered))


def test_rule_19_what_depends_on_a_column_parks() -> None:
    plain, whole = Index("i", ("a",)), Index("j", ("a", "b"))
    found = behind(replace(THEN, indexes=(plain, whole)), told(ID, RENAMED, B), *as_now(ID, RENAMED, B, numbers=3))
    assert isinstance(found, Altered) and [index.columns for index in found.schema.indexes] == [
        ("word",),
        ("word", "b"),
    ]
    found = behind(replace(THEN, indexes=(plain, whole)), told(ID, B), *as_now(ID, B, numbers=3))
    assert isinstance(found, Altered) and found.schema.indexes == ()
    computed = replace(C, name="g", generated=True, type=None, expression="(a || 'x')", computed_from=("a",))
    for depends, why in (
        ({"indexes": (Index("u", ("a",), unique=True),)}, "part of a key"),
        ({"indexes": (Index("p", ("a",), definition="USING btree (a) WHERE a > ''"),)}, "part of a key"),
        ({"foreign_keys": (ForeignKey("f", ("a",), THEN.id, ("id",)),)}, "part of a key"),
        ({"checks": (Check("c", "((a <> ''::text))"),)}, "part of a key"),
    ):
        for columns in ((ID, RENAMED, B), (ID, B)):
            assert why in str(behind(replace(THEN, **depends), told(*columns), *as_now(*columns, numbers=3)))
    with_one, columns = replace(THEN, columns=(ID, A, B, computed), numbers=4), (ID, RENAMED, B, computed)
    assert "part of a key" in str(behind(with_one, told(*columns[:3]), *as_now(*columns, numbers=4)))
    columns = (ID, A, named(B, "z"), replace(computed, expression="(a || 'y')"))
    assert "computed" in str(behind(with_one, told(*columns[:3]), *as_now(*columns, numbers=4)))


def test_rule_19_a_type_takes_more_while_nobody_wrote_the_rows() -> None:
    short, long = (LogicalType(Kind.TEXT, length=n) for n in (20, 40))
    then = replace(THEN, columns=(ID, replace(A, type=short, native="character varying(20)"), B))
    wide = replace(A, type=long, native="character varying(40)")
    found = behind(then, told(ID, wide, B), *as_now(ID, replace(A, native="text"), B, numbers=3))
    assert isinstance(found, Altered) and (found.kinds, found.schema.column("a")) == ({TYPE}, wide)
    assert "written anew" in str(behind(then, told(ID, wide, B), *as_now(ID, wide, B, numbers=3, file=99)))
    for former, native, keeps in (
        ("character varying(20)", "character varying(21)", True),
        ("character varying(20)", "character varying(19)", False),
        ("character varying(20)", "text", True),
        ("character varying", "text", True),
        ("text", "character varying", False),
        ("numeric(9,2)", "numeric(12,2)", True),
        ("numeric(9,2)", "numeric(12,3)", False),
        ("numeric(9,2)", "numeric", False),
        ("integer", "bigint", False),
    ):
        assert keeps_rows(former, native) is keeps, (former, native)


def test_whole_numbers_fit_into_what_has_more_digits() -> None:
    for former, native, keeps in (
        ("smallint", "integer", True),
        ("integer", "bigint", True),
        ("bigint", "integer", False),
        ("integer", "integer", False),
        ("integer", "numeric(10,0)", True),
        ("integer", "numeric(9,0)", False),
        ("integer", "numeric(12,2)", False),
        ("bigint", "numeric(19,0)", True),
        ("bigint", "double precision", False),
        ("bigint", "numeric", False),
        ("character varying(20)", "text", False),
    ):
        assert keeps_values(former, native) is keeps, (former, native)


def test_a_file_is_not_noted_of_a_table_that_was_altered_again() -> None:
    now, numbered = as_now(ID, RENAMED, replace(B, native="bigint"), numbers=3, file=99)
    found = behind(THEN, told(ID, RENAMED, B), now, numbered)
    assert isinstance(found, Altered) and found.schema.file == 0
    now, numbered = as_now(ID, RENAMED, B, numbers=3, file=99)
    found = behind(THEN, told(ID, RENAMED, B), now, numbered)
    assert isinstance(found, Altered) and found.schema.file == 99


def test_what_rows_will_tell_is_no_drift() -> None:
    now, _ = as_now(ID, RENAMED, C, numbers=4)
    every = frozenset(ColumnChange)
    assert as_rows_tell(THEN, now, every).columns == THEN.columns
    assert [c.name for c in as_rows_tell(THEN, now, every - {ADD}).columns] == ["id", "a", "b", "c"]
    assert [c.name for c in as_rows_tell(THEN, now, every - {DROP}).columns] == ["id", "a"]
    assert [c.name for c in as_rows_tell(THEN, now, every - {RENAME}).columns] == ["id", "word", "b"]
    wide, _ = as_now(ID, replace(A, native="bigint"), B, numbers=3)
    assert as_rows_tell(THEN, wide, every).columns == THEN.columns
    assert as_rows_tell(THEN, wide, every - {TYPE}).columns == wide.columns


def test_a_column_that_is_gone_and_whose_name_is_there_is_no_longer_the_same() -> None:
    for now, gone in (
        ({"id": 1, "a": 2, "b": 3}, ""),
        ({"id": 1, "b": 3}, ""),  # rows will tell
        ({"id": 1, "b": 2, "a": 3}, ""),  # names that are swapped, too
        ({"id": 1, "a": 2, "b": 4}, "b"),
        ({"id": 1, "a": 3, "b": 4}, "a"),
        ({"id": 1, "z": 3, "a": 4}, "a"),
    ):
        assert why_replaced(THEN, now) == (
            f"{gone} was dropped at the source, and another column has its name" if gone else ""
        )
    unnumbered = replace(THEN, columns=tuple(replace(column, number=0) for column in THEN.columns))
    assert why_replaced(unnumbered, {"id": 1, "a": 2, "b": 4}) == "", "of a trail of an early release"


def test_readings_are_all_that_a_history_of_statements_can_have_left() -> None:
    """Each way through a random history of ADD and DROP, seen at any place of it: the true one is among the readings, and one
    that is alone is the only one that any history could have left."""
    random = Random(284)
    for _ in range(400):
        there, highest = {1, 2, 3}, 3
        states = [(set(there), highest)]
        for _ in range(random.randrange(5)):
            if len(there) > 1 and random.random() < 0.5:
                there.discard(random.choice(sorted(there)))
            else:
                highest += 1
                there.add(highest)
            states.append((set(there), highest))
        numbered = [(number, number in there) for number in range(1, highest + 1)]
        for then, at in combinations(range(len(states)), 2):
            (before, before_highest), (true, _) = states[then], states[at]
            found = readings(sorted(before), before_highest, numbered, len(true))
            possible = set(_possible(before, before_highest, numbered, len(true)))
            assert tuple(sorted(true)) in possible
            assert set(found) == possible if len(possible) < 2 else len(found) > 1 and set(found) <= possible


def _possible(before: set[int], highest: int, numbered: list[tuple[int, bool]], count: int) -> list[tuple[int, ...]]:
    """Every set of so many numbers that can have been there: who is there now was, once it had come."""
    found = []
    for come in range(highest, len(numbered) + 1):
        may = [n for n, _ in numbered if n <= come and (n in before or n > highest)]
        must = {n for n, is_there in numbered if is_there and n in may}
        found += [some for some in combinations(may, count) if must <= set(some)]
    return found
