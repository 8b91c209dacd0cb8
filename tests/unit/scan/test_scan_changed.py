"""Which values of rows came back as others, and how findings are gathered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.rows.refused import read_refusal, refused
from anabranch.scan.changed import Comparable, differing
from anabranch.scan.report import KEYS, Finding, Outcome, ScanReport, TableScan, gathered, key_text

TABLE = TableId("shop", "note")
INT, TEXT, JSON = LogicalType(Kind.INT32), LogicalType(Kind.TEXT), LogicalType(Kind.JSON)


def table(*types: LogicalType, key: bool = True) -> TargetTable:
    asked = [replace(type, at_target=PostgresTypes().at_target(type, ValueRules())) for type in types]
    names = tuple(f"c{n}" for n in range(len(types)))
    return TargetTable(TABLE, TABLE, names, tuple(asked), names[:1] if key else (), names)


def found(made: TargetTable, sent: bytes, came: bytes) -> list[tuple[bytes, list[int]]]:
    rows = Comparable(made).rows
    return list(differing(made, rows(sent), rows(came)))


@pytest.mark.parametrize(
    ("sent", "came", "is_same"),
    [
        (b'{"b": 1, "a": [1.50, 2e1]}', b'{"a": [1.5, 20], "b": 1}', True),
        (b"[-0.0]", b"[0.0]", False),
        (b"[0]", b"[0.0]", True),
        (b'{"a": 1, "a": 2}', b'{"a": 2}', False),
        (b"[1e400]", b"[1" + b"0" * 400 + b"]", True),
        (b'"1"', b"1", False),
    ],
)
def test_json_changes_only_if_its_values_do(sent: bytes, came: bytes, is_same: bool) -> None:
    differ = found(table(INT, JSON), b"1\t" + sent + b"\n", b"1\t" + came + b"\n")
    assert [places for _, places in differ] == ([] if is_same else [[1]])


def test_a_row_is_looked_for_by_its_key() -> None:
    made = table(INT, TEXT, TEXT)
    assert found(made, b"1\ta\tb\n2\tc\td\n", b"2\tc\td\n1\ta\tB\n") == [(b"1\ta\tb", [2])]
    assert found(made, b"1\ta\tb\n", b"2\ta\tb\n") == [(b"1\ta\tb", [0, 1, 2])]
    assert found(table(INT, TEXT, key=False), b"1\ta\n1\ta\n", b"1\ta\n") == [(b"1\ta", [0, 1])]


def test_findings_that_say_the_same_are_one() -> None:
    one = Finding(TABLE, Outcome.REFUSED, "t", "it is too long", keys=("id=1",))
    (both,) = gathered([one] * 7)
    assert (both.rows, len(both.keys)) == (7, KEYS) and both.message.startswith(
        "7 rows, column t: it is too long; key id=1"
    )
    assert len(gathered([one, replace(one, column="u"), replace(one, outcome=Outcome.CHANGED)])) == 3
    assert replace(one, is_least=True).message.startswith("at least 1 row,")
    report = ScanReport("job", [TableScan(TABLE, 7, not_seen=("its keys",))], [both])
    assert [result.check for result in report.results()] == ["scan.refused", "scan.not_seen", "scan.read"]
    assert report.refuses and report.to_json()["findings"][0]["rows"] == 7


def test_a_key_is_shown_in_one_short_line() -> None:
    assert key_text(("a", "b"), ("1", None)) == "a=1, b=NULL"
    assert len(key_text(("a",), ("x\n" * 100,))) == 80 and "\n" not in key_text(("a",), ("x\n",))


def test_a_refusal_is_read_back() -> None:
    told = refused(TABLE, "body", {"id": "7", "k": "a holds b"}, "a zero character in text")
    assert read_refusal(told.message)[0] == "body" and read_refusal(told.message)[2].endswith(
        "a zero character in text"
    )
    assert read_refusal(refused(TABLE, "body", {}, "what").message) == ("body", "", "what")
    assert read_refusal("something else") == ("", "", "something else")
