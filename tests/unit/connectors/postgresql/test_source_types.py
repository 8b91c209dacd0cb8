"""The types of a PostgreSQL source: which kind each has, and that naming a kind changes nothing for another PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source.native_rows import _name as compiled_name
from anabranch.connectors.postgresql.source.text_values import array_of_text
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Kind, LogicalType, Special
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.arrow import arrow_type
from anabranch.rows.fingerprint import Form, form_of
from anabranch.rows.lines import lines, texts

KEPT = Path(__file__).parents[3] / "upgrade/before_0.1.0/from_postgresql/home/trail/history"
NAN, INFINITIES, BC = Special.NAN, Special.INFINITIES, Special.BEFORE_CHRIST
# as format_type() spells it -> kind, parameters, values that the kind alone does not have
PRINTED: dict[str, tuple[Kind, dict[str, int], tuple[Special, ...]]] = {
    "boolean": (Kind.BOOLEAN, {}, ()),
    "numeric": (Kind.DECIMAL, {}, (NAN, INFINITIES)),
    "numeric(12,2)": (Kind.DECIMAL, {"precision": 12, "scale": 2}, (NAN,)),
    "numeric(1000,0)": (Kind.DECIMAL, {"precision": 1000}, (NAN,)),
    "numeric(3,-2)": (Kind.DECIMAL, {"precision": 3, "scale": -2}, (NAN,)),
    "numeric(3,5)": (Kind.DECIMAL, {"precision": 3, "scale": 5}, (NAN,)),
    "bit(8)": (Kind.BIT, {"length": 8}, ()),
    "bit(100)": (Kind.BIT, {"length": 100}, ()),
    "date": (Kind.DATE, {}, (INFINITIES, BC)),
    "time without time zone": (Kind.TIME, {}, ()),
    "time(0) without time zone": (Kind.TIME, {"fraction": 0}, ()),
    "timestamp without time zone": (Kind.TIMESTAMP, {}, (INFINITIES, BC)),
    "timestamp(3) without time zone": (Kind.TIMESTAMP, {"fraction": 3}, (INFINITIES, BC)),
    "timestamp with time zone": (Kind.INSTANT, {}, (INFINITIES, BC)),
    "timestamp(0) with time zone": (Kind.INSTANT, {"fraction": 0}, (INFINITIES, BC)),
    "interval": (Kind.INTERVAL, {}, (INFINITIES,)),
    "interval(2)": (Kind.INTERVAL, {"fraction": 2}, (INFINITIES,)),
    "interval year to month": (Kind.INTERVAL, {}, (INFINITIES,)),
    "interval day to second(3)": (Kind.INTERVAL, {"fraction": 3}, (INFINITIES,)),
    "json": (Kind.JSON, {}, ()),
    "jsonb": (Kind.JSON, {}, ()),
}
NATIVE = (
    *(
        "numeric(12,2)[]",
        "date[]",
        "boolean[]",
        '"bit"',
        "bit varying(8)",
        "time with time zone",
        "character(3)",
        "money",
    ),
    *("inet", "point", "int4range", "public.mood", '"numeric"', "public.date", "intervals", "xml", "name", '"char"'),
)
EVERY = (*PRINTED, *NATIVE, "integer", "double precision", "character varying(20)", "uuid")
RULES = (ValueRules(), ValueRules(json="text"), ValueRules(zero_date="null", nul="strip"))


def before(native: str) -> LogicalType:
    """As the release before had it."""
    return LogicalType(Kind.NATIVE, native=native)


@pytest.mark.parametrize("native", PRINTED)
def test_a_type_that_others_have_too_gets_its_kind(native: str) -> None:
    kind, sizes, specials = PRINTED[native]
    found = logical_type(native)
    sizes = {"fraction": 6, "precision": 0, "scale": 0} | sizes
    assert (found.kind, found.native, found.printed, found.specials) == (kind, native, True, specials)
    assert {name: getattr(found, name) for name in sizes} == sizes


@pytest.mark.parametrize("native", NATIVE)
def test_all_others_stay_native(native: str) -> None:
    assert logical_type(native).kind is Kind.NATIVE


@pytest.mark.parametrize("native", PRINTED)
def test_to_another_postgresql_nothing_changes_by_the_kind(native: str) -> None:
    now, then = logical_type(native), before(native)
    for rules in RULES:
        assert PostgresTypes().fit(now, rules) == PostgresTypes().fit(then, rules)
        assert PostgresTypes().fit(now, rules).native == native
        assert PostgresTypes().at_target(now, rules) == PostgresTypes().at_target(then, rules) == AtTarget()
        for choice in ("text", "numeric", "timestamp"):
            chosen = (PostgresTypes().fit(replace(one, target=choice), rules) for one in (now, then))
            assert next(chosen) == next(chosen)
    assert arrow_type(now) == arrow_type(then) == pa.string()
    assert form_of(now) == form_of(then) == Form.TEXT
    assert str(now) == str(then) == native
    assert compiled_name(now) == compiled_name(then) == "utf8"


@pytest.mark.parametrize("native", PRINTED)
def test_printed_values_pass_to_the_letter(native: str) -> None:
    printed = ["NaN", "-infinity", "0044-03-15 BC", "24:00:00", '{"a":  1}', "1.50", "\\", None]
    array = array_of_text(
        logical_type(native), pa.array([text and text.encode() for text in printed], pa.large_binary())
    )
    assert texts(logical_type(native), array).to_pylist() == printed
    assert lines([logical_type(native)], [array]) == lines([before(native)], [array])


@pytest.mark.parametrize("native", EVERY)
def test_a_definition_reads_back_from_its_json(native: str) -> None:
    schema = schema_of(logical_type(native))
    found = TableSchema.from_json(schema.to_json())
    type = found.columns[0].type
    assert found == schema and type is not None
    assert all(
        getattr(type, name) == getattr(logical_type(native), name) for name in ("kind", "printed", "specials", "scale")
    )


@pytest.mark.parametrize("native", EVERY)
def test_a_definition_of_the_release_before_is_the_same(native: str) -> None:
    """A trail and a target's state of before say `native`: nothing has changed at the source."""
    if logical_type(native).printed:
        then, now = schema_of(before(native)), schema_of(logical_type(native))
        stored = then.to_json()["columns"][0]["type"]
        assert stored["kind"] == "native" and "printed" not in stored and "specials" not in stored
        assert TableSchema.from_json(then.to_json()).same_definition(now) and now.same_definition(then)
        assert then.reads_like(now) and now.reads_like(then) and hash(then) == hash(now)
    for other in set(EVERY) - {native}:
        assert not schema_of(before(native)).same_definition(schema_of(logical_type(other)))
        assert not schema_of(logical_type(native)).reads_like(schema_of(logical_type(other)))


