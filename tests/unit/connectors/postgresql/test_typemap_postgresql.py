"""The type table of the PostgreSQL target, row by row, and which existing columns take a type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.target.fits import takes
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget, CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType

TABLE = """
int8             -> smallint          widened
int16            -> smallint          exact
int32            -> integer           exact
int64            -> bigint            exact
uint8            -> smallint          widened
uint16           -> integer           widened
uint32           -> bigint            widened
uint64           -> numeric(20)       widened
decimal 65 30    -> numeric(65,30)    exact
float32          -> real              exact
float64          -> double precision  exact
text             -> text              exact
text(255)        -> varchar(255)      exact
text(16777215)   -> text              exact
binary(16)       -> bytea             widened
bit(64)          -> bit(64)           exact
date             -> date              exact
timestamp        -> timestamp(6)      exact
instant          -> timestamptz(6)    exact
duration         -> interval(6)       widened
year             -> smallint          widened
enum             -> text              exact
set              -> text              widened
json             -> jsonb             lossy
"""


def logical(text: str) -> LogicalType:
    name, *numbers = text.replace("(", " ").replace(")", "").split()
    if name == "decimal":
        return LogicalType(Kind.DECIMAL, precision=int(numbers[0]), scale=int(numbers[1]))
    return LogicalType(Kind(name), int(numbers[0]) if numbers else None)


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_type(line: str) -> None:
    left, right = (side.strip() for side in line.split("->"))
    native, fidelity = (part.strip() for part in right.rsplit(" ", 1))
    fit = PostgresTypes().fit(logical(left), ValueRules())
    assert (fit.native, fit.fidelity) == (native, fidelity)
    assert fit.reason or fit.fidelity == "exact"


def test_every_kind_has_a_type() -> None:
    for kind in Kind:
        for json in ("jsonb", "json", "text"):
            assert PostgresTypes().fit(LogicalType(kind, 4, 4, 2, native="date"), ValueRules(json=json)).native


def test_choices_that_lose_something_say_so() -> None:
    rules = ValueRules(zero_date="null", nul="strip", json="text")
    fit = PostgresTypes().fit
    assert fit(LogicalType(Kind.DATE), rules).fidelity == "lossy"
    assert fit(LogicalType(Kind.TEXT, 10), rules).native == "varchar(10)"
    assert "zero_date" in fit(LogicalType(Kind.DATE), rules).reason
    assert "nul" in fit(LogicalType(Kind.TEXT), rules).reason
    assert fit(LogicalType(Kind.JSON), rules).native == "text"


@pytest.mark.parametrize(
    ("existing", "wanted", "yes"),
    [
        ("integer", "integer", True),
        ("bigint", "integer", True),
        ("smallint", "integer", False),
        ("text", "varchar(20)", True),
        ("character varying(20)", "varchar(20)", True),
        ("character varying(19)", "varchar(20)", False),
        ("character varying", "varchar(20)", True),
        ("character varying(20)", "text", False),
        ("character(20)", "varchar(20)", False),
        ("numeric", "numeric(10,2)", True),
        ("numeric(12,2)", "numeric(10,2)", True),
        ("numeric(12,3)", "numeric(10,2)", False),
        ("numeric(20,0)", "numeric(20)", True),
        ("numeric(19,0)", "numeric(20)", False),
        ("bit(4)", "bit(5)", False),
        ("bit(5)", "bit(5)", True),
        ("timestamp(6) without time zone", "timestamp(0)", True),
        ("timestamp without time zone", "timestamp(6)", True),
        ("timestamp(3) without time zone", "timestamp(6)", False),
        ("timestamp with time zone", "timestamp(6)", False),
        ("timestamp with time zone", "timestamptz(6)", True),
        ("json", "jsonb", False),
        ("shop.mood", "text", False),
    ],
)
def test_existing_column_takes(existing: str, wanted: str, yes: bool) -> None:
    assert takes(existing, wanted) is yes


CHOICES = """
int8        as boolean          -> exact
uint64      as bigint           -> exact    stops the job
uint64      as numeric          -> widened
uint32      as integer          -> exact    stops the job
int16       as integer          -> exact
text(36)    as uuid             -> lossy    lower case
bit(1)      as boolean          -> exact
bit(2)      as boolean          -> refused  possible: varbit, text
int16       as boolean          -> refused  possible: smallint, integer, bigint, numeric, text
int8        as money            -> refused  possible: smallint, integer, bigint, numeric, text, boolean
decimal 9 2 as bigint           -> refused  possible: numeric, double precision, text
decimal 9 0 as bigint           -> exact
timestamp   as timestamptz      -> widened  UTC
duration    as time             -> exact    24 hours
binary(16)  as uuid             -> refused  possible: none
geometry    as geometry         -> refused  [target.options] geometry
vector      as vector           -> refused  [target.options] vector
"""


@pytest.mark.parametrize("line", CHOICES.strip().splitlines())
def test_a_choice_of_the_job(line: str) -> None:
    left, right = (side.strip() for side in line.split("->"))
    kind, target = left.split(" as ")
    fidelity, _, reason = right.partition(" ")
    fit = PostgresTypes().fit(replace(logical(kind), target=target.strip()), ValueRules())
    assert (fit.native, fit.fidelity) == (target.strip(), fidelity)
    assert reason.strip() in fit.reason


def test_settings_for_extensions() -> None:
    types, rules = PostgresTypes(), ValueRules(geometry="geometry", vector="vector")
    assert types.fit(LogicalType(Kind.GEOMETRY, target="geometry"), rules).native == "geometry"
    assert types.fit(LogicalType(Kind.VECTOR, length=3, target="vector"), rules).native == "vector(3)"
    unsized = types.fit(LogicalType(Kind.VECTOR, target="vector"), rules)
    assert (unsized.native, unsized.fidelity) == ("vector", "widened")
    assert takes("geometry", "geometry") and not takes("geometry(Point,4326)", "geometry")
    assert takes("vector(3)", "vector(3)") and not takes("vector(4)", "vector(3)") and takes("vector", "vector(3)")


@pytest.mark.parametrize(
    ("type", "text", "canonical"),
    [
        (LogicalType(Kind.TEXT, 36, target="uuid"), TextForm.LOWER_CASE, CanonicalForm.UUID),
        (LogicalType(Kind.GEOMETRY, target="geometry"), TextForm.BARE_DIGITS, CanonicalForm.OF_KIND),
        (LogicalType(Kind.GEOMETRY), TextForm.OF_KIND, CanonicalForm.OF_KIND),
        (LogicalType(Kind.VECTOR, 3, target="vector"), TextForm.BRACKETS, CanonicalForm.OF_KIND),
        (LogicalType(Kind.JSON), TextForm.OF_KIND, CanonicalForm.JSON_VALUES),
        (LogicalType(Kind.JSON, target="json"), TextForm.OF_KIND, CanonicalForm.OF_KIND),
        (LogicalType(Kind.TEXT, target="jsonb"), TextForm.OF_KIND, CanonicalForm.JSON_VALUES),
        (LogicalType(Kind.TEXT, target="json"), TextForm.OF_KIND, CanonicalForm.JSON_TEXT),
        (
            LogicalType(Kind.DECIMAL, None, 9, 2, target="double precision"),
            TextForm.OF_KIND,
            CanonicalForm.FLOAT64_WITHOUT_SIGN,
        ),
        (LogicalType(Kind.FLOAT32, target="numeric"), TextForm.OF_KIND, CanonicalForm.FLOAT32_WITHOUT_SIGN),
        (LogicalType(Kind.FLOAT32, target="double precision"), TextForm.OF_KIND, CanonicalForm.OF_KIND),
        (LogicalType(Kind.NATIVE, native="real[]"), TextForm.OF_KIND, CanonicalForm.FLOATS32),
        (LogicalType(Kind.NATIVE, native="circle"), TextForm.OF_KIND, CanonicalForm.FLOATS64),
        (LogicalType(Kind.NATIVE, native="jsonb"), TextForm.OF_KIND, CanonicalForm.OF_KIND),
    ],
)
def test_what_values_look_like_there(type: LogicalType, text: TextForm, canonical: CanonicalForm) -> None:
    found = PostgresTypes().at_target(type, ValueRules())
    assert (found.text, found.canonical) == (text, canonical)


def test_what_else_of_a_chosen_type_counts() -> None:
    def chosen(target: str) -> AtTarget:
        return PostgresTypes().at_target(LogicalType(Kind.INT32, target=target), ValueRules())

    assert chosen("text").sorts_as_text and not chosen("numeric").sorts_as_text and not chosen("").sorts_as_text
    assert chosen("").keeps_whole and chosen("bigint").keeps_whole and not chosen("text").keeps_whole


def test_a_setting_chooses_for_a_whole_kind_and_says_so_to_the_load() -> None:
    rules = ValueRules(geometry="geometry")
    assert PostgresTypes().by_setting(Kind.GEOMETRY, rules) == "geometry"
    assert {PostgresTypes().by_setting(kind, rules) for kind in Kind if kind is not Kind.GEOMETRY} == {""}
