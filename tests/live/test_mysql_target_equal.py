"""Applying to real MySQL and MariaDB: what a server takes for equal and the source does not, keys and values that look
otherwise there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.contracts import Conflict
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TableNet
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, MANY, TEXT, Applying, applying_at, bag, keys, rows, updates

FLOAT, DOUBLE = LogicalType(Kind.FLOAT32), LogicalType(Kind.FLOAT64)
UINT64 = LogicalType(Kind.UINT64)
SINCE_56 = pytest.mark.every_server("row images")
SIZES = pytest.mark.parametrize("many", [1, MANY], ids=["few", "many"])


@pytest.fixture
def applying(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    with applying_at(mysql_family, request.node.name) as made:
        yield made


FOLDED = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"  # 'a' = 'A', 'a' = 'a '


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_59_a_key_that_changes_by_case_accent_or_a_blank_alone(applying: Applying, many: int) -> None:
    of = applying.create("t", f"id {FOLDED} PRIMARY KEY, v INT", {"id": TEXT, "v": INT})
    names = [f"k{number}" for number in range(many)]
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((name, 1) for name in names))))
    accents = [f"ḱ{number}" for number in range(many)]
    applying.merge(TableNet(of, updates=(updates(of, names, ("id",), *((name,) for name in accents), moves=True),)))
    assert {row[0] for row in applying.rows("SELECT id FROM t")} == {*accents}
    upper = updates(of, accents, ("id",), *((name.upper(),) for name in names), moves=True)
    applying.merge(TableNet(of, updates=(upper,)))
    assert {row[0] for row in applying.rows("SELECT id FROM t")} == {name.upper() for name in names}
    blank = rows(of, ("id", "v"), *((f"{name} ", 2) for name in names))
    applying.merge(TableNet(of, deletes=keys(of, *(name.upper() for name in names)), inserts=blank))
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((name, 3) for name in names)), checked=False))
    assert sorted(applying.rows("SELECT id, v FROM t")) == sorted((name, 3) for name in names)
    back = updates(of, names, ("id", "v"), *((name.upper(), 4) for name in names), moves=True)
    applying.merge(TableNet(of, updates=(back,), checked=False))
    assert sorted(applying.rows("SELECT id, v FROM t")) == sorted((name.upper(), 4) for name in names)


@SINCE_56
@SIZES
def test_rule_03_pitfall_59_a_key_that_another_row_leaves_by_other_letters(applying: Applying, many: int) -> None:
    """Inside a load's window only the rows' own order tells which is which, and the target alone that the two keys are one."""
    of = applying.create("t", f"id {FOLDED} PRIMARY KEY, v INT", {"id": TEXT, "v": INT})
    old = [f"{letter}{number}" for letter in "ab" for number in range(many)]
    new = [f"{letter}{number}" for letter in "Bc" for number in range(many)]
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((name, 1) for name in old))))
    moved = updates(of, old, ("id", "v"), *((name, 2) for name in new), moves=True)
    with pytest.raises(Conflict, match="moves away"):
        applying.merge(TableNet(of, updates=(moved,), checked=False))
    assert sorted(applying.rows("SELECT id, v FROM t")) == sorted((name, 1) for name in old)


@SINCE_56
@SIZES
@SINCE_56
def test_rule_08_pitfall_11_swaps_are_judged_by_the_targets_collation(applying: Applying, many: int) -> None:
    """No two values are the same bytes, and still each row takes one that another has to leave first."""
    of = applying.create("t", f"id INT PRIMARY KEY, u {FOLDED} UNIQUE", {"id": INT, "u": TEXT})
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, f"v{n}") for n in range(count)))))
    turned = updates(of, range(count), ("u",), *((f"V{(n + 1) % count} ",) for n in range(count)), contends=True)
    applying.merge(TableNet(of, updates=(turned,)))
    assert sorted(applying.rows("SELECT id, u FROM t")) == [(n, f"V{(n + 1) % count} ") for n in range(count)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_60_equal_for_the_collation_and_not_by_bytes(applying: Applying, many: int) -> None:
    of = applying.create("k", f"w {FOLDED}, n INT", {"w": TEXT, "n": INT}, key=())
    applying.merge(bag(of, *((w, n, 2) for w in ("a", "A", "a ") for n in range(many))))
    applying.merge(bag(of, *(("A", n, -1) for n in range(many)), *(("a ", n, -2) for n in range(many))))
    applying.change(RowChange(of, UPDATE, values={"n": "-1"}, old_values={"w": "A", "n": "0"}))
    found = applying.rows("SELECT w, n < 0, COUNT(*) FROM k GROUP BY BINARY w, w, n < 0 ORDER BY BINARY w")
    others = [("A", 0, many - 1)] if many > 1 else []
    assert sorted(found) == sorted([*others, ("A", 1, 1), ("a", 0, 2 * many)])
    with pytest.raises(Conflict):
        applying.merge(bag(of, ("a ", 0, -1)))


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_51_float_rows_without_a_key_are_found_again(applying: Applying, many: int) -> None:
    """16777215 and 16777200 print the same six digits; -0.0 is not 0.0."""
    of = applying.create("k", "f FLOAT, d DOUBLE, n INT", {"f": FLOAT, "d": DOUBLE, "n": INT}, key=())
    lines = [(16777215.0, 0.1), (16777200.0, 0.1), (0.1, -0.0), (0.1, 0.0)]
    applying.merge(bag(of, *((*line, n, 1) for line in lines for n in range(many))))
    applying.merge(bag(of, *((*line, n, -1) for line in lines[::2] for n in range(many))))
    left = applying.rows("SELECT f + 0e0, CAST(d AS CHAR), COUNT(*) FROM k GROUP BY 1, 2 ORDER BY 1 DESC")
    assert [(f, float(d), str(d)[:1], n) for f, d, n in left] == [
        (16777200.0, 0.1, "0", many),
        (pytest.approx(0.1), 0.0, "0", many),
    ]
    applying.change(RowChange(of, DELETE, old_values={"f": "0.1", "d": "0", "n": "0"}))
    assert applying.rows("SELECT COUNT(*) FROM k") == [(2 * many - 1,)]


@SINCE_56
@SIZES
@SINCE_56
def test_rule_28_some_of_equal_rows_where_the_target_has_columns_of_its_own(applying: Applying, many: int) -> None:
    """No row is taken out and put back then: its own column would be lost."""
    of = applying.create("k", "n INT, own INT AUTO_INCREMENT UNIQUE", {"n": INT}, key=())
    some = min(many, 20)
    applying.merge(bag(of, *((n, 3) for n in range(some))))
    before = {own for (own,) in applying.rows("SELECT own FROM k")}
    applying.merge(bag(of, *((n, -2) for n in range(some))))
    after = applying.rows("SELECT n, own FROM k ORDER BY n")
    assert [n for n, _ in after] == list(range(some)) and {own for _, own in after} < before


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_52_zero_bytes_at_the_end_of_a_binary_key(applying: Applying, many: int) -> None:
    binary = LogicalType(Kind.BINARY, length=4)
    of = applying.create("t", "id BINARY(4) PRIMARY KEY, v INT", {"id": binary, "v": INT})
    names = [number.to_bytes(2, "big") for number in range(1, many + 1)]
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((name, 1) for name in names))))
    applying.merge(TableNet(of, updates=(updates(of, names, ("v",), *([(2,)] * many)),)))
    assert applying.rows("SELECT COUNT(*), SUM(v) FROM t") == [(many, 2 * many)]
    applying.merge(TableNet(of, deletes=keys(of, *names)))
    assert applying.rows("SELECT COUNT(*) FROM t") == [(0,)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_53_keys_of_unsigned_numbers_floats_and_bits(applying: Applying, many: int) -> None:
    bit = LogicalType(Kind.BIT, length=64)
    wide = {"id": UINT64, "f": FLOAT, "b": bit, "v": INT}
    definition = "id BIGINT UNSIGNED, f FLOAT, b BIT(64), v INT, PRIMARY KEY (id, f, b)"
    of = applying.create("t", definition, wide, ("id", "f", "b"))
    every = [(2**64 - 1 - number, 0.1, 2**63 + number) for number in range(many)]
    old = rows(of, of.key, *every)
    applying.merge(TableNet(of, inserts=rows(of, tuple(wide), *((*key, 1) for key in every))))
    changed = updates(of, (), ("v",), *([(2,)] * many))
    applying.merge(TableNet(of, updates=(type(changed)(old, changed.values),)))
    texts: dict[str, str | None] = {"id": str(every[0][0]), "f": "0.1", "b": f"{every[0][2]:064b}"}
    assert applying.change(RowChange(of, UPDATE, texts, {"v": "3"}))
    assert applying.rows("SELECT COUNT(*), SUM(v) FROM t") == [(many, 2 * many + 1)]
    applying.merge(TableNet(of, deletes=old))
    assert applying.rows("SELECT COUNT(*) FROM t") == [(0,)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_55_zero_dates_in_keys_and_values(applying: Applying, many: int) -> None:
    """`IS NULL` finds a zero date in a column that has no NULL: no condition of ours asks so."""
    date = LogicalType(Kind.DATE, at_target=AtTarget(zero_dates=True))
    of = applying.create(
        "t", "id INT, d DATE NOT NULL, v INT, PRIMARY KEY (d, id)", {"id": INT, "d": date, "v": INT}, ("d", "id")
    )
    zeros = ", ".join(f"({number}, 0, 1)" for number in range(many))
    with applying.database.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"INSERT INTO t VALUES {zeros}")
    values: dict[str, str | None] = {"d": "-infinity", "id": "0", "v": "2"}
    applying.change(RowChange(of, INSERT, values=values, checked=False))
    assert applying.rows("SELECT COUNT(*), SUM(v) FROM t WHERE d = 0") == [(many, many + 1)]