@pytest.mark.parametrize("base", EVERY)
def test_a_domain_is_that_of_the_release_before_and_no_other_of_its_name(base: str) -> None:
    then, now = schema_of(logical_type("public.d")), schema_of(logical_type("public.d", base))
    assert "base" not in then.to_json()["columns"][0]["type"] and TableSchema.from_json(now.to_json()) == now
    assert then.same_definition(now) and now.same_definition(then) and now.same_definition(now)
    anew = schema_of(logical_type("public.d", "integer[]" if base != "integer[]" else "text"))
    assert not anew.same_definition(now) and anew.same_definition(then)


def test_a_domain_is_the_same_where_the_type_that_it_is_made_of_is_renamed_or_moved() -> None:
    def of(base: str, labels: tuple[str, ...] = ()) -> TableSchema:
        return schema_of(logical_type("public.d", base, labels=labels))

    assert of("public.mood", ("a", "b")).same_definition(of("x.feeling", ("a", "b")))
    assert of("public.citext").same_definition(of("x.citext"))
    assert not of("public.mood", ("a", "b")).same_definition(of("x.feeling", ("b", "a")))
    assert not of("json").same_definition(of("jsonb")) and not of("inet").same_definition(of("cidr"))
    assert not of("public.citext").same_definition(of("public.hstore"))


def test_definitions_that_a_release_before_has_left_are_those_of_today() -> None:
    kept = [json.loads(line.partition(" ")[2]) for line in KEPT.read_text().splitlines()]
    then = [TableSchema.from_json(entry["schema"]) for entry in kept if entry.get("schema")]
    now = [
        replace(one, columns=tuple(replace(c, type=c.type and logical_type(c.native)) for c in one.columns))
        for one in then
    ]
    renamed = {c.native for one, other in zip(then, now, strict=True) for c, d in zip(one.columns, other.columns, strict=True)
               if c.type and d.type and c.type.kind is not d.type.kind}  # fmt: skip
    assert renamed == {"numeric", "timestamp with time zone", "bit(5)", "interval", "date", "jsonb"}
    assert all(one.same_definition(other) and one.reads_like(other) for one, other in zip(then, now, strict=True))


def test_a_kind_whose_values_are_no_text_is_another_type() -> None:
    assert LogicalType(Kind.DATE) != logical_type("date") != LogicalType(Kind.DATE, native="date")


@pytest.mark.parametrize(
    ("type", "native", "fidelity"),
    [
        (LogicalType(Kind.DECIMAL, printed=True, specials=(NAN,)), "numeric", "exact"),
        (LogicalType(Kind.DECIMAL, None, 38, 10, printed=True), "numeric(38,10)", "exact"),
        (LogicalType(Kind.BOOLEAN), "boolean", "exact"),
        (LogicalType(Kind.TIME, fraction=3), "time(3)", "exact"),
        (LogicalType(Kind.INTERVAL), "interval(6)", "exact"),
        (LogicalType(Kind.TIMESTAMP, fraction=9, printed=True), "timestamp(6)", "refused"),
        (LogicalType(Kind.INSTANT, fraction=7, printed=True), "timestamptz(6)", "refused"),
    ],
)
def test_printed_types_of_another_database_are_chosen_by_their_kind(
    type: LogicalType, native: str, fidelity: str
) -> None:
    fit = PostgresTypes().fit(type, ValueRules())
    assert (fit.native, fit.fidelity) == (native, fidelity)


def schema_of(type: LogicalType) -> TableSchema:
    return TableSchema(TableId("s", "t"), (Column("c", type, type.native),))
