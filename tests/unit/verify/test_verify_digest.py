"""Digests, canonical forms, comparison and report of a verification: no server, no Spark."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import Canonical, as_written, by_value
from anabranch.verify.compare import Comparison
from anabranch.verify.digest import Sums, bucket_of, key_of
from anabranch.verify.report import Difference, Parked, SetAside, TableResult, Verification

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)


def table(types: list[LogicalType], key: tuple[str, ...] = ("a",)) -> TargetTable:
    names = tuple("abcdefgh"[: len(types)])
    return TargetTable(TableId("s", "t"), TableId("p", "t"), names, tuple(types), key, names)


def summed(rows: list[bytes], of: TargetTable) -> Sums:
    found = Sums()
    found.add_rows(rows, key_of(of))
    return found


def same(one: Sums, other: Sums) -> bool:
    return not one.differing(other)


ROWS = st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\t", b"").replace(b"\n", b"")), max_size=30)


@given(ROWS, ROWS)
def test_pitfall_48_equal_sums_mean_equal_multisets(one: list[bytes], other: list[bytes]) -> None:
    of = table([TEXT], key=())
    assert same(summed(one, of), summed(other, of)) == (sorted(one) == sorted(other))


@given(ROWS, st.integers(0, 30))
def test_sums_of_pieces_add_up_in_any_order(rows: list[bytes], cut: int) -> None:
    of = table([TEXT], key=())
    whole = summed(rows[cut:], of)
    whole.add(pickle.loads(pickle.dumps(summed(rows[:cut], of))))
    assert same(whole, summed(rows, of))
    assert whole.rows.sum() == len(rows)


@given(ROWS.filter(bool), st.integers(0, 29))
def test_the_buckets_that_differ_are_those_of_the_rows_that_do(rows: list[bytes], place: int) -> None:
    of = table([TEXT], key=())
    whole, less, row = summed(rows, of), list(rows), rows[place % len(rows)]
    less.remove(row)
    assert whole.differing(summed(less, of)) == [bucket_of(row)]


CELLS = st.binary(max_size=300).map(lambda cell: cell.replace(b"\t", b"").replace(b"\n", b""))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=20), st.sampled_from([(), ("a",), ("c",), ("c", "a")]))
def test_compiled_sums_of_lines_are_those_of_their_rows(cells: list[tuple[bytes, ...]], key: tuple[str, ...]) -> None:
    """Digests and buckets must not depend on what an executor has installed. Without compiled code both are Python's."""
    of, rows = table([TEXT, TEXT, TEXT], key=key), [b"\t".join(row) for row in cells]
    blocks = [b"".join(row + b"\n" for row in some) for some in (rows[:7], rows[7:])]
    found = Sums.of_lines(blocks, of)
    assert same(found, summed(rows, of))
    found.add(found)
    assert same(found, summed(rows * 2, of))


@pytest.mark.parametrize("block", [b"1\t2\t3\nno end", b"no cell of the key\n"])
def test_compiled_sums_refuse_what_are_no_lines_of_the_table(block: bytes) -> None:
    native = pytest.importorskip("anabranch_native", reason="the compiled code is not installed (make native)")
    compiled = native.RowSums([2], 16)
    with pytest.raises(ValueError, match="whole lines"):
        compiled.add(block)


def test_sums_that_run_over_are_sums() -> None:
    of = table([TEXT], key=())
    row, five = summed([b"x"], of), Sums()
    for _ in range(5):
        five.add(row)
    assert same(five, summed([b"x"] * 5, of))
    assert not same(five, summed([b"x"] * 4 + [b"y"], of))


def test_pitfall_48_duplicates_and_swaps_do_not_cancel() -> None:
    keyless, keyed = table([INT, TEXT], key=()), table([INT, TEXT])
    assert not same(summed([b"1\tx"] * 3, keyless), summed([b"1\tx"], keyless))
    assert not same(summed([b"1\tx"], keyless), summed([], keyless))
    assert not same(summed([b"1\tx", b"2\ty"], keyed), summed([b"1\ty", b"2\tx"], keyed))
    assert not same(summed([b"1\t\\N"], keyed), summed([b"1\t"], keyed))


def test_a_key_is_found_wherever_its_columns_stand() -> None:
    assert key_of(table([INT, TEXT, INT], key=("c", "a")))(b"1\tx\t2") == b"2\t1"
    assert key_of(table([INT, TEXT]))(b"1\tx") == b"1"
    assert key_of(table([INT, TEXT], key=()))(b"1\tx") == b"1\tx"


