"""What apply follows, as far as it is told by definitions alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.apply.following import unique_columns
from anabranch.model.schema import Column, Index
from rigs.chunks import INT, TEXT, followed, schema

SEATS = schema("seats", {"id": INT, "code": TEXT, "place": INT, "hall": INT}, ["id"])


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([], ()),
        ([Index("plain", ("code",))], ()),
        (
            [Index("beginning", ("code",), True, (10,)), Index("pair", ("place", "hall"), True)],
            ("code", "place", "hall"),
        ),
        ([Index("dropped", ("left_out", "hall"), True)], ("hall",)),
    ],
)
def test_rule_08_columns_of_the_sources_unique_keys_have_their_target_names(indexes, expected) -> None:
    table = replace(followed(SEATS).table, columns=("id", "code at the target", "place", "hall"))
    names = {"code": "code at the target"}
    found = unique_columns(replace(SEATS, indexes=tuple(indexes)), table)
    assert found == {names.get(name, name) for name in expected}


def test_rule_08_of_a_unique_key_s_computed_columns_what_they_are_computed_from() -> None:
    """Rows that take each other's values there are seen before the target has the key."""
    label = Column(
        "label", TEXT, "varchar(50)", generated=True, expression="concat(code,hall)", computed_from=("code", "hall")
    )
    told = replace(SEATS, columns=(*SEATS.columns, label), indexes=(Index("told", ("label",), True),))
    assert unique_columns(told, replace(followed(SEATS).table, computed=(("label", "label"),))) == {"code", "hall"}
