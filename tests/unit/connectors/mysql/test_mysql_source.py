"""The pure parts of MySQL as a source: chunks, finished lines, defaults, labels, rights."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import connectors
from anabranch.connectors.mysql import cutting
from anabranch.connectors.mysql.rights import TO_GIVE, Rights
from anabranch.connectors.mysql.source import defaults, privileges
from anabranch.connectors.mysql.source.chunks import condition
from anabranch.connectors.mysql.source.expressions import cell, literal
from anabranch.connectors.mysql.source.lines import Finisher
from anabranch.connectors.mysql.source.load import MysqlSnapshot
from anabranch.connectors.mysql.source.privileges import Needs
from anabranch.connectors.mysql.source.typemap import NativeType, labels, logical_type
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema


def column(name: str, kind: Kind, native: str = "", **facts: object) -> Column:
    return Column(name, LogicalType(kind, length=facts.pop("length", None)), native or kind.value, **facts)


def table(*columns: Column, key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(TableId("s", "t"), columns, key)


class UnreadableKeys:
    """A session, and its cursor, that cannot decode what the server sends."""

    def cursor(self, kind: type) -> UnreadableKeys:
        return self

    def __enter__(self) -> UnreadableKeys:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str) -> None:
        b"\xff".decode()


def test_a_key_that_is_no_text_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers let no such text in any more; the file of an older one may hold it."""
    snapshot = MysqlSnapshot(Endpoint("mysql", "", 0, "", ""))
    monkeypatch.setattr(snapshot, "_session", UnreadableKeys)
    with pytest.raises(ValueRefused, match="UTF-8") as refused:
        snapshot.bounds(table(column("k", Kind.TEXT, "varchar(9)", charset="utf8mb4"), key=("k",)), 10)
    assert refused.value.table == "s.t" and refused.value.hint


# --- without a driver, without a connection ---------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_nothing_connects_before_it_is_asked(scheme: str) -> None:
    source = connectors.source(Endpoint(scheme, "203.0.113.1", 1, "u", "secret"))
    assert source.snapshot() and source.checks() and source.dialect.facts("DROP TABLE a", "s")
    assert "secret" not in repr(vars(source))


def test_the_connectors_import_without_their_driver() -> None:
    roles = "anabranch.connectors.mysql.source, anabranch.connectors.mariadb.source"
    program = f"import sys; sys.modules['pymysql'] = None; import {roles}"
    subprocess.run([sys.executable, "-c", program], check=True)


# --- chunks -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=200, unique=True),
    st.integers(1, 50),
    st.floats(0.3, 3),
)
def test_ranges_of_integers_cover_everything_once(keys: list[int], rows: int, error: float) -> None:
    """Whatever the estimates are: the ends rise, and every key is in exactly one range."""

    def estimate(low: int, high: int) -> int:
        return min(int(sum(low < key <= high for key in keys) * error), high - low)

    low, high = min(keys) - 1, max(keys)
    ends = list(cutting.merged(cutting.refined(estimate, low, high, rows), rows))
    assert ends == sorted(set(ends))
    assert all(low < end < high for end in ends)
    if error == 1:
        edges = [low, *ends, high]
        assert max(sum(a < key <= b for key in keys) for a, b in pairwise(edges)) <= 3 * rows


def test_condition_of_a_composite_key() -> None:
    keys = [column("a", Kind.INT32), column("b", Kind.TEXT)]
    assert condition(keys, Bounds()) == ""
    assert condition(keys, Bounds(lower=("1", "x'\\"))) == (
        "(`a` >= 1 AND (`a` > 1 OR `a` = 1 AND `b` > _utf8mb4'x''\\\\'))"
    )
    assert condition(keys, Bounds(upper=("2", "y"))) == "(`a` <= 2 AND (`a` < 2 OR `a` = 2 AND `b` <= _utf8mb4'y'))"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.UINT64, "18446744073709551615", "18446744073709551615"),
        (Kind.DECIMAL, "-1.50", "-1.50"),
        (Kind.BINARY, "\\x00ff", "x'00ff'"),
        (Kind.BINARY, "\\x", "x''"),
        (Kind.BIT, "0101", "5"),
        (Kind.YEAR, "0", "'0000'"),
        (Kind.INSTANT, "2024-01-01 00:00:00.000000+00", "_utf8mb4'2024-01-01 00:00:00.000000'"),
        (Kind.FLOAT32, "0.1", "0.10000000149011612e0"),
        (Kind.FLOAT64, "1e+20", "1e+20"),
        (Kind.ENUM, "3", "3"),
    ],
)
def test_literal(kind: Kind, value: str, expected: str) -> None:
    assert literal(column("c", kind), value) == expected


@pytest.mark.parametrize("kind", [Kind.INT32, Kind.DECIMAL, Kind.BIT, Kind.ENUM, Kind.BINARY, Kind.FLOAT64, Kind.YEAR])
def test_literal_of_no_number_is_refused(kind: Kind) -> None:
    with pytest.raises(ValueError):
        literal(column("c", kind), "1 OR 1=1")


def test_names_with_backticks_are_quoted() -> None:
    assert "`a``b`" in cell(column("a`b", Kind.INT32))


# --- lines ------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 99), st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
)
def test_any_text_is_escaped_and_comes_back(rows: list[tuple[int, str | None]]) -> None:
    schema = table(column("a", Kind.INT32), column("b", Kind.TEXT), key=("a",))
    raw = [b"%d\xff%s" % (a, b"\xfe" if b is None else b.encode()) for a, b in rows]
    found = Finisher(schema, ["a", "b"], ValueRules()).finish(raw)
    escapes = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    expected = "".join(
        f"{a}\t" + ("\\N" if b is None else "".join(escapes.get(c, c) for c in b)) + "\n" for a, b in rows
    )
    assert found == expected.encode()