def at_target(type: LogicalType, rules: ValueRules) -> LogicalType:
    return replace(type, at_target=PostgresTypes().at_target(type, rules))


def canonical(kind: Kind, *texts: str, json_as: str = "jsonb", native: str = "") -> list[bytes]:
    block = "".join(f"1\t{text}\n" for text in texts).encode()
    made = Canonical(table([INT, at_target(LogicalType(kind, native=native), ValueRules(json=json_as))]))
    return [row.split(b"\t")[1] for row in made.rows(block)]


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        (Kind.FLOAT64, ["1e300", "1E+300"]),
        (Kind.FLOAT64, ["inf", "Infinity"]),
        (Kind.FLOAT64, ["-0", "-0.0"]),
        (Kind.FLOAT64, ["nan", "NaN"]),
        (Kind.FLOAT32, ["16777216", "16777217", "1.6777216e+07"]),
        (Kind.FLOAT32, ["0.1", "0.10000000149011612"]),
        (Kind.TEXT, ["a\bb\fc\vd", r"a\bb\fc\vd"]),
        (Kind.JSON, ['{"a": 1, "b": [1.50, 1e2]}', '{"b":[1.5,100],"a":1.0}']),
        (Kind.JSON, ['"\\\\u00e9"', '"é"']),
        (Kind.JSON, ['{"a":1,"a":2}', '{"a": 2}']),
        (Kind.JSON, ["-0", "0", "0.00"]),
    ],
)
def test_texts_of_one_value_are_one(kind: Kind, same: list[str]) -> None:
    assert len(set(canonical(kind, *same))) == 1


@pytest.mark.parametrize(
    ("native", "same", "different"),
    [
        ("point", ["(1.0000000000000001e-05,-0)", "(1e-05,-0)"], ["(1e-05,-0)", "(1e-05,0)", "(NaN,Infinity)", "(1,2)"]),
        ("box[]", ["{(3,4),(0.10000000000000001,2)}", "{(3,4),(0.1,2)}"], ["{(3,4),(1,2)}", "{(3,4);(1,2)}"]),
        ("circle", ["<(1,2),0.20000000000000001>", "<(1,2),0.2>"], ["<(1,2),0.2>", "<(1,2),0.20000000000000004>"]),
        ("real[]", ["{0.100000001,NULL}", "{0.1,NULL}"], ["{0.1,NULL}", "{0.10000001,NULL}", "{NaN,NULL}", "{-Infinity}"]),
        ("double precision[]", ["[0:1]={1e+23,1}", "[0:1]={9.9999999999999992e+22,1}"], ["{1,2}", "[0:1]={1,2}", "{12}"]),
        ("numeric[]", ["{1.0}"], ["{1.0}", "{1.00}"]),
    ],
)  # fmt: skip
def test_digits_that_only_some_releases_print_are_no_difference(
    native: str, same: list[str], different: list[str]
) -> None:
    assert len(set(canonical(Kind.NATIVE, *same, native=native))) == 1
    assert len(set(canonical(Kind.NATIVE, *different, native=native))) == len(different)


@pytest.mark.parametrize(
    ("kind", "different"),
    [
        (Kind.FLOAT64, ["0", "-0"]),
        (Kind.FLOAT64, ["0.1", "0.10000000000000002"]),
        (Kind.FLOAT32, ["16777216", "16777218"]),
        (Kind.TEXT, ["\\\\b", "\b"]),
        (Kind.JSON, ["1", '"1"', "null", "\\N", "true", "[1]", '{"#": "1e0"}', '{"": 1}', "oops"]),
        (Kind.JSON, ["12345678901234567890123456789.1", "12345678901234567890123456789.2"]),
        (Kind.JSON, ["[1,2]", "[2,1]"]),
    ],
)
def test_texts_of_different_values_stay_different(kind: Kind, different: list[str]) -> None:
    assert len(set(canonical(kind, *different))) == len(different)


def test_json_that_stays_text_keeps_its_numbers_and_order() -> None:
    assert as_written('{"b":1.0, "a":[ 2 ]}') == as_written('{ "b" : 1.0,"a":[2]}')
    assert as_written('{"b":1.0,"a":2}') != as_written('{"a":2,"b":1.0}')
    assert as_written("1.0") != as_written("1.00") and by_value("1.0") == by_value("1.00")
    assert as_written('{"a":1,"a":2}') != as_written('{"a":2}')


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_canonical_json_is_equal_only_for_equal_values(one: Any, other: Any) -> None:
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (by_value(json.dumps(one)) == by_value(json.dumps(other, indent=1))) == equal


