"""Words of two sites about rows: read as it was written, and refused where it is anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from anabranch.contracts import ValueRules
from anabranch.errors import SourceError, TrailCorrupt
from anabranch.model.at_target import AtTarget, CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import Canonical
from anabranch.verify.digest import BUCKETS, Summing, Sums, bucket_of, key_of
from anabranch.verify.plan import VerifyPiece, VerifyTable
from anabranch.verify.told import Asked, Digesting, Told, refuse_foreign

NAME = TableId("shop", "orders")
TYPES = {
    "id": LogicalType(Kind.INT32),
    "price": LogicalType(Kind.FLOAT64),
    "said": LogicalType(Kind.JSON, at_target=AtTarget(canonical=CanonicalForm.JSON_VALUES)),
    "note": LogicalType(Kind.TEXT),
}
SCHEMA = TableSchema(
    id=NAME, columns=tuple(Column(name, kind.kind.value, kind) for name, kind in TYPES.items()), primary_key=("id",)
)
TABLE = TargetTable(NAME, TableId("public", "o"), ("a", "b", "c", "d"), tuple(TYPES.values()), ("a",), tuple(TYPES))
ONE = VerifyTable(SCHEMA, TABLE)
RULES = ValueRules(
    zero_date="null",
    keeps_nul=True,
    texts=((Kind.TEXT, TextForm.LOWER_CASE),),
    zero_dates=(("shop.orders", "at", "1000-01-01"),),
)
THERE = b'1\t1e0\t{"b": 1.50, "a": 2}\tx\n2\t0.5\t[]\t\\N\n'
HERE = b'1\t1\t{"a":2,"b":1.5}\tx\n2\t.5\t[]\t\\N\n'


def travelled(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(data))
    return found


def digested(one: VerifyTable, block: bytes) -> list[tuple[bytes, bytes]]:
    none: Any = None
    work = Digesting(none, none, ValueRules(), buckets=frozenset(range(BUCKETS)))
    return work.finish(VerifyPiece(one, place="p"), b"", iter([block]))


def test_rule_25_the_source_site_sums_up_rows_as_the_target_site_does() -> None:
    """By what is asked alone: names of columns at the source and the forms in which they are compared."""
    asked = Asked.from_json(travelled(Asked.of(ONE, RULES, [3, 7]).to_json()))
    assert asked == Asked.of(ONE, RULES, [3, 7]) and asked.rules == RULES and asked.buckets == {3, 7}
    there = asked.table(SCHEMA)
    none: Any = None
    work = Summing(none, none, ValueRules())
    sums = [work.finish(VerifyPiece(one, place="p"), b"", iter([rows])) for one, rows in ((there, THERE), (ONE, HERE))]
    assert sums[0].differing(sums[1]) == [] and int(sums[0].rows.sum()) == 2
    assert digested(there, THERE) == digested(ONE, HERE)
    other = digested(ONE, HERE.replace(b".5\t[]", b".25\t[]"))
    assert [a == b for a, b in zip(digested(there, THERE), other, strict=True)] == [True, False]


def test_a_site_of_the_release_before_is_not_told_of_what_does_not_matter_to_it() -> None:
    """It refuses a rule that it does not know, and has to where it matters."""
    kept, refused = (Asked.of(ONE, replace(RULES, keeps_nul=one)).to_json()["rules"] for one in (True, False))
    assert set(kept) - set(refused) == {"keeps_nul"}
    assert Asked.from_json(travelled(Asked.of(ONE, replace(RULES, keeps_nul=False)).to_json())).rules.keeps_nul is False


def test_rows_of_some_buckets_are_told_and_without_a_key_no_value_of_them() -> None:
    keyless = replace(ONE, table=replace(TABLE, key=()))
    assert [key for key, _ in digested(keyless, HERE)] == [b"", b""]
    first = bucket_of(b"1")
    none: Any = None
    some = Digesting(none, none, ValueRules(), buckets=frozenset({first}))
    assert [key for key, _ in some.finish(VerifyPiece(ONE, place="p"), b"", iter([HERE]))] == [b"1"]


def test_answers_are_read_as_they_were_written() -> None:
    sums = Sums()
    sums.add_rows(Canonical(TABLE).rows(HERE), key_of(TABLE))
    told = Told.from_json(travelled(Told(3, 9, sums).to_json()))
    assert (told.low, told.high) == (3, 9) and told.sums is not None and told.sums.differing(sums) == []
    rows = digested(ONE, HERE)
    assert Told.from_json(travelled(Told(3, 9, rows=rows).to_json())).rows == rows
    assert Told.from_json(travelled(Told(3, 9).to_json())).rows == []


@pytest.mark.parametrize(
    "damage",
    [
        {"low": "x"},
        {"sums": "no base64"},
        {"sums": ""},
        {"keys": "eJwDAAAAAAE="},
        {"digests": None},
    ],
    ids=str,
)
def test_a_damaged_answer_is_refused(damage: dict[str, Any]) -> None:
    told = travelled(Told(3, 9, rows=digested(ONE, HERE)).to_json()) | damage
    with pytest.raises(TrailCorrupt, match="an answer about rows"):
        Told.from_json(told)


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": []},
        {"columns": [["id", "unheard of"]]},
        {"key": [9]},
        {"key": None},
        {"buckets": [BUCKETS]},
        {"rules": {"unheard": "of"}},
        {"rules": {"texts": [["text", "unheard of"]]}},
        {"version": None},
    ],
    ids=str,
)
def test_a_question_that_is_not_understood_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="not understood here"):
        Asked.from_json(travelled(Asked.of(ONE, RULES).to_json()) | damage)


@pytest.mark.parametrize(
    ("changed", "dropped", "why"),
    [
        ({"version": 2}, (), "its definition is number 1 here, 2 where the trail is applied"),
        ({"columns": (("gone", CanonicalForm.AS_IT_IS),), "key": ()}, (), "it has no columns gone here"),
        ({}, ("note",), "the job file here drops note"),
        ({"key": (3,)}, (), "note are in no key of it"),
        ({"rules": replace(RULES, nul="strip")}, (), "say the same of nul"),
    ],
)
def test_what_the_source_site_does_not_tell(changed: dict[str, Any], dropped: tuple[str, ...], why: str) -> None:
    asked = Asked.of(ONE, RULES)
    refuse_foreign(asked, SCHEMA, (), RULES, NAME)
    with pytest.raises(SourceError, match=why):
        refuse_foreign(replace(asked, **changed), SCHEMA, dropped, RULES, NAME)
