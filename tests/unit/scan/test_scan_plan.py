"""Which keys of a table a scan looks at as a whole, and which of them it says it does not."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import MagicMock

from anabranch.model.schema import Index
from anabranch.scan.plan import ALL, ScanTable, plan
from rigs.postgresql_load import CUSTOMER, CUSTOMERS


def test_unique_keys_that_are_more_than_columns_are_told() -> None:
    indexes = (
        Index("whole", ("name",), True),
        Index("start", ("name",), True, prefixes=(3,)),
        Index("some", ("name",), True, definition="(name) WHERE id > 3"),
        Index("lower", (), True, kind="functional", parts=("lower(`name`)",)),
        Index("left_out", ("gone",), True, prefixes=(3,)),
        Index("loose", ("name",), prefixes=(3,)),
    )
    source = MagicMock()
    source.snapshot.return_value.estimate.return_value = 1
    source.snapshot.return_value.bounds.return_value = [ALL]
    text = replace(CUSTOMER, source_columns=CUSTOMER.columns)
    (found,) = plan(source, [ScanTable(replace(CUSTOMERS, indexes=indexes), text)], None, "")
    assert [piece.key for piece in found.pieces] == [(), ("name",)]
    assert [next(i.name for i in indexes if f"key {i.name}:" in line) for line in found.not_seen] == [
        "start",
        "some",
        "lower",
    ]