def test_floats_are_shortest_in_their_own_width() -> None:
    schema = table(column("f", Kind.FLOAT32), column("d", Kind.FLOAT64))
    rows = [b"\xf80.10000000149011612\xff\xf70.1", b"\xfe\xff\xf7-0", b"\xf83.4028234663852886e38\xff\xfe"]
    found = Finisher(schema, ["f", "d"], ValueRules()).finish(rows)
    assert found == b"0.1\t0.1\n\\N\t-0\n3.4028235e+38\t\\N\n"


@pytest.mark.parametrize(
    "value", ["0000-00-00", "2024-00-15", "2024-02-00", "0000-01-01", "0000-00-00 00:00:00.000000"]
)
def test_dates_that_are_none(value: str) -> None:
    schema = table(column("k", Kind.INT32), column("d", Kind.TIMESTAMP), column("s", Kind.TEXT), key=("k",))
    rows = [b"1\xff\xf92024-01-01\xff2024-00-00", b"2\xff\xf9" + value.encode() + b"\xffx"]
    with pytest.raises(ValueRefused, match="column d of the row with k=2 holds the date"):
        Finisher(schema, ["k", "d", "s"], ValueRules()).finish(rows)
    found = Finisher(schema, ["k", "d", "s"], ValueRules(zero_date="null")).finish(rows)
    assert found == b"1\t2024-01-01\t2024-00-00\n2\t\\N\tx\n"


# --- definitions ------------------------------------------------------------------------------------------------------


def test_labels() -> None:
    assert labels("enum('a','it''s','b\\\\c','x,y','')") == ("a", "it's", "b\\c", "x,y", "")
    assert labels("set('\\n')") == ("\n",)


def test_defaults_of_mysql_5_mark_no_clock() -> None:
    found = defaults.of_mysql(column("c", Kind.TIMESTAMP, "datetime"), "CURRENT_TIMESTAMP", "")
    assert found.default_is_expression


def test_instant_in_show_create_table() -> None:
    create = (
        "CREATE TABLE `t` (\n  `a` int DEFAULT '5',\n  `u``x` timestamp(3) NULL DEFAULT '2021-05-05 02:05:05.000',\n"
    )
    assert defaults.instant_in(create, "`u``x`") == "2021-05-05 02:05:05.000"
    assert defaults.instant_in(create, "`a`") is None


# --- rights -----------------------------------------------------------------------------------------------------------

ORDERS = TableId("shop_1", "orders")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION"], True),
        (["GRANT USAGE ON *.* TO `a`@`%`", "GRANT SELECT, INSERT ON `shop\\_1`.* TO `a`@`%`"], True),
        (["GRANT SELECT ON `shop_1`.* TO `a`@`%`"], True),
        (["GRANT SELECT ON `shop%`.* TO `a`@`%`"], True),
        (["GRANT SELECT ON `shop\\_2`.* TO `a`@`%`"], False),
        (["GRANT SELECT ON `shop_1`.`orders` TO `a`@`%`"], True),
        (["GRANT SELECT ON `shop_1`.`items` TO `a`@`%`"], False),
        (["GRANT SELECT (`id`, `v`), INSERT ON `shop_1`.`orders` TO `a`@`%`"], False),
        (["GRANT INSERT, SELECT (`id`) ON `shop_1`.`orders` TO `a`@`%`"], False),
        (["GRANT SELECT ON *.* TO `a`@`%`", "REVOKE SELECT ON `shop_1`.* FROM `a`@`%`"], False),
        (["GRANT `reader`@`%` TO `a`@`%`", "GRANT PROXY ON ``@`%` TO `a`@`%`"], False),
    ],
)
def test_right_on_a_table(lines: list[str], expected: bool) -> None:
    assert Rights(lines).has("SELECT", ORDERS) is expected


def test_missing_rights_are_grants() -> None:
    rights = Rights(["GRANT REPLICATION SLAVE ON *.* TO `a`@`%`"])
    found = [r.hint for r in privileges.missing(rights, "mysql", "'a'@'%'", [ORDERS], Needs("table", watermark=True))]
    assert found == [
        "GRANT REPLICATION CLIENT ON *.* TO 'a'@'%'",
        "GRANT SELECT ON `shop_1`.`orders` TO 'a'@'%'",
        "GRANT LOCK TABLES ON `shop\\_1`.* TO 'a'@'%'",
        "GRANT CREATE, SELECT, INSERT, DELETE ON `anabranch`.* TO 'a'@'%'",
    ]


def test_a_vector_of_mysql_may_be_shorter_than_its_column_says() -> None:
    lengths = {
        name: logical_type(NativeType("vector", "vector(3)", family=name)).length for name in ("mysql", "mariadb")
    }
    assert lengths == {"mysql": None, "mariadb": 3}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GRANT SELECT, EXECUTE ON `shop\\_1`.* TO `a`@`%` WITH GRANT OPTION", True),
        ("GRANT ALL PRIVILEGES ON *.* TO 'a'@'%' IDENTIFIED BY PASSWORD '*A' WITH GRANT OPTION", True),
        ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%`", False),
        ("GRANT SELECT ON `other`.* TO `a`@`%` WITH GRANT OPTION", False),
    ],
)
def test_the_right_to_give_rights_is_no_part_of_all_rights(line: str, expected: bool) -> None:
    assert Rights([line]).has(TO_GIVE, ORDERS) is expected
