"""What apply follows, as far as it is told by definitions alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.apply.following import unique_keys
from anabranch.model.schema import Column, Index
from anabranch.rows.keys import UniqueKey
from rigs.chunks import INT, TEXT, followed, schema


def key(*columns: str, is_plain: bool = True) -> UniqueKey:
    return UniqueKey(frozenset(columns), is_plain)


SEATS = schema("seats", {"id": INT, "code": TEXT, "place": INT, "hall": INT}, ["id"])


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([], set()),
        ([Index("plain", ("code",))], set()),
        (
            [Index("beginning", ("code",), True, (10,)), Index("pair", ("place", "hall"), True)],
            {key("code at the target", is_plain=False), key("place", "hall")},
        ),
        ([Index("dropped", ("left_out", "hall"), True)], {key("hall", is_plain=False)}),
        ([Index("special", ("place",), True, definition="(abs(place))")], {key("place", is_plain=False)}),
    ],
)
def test_rule_08_the_sources_unique_keys_have_target_names(indexes: list[Index], expected: set[UniqueKey]) -> None:
    table = replace(followed(SEATS).table, columns=("id", "code at the target", "place", "hall"))
    assert unique_keys(replace(SEATS, indexes=tuple(indexes)), table) == expected


def test_rule_08_of_a_unique_key_s_computed_columns_what_they_are_computed_from() -> None:
    """Rows that take each other's values there are seen before the target has the key."""
    label = Column(
        "label", TEXT, "varchar(50)", generated=True, expression="concat(code,hall)", computed_from=("code", "hall")
    )
    told = replace(SEATS, columns=(*SEATS.columns, label), indexes=(Index("told", ("label",), True),))
    table = replace(followed(SEATS).table, computed=(("label", "label"),))
    assert unique_keys(told, table) == {key("code", "hall", is_plain=False)}
