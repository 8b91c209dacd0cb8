"""The type tables of the MySQL target, row by row, for both families; the SQL of single terms is in the live tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.typemap import NativeType
from anabranch.connectors.mysql.source.typemap import logical_type as own_type
from anabranch.connectors.mysql.target import choices
from anabranch.connectors.mysql.target.collations import by_bytes, collating, is_deterministic, pads
from anabranch.connectors.mysql.target.terms import assignment, is_plain, uses
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.contracts import ValueRules
from anabranch.model.at_target import CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column

RULES = ValueRules(json="json")

OWN = """
int8             -> tinyint             exact
int16            -> smallint            exact
int32            -> int                 exact
int64            -> bigint              exact
uint8            -> tinyint unsigned    exact
uint16           -> smallint unsigned   exact
uint32           -> int unsigned        exact
uint64           -> bigint unsigned     exact
decimal 65 30    -> decimal(65,30)      exact
float32          -> float               exact
float64          -> double              exact
text             -> longtext            exact
text(255)        -> varchar(255)        exact
text(16384)      -> longtext            exact
binary(16)       -> varbinary(16)       exact
binary           -> longblob            exact
bit(64)          -> bit(64)             exact
date             -> date                exact
timestamp        -> datetime(6)         exact
instant          -> timestamp(6)        exact
duration         -> time(6)             exact
year             -> year                exact
json             -> json                lossy
uuid             -> char(36)            widened
inet             -> varchar(45)         widened
geometry         -> geometry            exact
vector(3)        -> vector(3)           exact
vector           -> vector(16383)       widened
"""
FROM_POSTGRESQL = """
text                            -> longtext         exact
character varying(7)            -> varchar(7)       exact
character(5)                    -> varchar(5)       exact
public.citext                   -> longtext         widened
numeric                         -> decimal(65,30)   refused
numeric(10,3)                   -> decimal(10,3)    lossy
numeric(66,3)                   -> decimal(65,30)   refused
numeric(65,31)                  -> decimal(65,30)   refused
numeric(2,-3)                   -> decimal(5,0)     lossy
numeric(3,5)                    -> decimal(5,5)     lossy
real                            -> float            lossy
double precision                -> double           lossy
boolean                         -> tinyint(1)       widened
date                            -> date             lossy
time(3) without time zone       -> time(3)          widened
time(3) with time zone          -> varchar(32)      widened
timestamp without time zone     -> datetime(6)      lossy
timestamp(0) without time zone  -> datetime         lossy
timestamp with time zone        -> datetime(6)      lossy
interval                        -> varchar(128)     widened
bytea                           -> longblob         exact
bit(64)                         -> bit(64)          exact
bit(65)                         -> varchar(65)      widened
bit varying                     -> longtext         widened
inet                            -> varchar(49)      widened
uuid                            -> char(36)         widened
jsonb                           -> json             lossy
money                           -> varchar(64)      widened
xml                             -> longtext         widened
int4range                       -> longtext         widened
integer[]                       -> longtext         widened
oid                             -> int unsigned     exact
shop.mood                       -> longtext         widened
public.hstore                   -> longtext         widened
"""


def logical(text: str) -> LogicalType:
    name, *numbers = text.replace("(", " ").replace(")", "").split()
    if name == "decimal":
        return LogicalType(Kind.DECIMAL, precision=int(numbers[0]), scale=int(numbers[1]))
    return LogicalType(Kind(name), int(numbers[0]) if numbers else None)


def halves(line: str) -> tuple[str, str, str]:
    left, right = (side.strip() for side in line.split("->"))
    native, fidelity = (part.strip() for part in right.rsplit(" ", 1))
    return left, native, fidelity


@pytest.mark.parametrize("line", OWN.strip().splitlines())
def test_type(line: str) -> None:
    left, native, fidelity = halves(line)
    fit = MysqlTypes().fit(logical(left), RULES)
    assert (fit.native, fit.fidelity) == (native, fidelity)
    assert fit.reason or fit.fidelity == "exact"


@pytest.mark.parametrize("line", FROM_POSTGRESQL.strip().splitlines())
def test_type_of_postgresql(line: str) -> None:
    left, native, fidelity = halves(line)
    fit = MysqlTypes().fit(logical_type(left), RULES)
    assert (fit.native, fit.fidelity) == (native, fidelity)
    assert fit.reason or fit.fidelity == "exact"


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_every_kind_has_a_type_and_terms_and_settings_of_other_targets_are_no_error(family: str) -> None:
    for kind in Kind:
        for rules in (RULES, ValueRules(), ValueRules(json="text", uuid="binary", instant="datetime")):
            type = LogicalType(kind, 4, 4, 2, values=("a",), target=MysqlTypes(family).by_setting(kind, rules))
            assert MysqlTypes(family).fit(type, rules).native
            assert "%" not in assignment(type, "@c", family) and uses(type, family) >= 1


def test_labels_stand_as_they_are() -> None:
    type = LogicalType(Kind.ENUM, values=("it's", "b\\", "{0}", "(0)"))
    assert MysqlTypes().fit(type, RULES).native == "enum('it''s','b\\\\','{0}','(0)')"


@pytest.mark.parametrize(
    ("native", "name", "family", "wanted"),
    [
        ("int(10) unsigned", "int", "mysql", "int(10) unsigned"),
        ("mediumtext", "mediumtext", "mariadb", "mediumtext"),
        ("year(4)", "year", "mysql", "year"),
        ("timestamp /* mariadb-5.3 */", "timestamp", "mysql", "timestamp"),
        ("varchar(10) /*M!100301 COMPRESSED*/", "varchar", "mysql", "varchar(10)"),
        ("uuid", "uuid", "mysql", "char(36)"),
        ("uuid", "uuid", "mariadb", "uuid"),
        ("inet6", "inet6", "mysql", "varchar(45)"),
        ("geomcollection", "geomcollection", "mariadb", "geometrycollection"),
        ("enum('a /* b */')", "enum", "mysql", "enum('a /* b */')"),
    ],
)
def test_own_words(native: str, name: str, family: str, wanted: str) -> None:
    type = own_type(NativeType(name, native, "utf8mb4", length=10))
    assert MysqlTypes(family).column_fit(Column("c", type, native), type, RULES).native == wanted


def test_own_words_are_not_taken_from_others_nor_where_the_job_chose() -> None:
    types = MysqlTypes()
    text = logical_type("text")
    assert types.column_fit(Column("c", text, "text"), text, RULES).native == "longtext"
    chosen = LogicalType(Kind.INT32, target="bigint")
    assert types.column_fit(Column("c", chosen, "int"), chosen, RULES).native == "bigint"


CHOICES = """
int8        as tinyint(1)        -> tinyint(1)       exact
uint8       as smallint           -> smallint         exact
uint64      as bigint            -> bigint           exact   stops the job
int32       as decimal(12,0)     -> decimal(12,0)    widened
text        as varchar(200)      -> varchar(200)     exact   stops the job
text        as varchar           -> varchar          refused possible
text        as uuid              -> uuid             refused possible
timestamp   as timestamp         -> timestamp(6)     lossy   UTC
timestamp   as timestamp(3)      -> timestamp(3)     refused possible
instant     as datetime(6)       -> datetime(6)      widened UTC
uuid        as binary(16)        -> binary(16)       exact
uuid        as binary(17)        -> binary(17)       refused possible
geometry    as longblob          -> longblob         refused none
"""


@pytest.mark.parametrize("line", CHOICES.strip().splitlines())
def test_a_choice_of_the_job(line: str) -> None:
    left, right = (side.strip() for side in line.split("->"))
    kind, target = left.split(" as ")
    type = replace(logical(kind), target=target.strip())
    fit = MysqlTypes().fit(type, RULES)
    native, fidelity, *reason = right.split()
    assert (fit.native, fit.fidelity) == (native, fidelity)
    assert " ".join(reason) in fit.reason


def test_a_numeric_of_any_digits_is_refused_with_its_choices_and_rounded_by_none() -> None:
    numeric = logical_type("numeric")
    assert "types.map" in MysqlTypes().fit(numeric, RULES).reason
    chosen = replace(numeric, target="decimal(20,5)")
    assert MysqlTypes().fit(chosen, RULES).fidelity == "exact"
    assert "REGEXP" in assignment(chosen, "@c") and not is_plain(chosen)
    assert MysqlTypes().at_target(chosen, RULES).canonical is CanonicalForm.NUMBER
    assert not choices.may_be_key(chosen, "mysql")


def test_what_values_look_like_there() -> None:
    def form(type: LogicalType, family: str = "mysql", json: str = "json") -> CanonicalForm:
        return MysqlTypes(family).at_target(type, ValueRules(json=json)).canonical

    assert form(LogicalType(Kind.JSON)) is form(logical_type("jsonb")) is CanonicalForm.JSON_VALUES
    assert (
        form(LogicalType(Kind.JSON), "mariadb") is form(LogicalType(Kind.JSON), json="text") is CanonicalForm.JSON_TEXT
    )
    assert form(LogicalType(Kind.FLOAT64)) is CanonicalForm.OF_KIND
    assert MysqlTypes().at_target(LogicalType(Kind.VECTOR), RULES).text is TextForm.BARE_DIGITS
    assert MysqlTypes().at_target(LogicalType(Kind.INT32, target="varchar(20)"), RULES).sorts_as_text


def test_a_collation_that_the_target_does_not_have_gets_the_nearest_that_does_not_pad() -> None:
    mariadb = {
        "utf8mb4_bin",
        "utf8mb4_nopad_bin",
        "utf8mb4_unicode_520_nopad_ci",
        "utf8mb4_unicode_ci",
        "utf8mb3_bin",
        "latin1_bin",
    }
    found = collating("utf8mb4", "utf8mb4_0900_ai_ci", mariadb)
    assert found.collation == "utf8mb4_unicode_520_nopad_ci" and found.reason
    assert collating("utf8", "utf8_bin", mariadb).sql == "CHARACTER SET utf8mb3 COLLATE utf8mb3_bin"
    assert not collating("utf8", "utf8_bin", mariadb).reason
    assert collating("latin1", "latin1_nopad_bin", mariadb).collation == "latin1_bin"
    assert collating("utf8mb4", "utf8mb4_da_0900_ai_ci", mariadb).collation == "utf8mb4_unicode_520_nopad_ci"
    assert collating("utf8mb4", "utf8mb4_hungarian_ci", mariadb).collation == "utf8mb4_nopad_bin"
    uca = {"uca1400_ai_ci", "utf8mb4_bin"}
    assert collating("utf8mb4", "utf8mb4_uca1400_ai_ci", uca).collation == "utf8mb4_uca1400_ai_ci"
    assert by_bytes(mariadb) == "utf8mb4_nopad_bin" and by_bytes({"utf8mb4_bin"}) == "utf8mb4_bin"
    assert pads("utf8mb4_bin") and not pads("utf8mb4_0900_bin") and not pads("binary")
    assert is_deterministic("utf8mb4_bin") and not is_deterministic("utf8mb4_0900_ai_ci")


def test_what_becomes_of_zero_dates_is_said() -> None:
    def fit(zero_date: str) -> str:
        found = MysqlTypes().fit(LogicalType(Kind.DATE), ValueRules(zero_date=zero_date))
        return f"{found.fidelity}: {found.reason}"

    assert fit("stop").startswith("exact") and "0000-00-00" in fit("-infinity") and "NULL" in fit("null")
    assert fit("infinity").startswith("refused")
