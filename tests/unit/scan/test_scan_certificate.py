"""A certificate says which pairs were not tried, and does not call them fine."""

from __future__ import annotations

from unittest.mock import MagicMock

import pymysql
import pytest

from anabranch.connectors.mysql.source.drawn_values import _is_put
from anabranch.errors import AnabranchError
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.scan.certificate import Certificate, PairSeen, TypePair

INT = LogicalType(Kind.INT32)
TABLE = TableId("shop", "note")
EXACT = TypePair(TableSchema(TABLE, (Column("v", INT, "int"),), ()), "v", INT, Fit("integer", Fidelity.EXACT), ("v",))
REFUSED = TypePair(EXACT.schema, "v", INT, Fit("", Fidelity.REFUSED, "no such type"), ("v",))


@pytest.mark.parametrize(
    ("seen", "words", "is_untried", "is_worse"),
    [
        (PairSeen(EXACT, 9), "all came back", False, False),
        (PairSeen(EXACT, 9, 8), "all came back", False, False),
        (PairSeen(EXACT, 9, 9), "not tried", True, False),
        (PairSeen(EXACT), "not tried", True, False),
        (PairSeen(EXACT, why="no right"), "not tried", True, False),
        (PairSeen(EXACT, 9, changed=2, why="the reader ended"), "2 changed, then not tried", True, True),
        (PairSeen(REFUSED, why="no such type"), "not tried", False, False),
    ],
)
def test_pairs_that_were_not_tried_are_told(seen: PairSeen, words: str, is_untried: bool, is_worse: bool) -> None:
    assert (seen.seen, seen.is_untried, seen.is_worse) == (words, is_untried, is_worse)
    page = Certificate("job", "MySQL", "PostgreSQL", "now", 7, "1", (seen, PairSeen(EXACT, 9)))
    assert page.untried == is_untried and page.to_json()["untried"] == is_untried
    assert ("1 of 2 pairs were not tried" in page.markdown()) == is_untried
    assert ("No pair fares worse" in page.markdown()) == (not is_untried and not is_worse)


def test_only_errors_about_values_say_that_a_column_does_not_take_one() -> None:
    cursor = MagicMock()
    for error in (pymysql.err.DataError(1264, "out of range"), pymysql.err.OperationalError(1292, "wrong value")):
        cursor.execute.side_effect = error
        assert not _is_put(cursor, TABLE, 1, "x")
    for number in (1114, 1205, 1290, 2013):
        cursor.execute.side_effect = pymysql.err.OperationalError(number, "no room")
        with pytest.raises(AnabranchError):
            _is_put(cursor, TABLE, 1, "x")