def compare(of: TargetTable, source: list[bytes], target: list[bytes], **options: Any) -> Any:
    options = {"limit_keys": 10, "show_values": False} | options
    return Comparison({of.source: of}, **options).compare(of, source, target)


def test_rows_of_a_bucket_are_paired_by_key() -> None:
    of = table([INT, TEXT, TEXT])
    found = compare(of, [b"1\tx\ty", b"2\tx\ty", b"3\tx\ty"], [b"1\tx\ty", b"2\tz\ty", b"4\tx\t\\N"])
    assert (found.missing, found.extra, found.different) == (1, 1, 1)
    assert found.sample == (
        Difference("different", {"a": "2"}, ("b",)),
        Difference("missing", {"a": "3"}),
        Difference("extra", {"a": "4"}),
    )
    shown = compare(of, [b"2\tx\t\\N"], [b"2\ta\\tb\t"], show_values=True).sample[0]
    assert shown.values == {"b": ("x", "a\tb"), "c": (None, "")}


def test_rows_without_a_key_are_counted() -> None:
    found = compare(table([INT], key=()), [b"1"] * 5 + [b"2"], [b"1"] * 3 + [b"3"])
    assert (found.missing, found.extra, found.different) == (3, 1, 0)
    assert {(d.kind, d.copies) for d in found.sample} == {("missing", (5, 3)), ("missing", (1, 0)), ("extra", (0, 1))}


def test_only_so_many_keys_are_shown() -> None:
    rows = [f"{n}\tx".encode() for n in range(50)]
    found = compare(table([INT, TEXT]), rows, [], limit_keys=7)
    assert found.missing == 50 and len(found.sample) == 7


def test_buckets_do_not_depend_on_the_process() -> None:
    assert bucket_of(b"1") == 4023


def test_a_report_says_what_and_how_much() -> None:
    differences = tuple(Difference("missing", {"id": str(n)}) for n in range(12))
    found = Verification(
        (
            TableResult("s.a", "p.a", 5, 5, True),
            TableResult("s.b", "p.b", 20, 9, False, missing=12, extra=1, is_complete=False, sample=differences),
        ),
        (Parked("s.c", "ALTER TABLE c"),),
    )
    shown = io.StringIO()
    found.write(shown)
    text = shown.getvalue()
    assert "identical  s.a -> p.a: 5 rows" in text
    assert (
        "DIFFERENT  s.b -> p.b: 20 rows at the source, 9 at the target; at least 12 missing, at least 1 extra" in text
    )
    assert "missing   id=0" in text and "2 more" in text and "parked     s.c: ALTER TABLE c" in text
    assert text.endswith("identical: 1 of 2 tables, 1 parked\n")
    assert found.exit_code == 4 and json.loads(json.dumps(found.to_json()))["tables"][1]["missing"] == 12
    assert Verification(found.tables[:1], found.parked).exit_code == 8 and Verification(found.tables[:1]).exit_code == 0


def test_rows_that_are_set_aside_are_differences_that_are_known() -> None:
    """Exit 8 as long as nothing else differs, and all of what differs was seen."""
    differences = (Difference("missing", {"id": "1"}), Difference("different", {"id": "2"}, ("price",)))
    differs = TableResult("s.b", "p.b", 20, 19, False, missing=1, different=1, sample=differences)
    known = (SetAside("s.b", 3, ({"id": "1"}, {"id": "2"}, {"id": "2"})),)
    found = Verification((differs,), set_aside=known)
    assert found.exit_code == 8 and not found.identical
    assert found.summary == "identical: 0 of 1 tables, 3 row changes set aside"
    assert json.loads(json.dumps(found.to_json()))["set_aside"][0]["keys"][0] == {"id": "1"}
    for other in (
        replace(differs, missing=2),
        replace(differs, is_complete=False),
        replace(differs, source="s.c"),
        TableResult("s.b", "p.b", 20, 20, False),  # equal by the second reading: nobody knows what differed
        replace(differs, sample=(*differences[:1], Difference("extra", {"id": "3"}))),
    ):
        assert replace(found, tables=(other,)).exit_code == 4
    equal = TableResult("s.b", "p.b", 20, 20, True)
    shown = io.StringIO()
    replace(found, tables=(equal,)).write(shown)
    assert replace(found, tables=(equal,)).exit_code == 8
    assert "set aside  s.b: 3 row changes, anabranch parked show JOB s.b" in shown.getvalue()
