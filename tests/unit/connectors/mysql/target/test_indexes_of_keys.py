"""Foreign keys beside indexes that have their names (no server)."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.target.planned import PlannedKey
from anabranch.connectors.mysql.target.structures import ExistingIndex
from anabranch.model.ids import TableId

KEY = PlannedKey("k", TableId("s", "child"), ("a",), TableId("s", "parent"), ("id",), "")


def _index(name: str, *columns: str, prefix: int | None = None) -> ExistingIndex:
    return ExistingIndex(name, columns, (prefix,) * len(columns), (False,) * len(columns), False, "BTREE")


@pytest.mark.parametrize(
    ("indexes", "own"),
    [
        ((), False),
        ((_index("other", "b"),), False),
        ((_index("K", "A"),), False),
        ((_index("k", "b"), _index("x", "a", "b")), False),
        ((_index("k", "b"),), True),
        ((_index("K", "b", "a"),), True),
        ((_index("k", "a", prefix=3),), True),
    ],
)
def test_a_key_has_an_index_of_its_own_where_another_one_has_its_name(
    indexes: tuple[ExistingIndex, ...], own: bool
) -> None:
    added = KEY.beside(indexes).add
    assert added.endswith("ADD CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `s`.`parent` (`id`)")
    assert ("ADD INDEX `k_" in added) is own, added
