"""Rule sets: targets, columns, filters, and every way a job's settings do not fit a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.errors import ConfigError, SchemaError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rules.rule_set import Filter, RuleSet

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
HEAD = 'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
CUSTOMERS = TableSchema(
    TableId("shop", "customers"),
    (
        Column("id", INT, "int"),
        Column("fname", TEXT, "varchar(50)"),
        Column("where", None, "point", refusal="no type for geometry"),
        Column("total", INT, "int", generated=True),
        Column("country", TEXT, "char(2)"),
    ),
    primary_key=("id",),
)


def rules(tmp_path: Path, text: str) -> RuleSet:
    (tmp_path / "job.toml").write_text(HEAD + text)
    return RuleSet(load_job(tmp_path / "job.toml", {}), PostgresTypes())


def customers(settings: str) -> str:
    return (
        f'[[rules]]\ninclude = ["shop.*"]\ntarget = "public.{{table}}"\n[[tables]]\nname = "shop.customers"\n{settings}'
    )


def test_the_first_rule_that_matches_gives_the_target_and_exclusion_wins(tmp_path: Path) -> None:
    found = rules(
        tmp_path,
        '[[rules]]\ninclude = ["shop.order*"]\ntarget = "sales.{table}"\n'
        '[[rules]]\ninclude = ["*.*"]\nexclude = ["*.tmp_*", "shop.orders_old"]\n',
    )
    expected = {
        "shop.orders": "sales.orders",
        "shop.orders_old": None,
        "shop.items": "shop.items",
        "crm.tmp_x": None,
        "Shop.Orders": "Shop.Orders",
    }
    assert {t: (target := found.target_of(TableId.parse(t))) and str(target) for t in expected} == expected
    assert found.includes(TableId("shop", "items")) and not found.includes(TableId("shop", "tmp_1"))


def test_tables_of_tools_are_left_out_where_swaps_are_followed(tmp_path: Path) -> None:
    """A pattern may take them otherwise; one that is named in full is meant."""
    names = (
        "_orders_gho",
        "_orders_ghc",
        "_orders_del",
        "_orders_new",
        "_orders_old",
        "_old",
        "orders_new",
        "lhmn_orders",
    )
    tables = [TableId("shop", name) for name in names]
    text = '[[rules]]\ninclude = ["shop.*", "shop._orders_old"]\n[[tables]]\nname = "shop._orders_new"\n'
    apply = '[ddl]\nonline_swap = "apply"\n'

    def taken(more: str = "") -> list[str]:
        found = rules(tmp_path, f"{more}{text}")
        assert set(found.left_to_tools(tables)) == {table for table in tables if not found.includes(table)}
        return [table.name for table in tables if found.includes(table)]

    assert taken() == list(names)
    assert taken(apply) == ["_orders_new", "_orders_old", "_old", "orders_new", "lhmn_orders"]
    assert taken(f'{apply}ghost_tables = ["lhmn_{{table}}"]\n') == list(names[:-1])
    assert taken(f"{apply}ghost_tables = []\n") == list(names)
    refused = rules(tmp_path, f"{apply}{text}").not_replicated(tables[0])
    assert refused.message.startswith("[ddl] ghost_tables leaves shop._orders_gho out") and "in full" in refused.hint


@pytest.mark.parametrize("pattern", ["{table}", "_gho", "{table}_{table}"])
def test_a_name_of_a_tool_has_the_table_in_it(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rules(tmp_path, f'[ddl]\nghost_tables = ["{pattern}"]\n[[rules]]\ninclude = ["shop.*"]\n')
    assert "is no pattern of a name" in str(refused.value.problems[0])


def test_two_tables_into_one_are_refused_with_both_names(tmp_path: Path) -> None:
    found = rules(tmp_path, '[[rules]]\ninclude = ["a.*", "b.*"]\ntarget = "public.{table}"\n')
    assert len(found.targets([TableId("a", "x"), TableId("b", "y")])) == 2
    assert found.shares_target(TableId("b", "x"), [TableId("a", "x")])
    assert not found.shares_target(TableId("b", "x"), [TableId("b", "x"), TableId("a", "y"), TableId("c", "x")])
    with pytest.raises(ConfigError, match=r"public\.x would get a\.x, b\.x"):
        found.targets([TableId("a", "x"), TableId("b", "x"), TableId("c", "x")])


def test_a_target_table_keeps_the_source_order_drops_renames_and_copies_generated_columns(tmp_path: Path) -> None:
    found = rules(tmp_path, customers('columns = { drop = ["where"], rename = { id = "nr", fname = "first" } }'))
    table = found.target_table(CUSTOMERS)
    assert table.target == TableId("public", "customers")
    assert table.columns == ("nr", "first", "total", "country")
    assert table.source_columns == ("id", "fname", "total", "country")
    assert table.types == (INT, TEXT, INT, TEXT)
    assert table.key == ("nr",)
    assert found.dropped(CUSTOMERS.id) == ("where",)


def test_swapped_names_are_allowed(tmp_path: Path) -> None:
    found = rules(
        tmp_path, customers('columns = { drop = ["where"], rename = { fname = "country", country = "fname" } }')
    )
    assert found.target_table(CUSTOMERS).columns == ("id", "country", "total", "fname")


def test_a_refused_type_names_column_reason_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        rules(tmp_path, customers("")).target_table(CUSTOMERS)
    assert "where point: no type for geometry" in str(caught.value)
    assert 'name = "shop.customers", columns = { drop = ["where"] }' in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            'columns = { drop = ["fnam"] }',
            "line 11, [[tables]] columns.drop: the table has no column fnam; did you mean fname?",
        ),
        ('columns = { rename = { fnam = "x" } }', "columns.rename: the table has no column fnam; did you mean fname?"),
        ('columns = { drop = ["id"] }', "columns.drop: id belongs to the primary key and cannot be left out"),
        (
            'columns = { rename = { fname = "country" } }',
            "columns.rename: fname and country would both be called country",
        ),
    ],
)
def test_settings_that_do_not_fit_the_table(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(tmp_path, customers(settings)).target_table(CUSTOMERS)
    assert message in str(caught.value)


def test_a_column_may_have_the_name_of_one_that_was_left_out_when_it_came(tmp_path: Path) -> None:
    came = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("note", TEXT, "text")))
    found = rules(tmp_path, customers('columns = { drop = ["where"], rename = { fname = "note" } }'))
    assert found.target_table(came.leaving_out(["note"])).columns == ("id", "note", "total", "country")
    with pytest.raises(ConfigError, match="fname and note would both be called note"):
        found.target_table(came)


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("id > 5", ("id",)),
        ("country = 'DE' and fname is not null", ("fname", "country")),
        ("`where` is null", ("where",)),
        ("case when id % 2 = 0 then country else fname end like 'a%'", ("id", "fname", "country")),
        ("country <=> 'DE' or exists(array(1, 2), x -> x = id)", ("id", "country")),
    ],
)
def test_a_filter_names_its_columns(tmp_path: Path, where: str, columns: tuple[str, ...]) -> None:
    assert rules(tmp_path, customers(f'where = "{where}"')).where(CUSTOMERS) == Filter(where, columns)


def test_a_table_without_a_filter_has_none(tmp_path: Path) -> None:
    assert rules(tmp_path, customers("")).where(CUSTOMERS) is None


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("id in (select 1)", "a subquery"),
        ("exists (select 1 from x)", "a subquery"),
        ("count(id) > 1", "an aggregate function"),
        ("row_number() over (order by id) = 1", "a window function"),
        ("rand() < id", "rand(), whose result changes"),
        ("id < unix_timestamp()", "whose result changes"),
        ("c.id = 1", "the qualified name c.id"),
        ("id = ?", "a placeholder"),
        ("id = ", "is not Spark SQL"),
        ("id = 1; drop table x", "is not one condition"),
        ("drop table x", "is not a condition"),
    ],
)
def test_what_is_no_filter_is_refused_before_any_table_is_known(tmp_path: Path, where: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(tmp_path, customers(f'where = "{where}"'))
    assert "line 11, [[tables]] where: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("Country = 'DE'", "names the unknown column Country; did you mean country?"),
        ("1 = 1", "names no column"),
    ],
)
def test_a_filter_that_does_not_fit_the_table(tmp_path: Path, where: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(tmp_path, customers(f'where = "{where}"')).where(CUSTOMERS)
    assert message in str(caught.value)


def test_no_filter_names_an_array_or_composite_that_a_load_has_as_json(tmp_path: Path) -> None:
    array = LogicalType(Kind.NATIVE, native="integer[]")
    table = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("tags", array, "integer[]")))
    found = rules(tmp_path, customers("where = \"tags = '{1}'\""))
    assert found.where(table) is not None
    found.values = replace(found.values, arrays="json")
    with pytest.raises(ConfigError, match="column tags is an array"):
        found.where(table)
    unique = replace(table, indexes=(Index("tags", ("tags",), unique=True),))  # a text there
    assert found.where(unique) is not None
    pair = replace(array, native="public.pair", fields=(("a", "integer"),))
    table = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("tags", pair, "public.pair")))
    assert found.where(table) is not None
    found.values = replace(found.values, composites="json")
    with pytest.raises(ConfigError, match=r'column tags is a composite, .* composites is "json"'):
        found.where(table)


def test_patterns_that_match_nothing_are_named_with_their_line(tmp_path: Path) -> None:
    found = rules(tmp_path, '[[rules]]\ninclude = [\n "shop.*",\n "shop.custommers",\n]\n')
    (problem,) = found.without_match([CUSTOMERS.id])
    assert str(problem) == (
        "line 9, [[rules]] include: 'shop.custommers' matches no table; did you mean shop.customers?"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", ConflictPolicy("ignore_missing")),
        ('on_conflict = "stop"', ConflictPolicy("stop")),
        ('on_conflict = "newest"\nnewest_by = "total"', ConflictPolicy("newest", "total")),
        (
            'on_conflict = "newest"\nnewest_by = "total"\ncolumns = { rename = { total = "sum" } }',
            ConflictPolicy("newest", "sum"),
        ),
    ],
)
def test_a_tables_own_word_on_conflicts_goes_before_the_jobs(
    tmp_path: Path, settings: str, expected: ConflictPolicy
) -> None:
    found = rules(tmp_path, customers(settings) + '\n[apply]\non_conflict = "ignore_missing"\n')
    assert found.on_conflict(CUSTOMERS) == expected


@pytest.mark.parametrize(
    ("settings", "schema", "message"),
    [
        ('newest_by = "totl"', CUSTOMERS, "has no column totl; did you mean total"),
        ('newest_by = "fname"', CUSTOMERS, r"fname is no number, date or time: varchar\(50\)"),
        ('newest_by = "total"\ncolumns = { drop = ["total"] }', CUSTOMERS, "total is left out"),
        ('newest_by = "total"', replace(CUSTOMERS, primary_key=()), "no primary key"),
    ],
)
def test_a_column_that_cannot_tell_the_newest_row_is_refused_by_its_line(
    tmp_path: Path, settings: str, schema: TableSchema, message: str
) -> None:
    found = rules(tmp_path, customers(f'on_conflict = "newest"\n{settings}'))
    with pytest.raises(ConfigError, match=message) as refused:
        found.on_conflict(schema)
    assert refused.value.problems[0].key == "[[tables]] newest_by" and refused.value.problems[0].line == 12


STOCKS = TableSchema(
    TableId("shop", "customers"),
    (
        Column("id", INT, "int", nullable=False),
        Column("age", INT, "int", nullable=False),
        Column("stock", LogicalType(Kind.DECIMAL, precision=10, scale=2), "decimal(10,2)", nullable=False),
        Column("name", TEXT, "text", nullable=False),
        Column("spare", INT, "int"),
        Column("weight", LogicalType(Kind.FLOAT64), "double", nullable=False),
    ),
    primary_key=("id",),
)
PAIR = '\n[pair]\nsite = "a"\nother = "b"\nwinner = "b"\ntwin = "back"\nnewest_by = "age"\n'


def in_pair(tmp_path: Path, settings: str) -> RuleSet:
    text = customers(settings) + PAIR
    (tmp_path / "job.toml").write_text(HEAD.replace("[target]", 'leave_out = ["anabranch:back"]\n[target]') + text)
    return RuleSet(load_job(tmp_path / "job.toml", {}), PostgresTypes())


def test_rule_23_a_pair_adds_up_columns_by_the_targets_names(tmp_path: Path) -> None:
    found = in_pair(tmp_path, 'delta = ["stock"]\ncolumns = { rename = { stock = "left" } }').on_conflict(STOCKS)
    assert found == ConflictPolicy("newest", "age", pair=True, target_wins_ties=True, delta=("left",), deletes=True)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("stok", "has no column stok"),
        ("age", "age says which row it is, or which is newer"),
        ("id", "id says which row it is"),
        ("name", "name is text: only whole numbers and decimals"),
        ("weight", "weight is double: only whole numbers and decimals"),
        ("spare", "spare may be NULL, which has no sum"),
    ],
)
def test_rule_23_a_column_that_has_no_sum_is_refused(tmp_path: Path, column: str, message: str) -> None:
    found = in_pair(tmp_path, f'delta = ["{column}"]')
    with pytest.raises(ConfigError) as refused:
        found.on_conflict(STOCKS)
    assert message in str(refused.value.problems[0]) and refused.value.problems[0].key == "[[tables]] delta"


def test_columns_that_the_target_computes_are_neither_written_nor_refused(tmp_path: Path) -> None:
    total = Column("total", None, "integer", generated=True, expression="(id + 1) STORED")
    columns = (CUSTOMERS.columns[0], total, CUSTOMERS.columns[1])
    spoken = TableSchema(CUSTOMERS.id, columns, ("id",), dialect="theirs")
    found = rules(tmp_path, customers('columns.rename = { total = "sum" }'))
    table = found.target_table(spoken)
    assert (table.columns, table.computed) == (("id", "fname"), (("total", "sum"),)) and not found.refused(spoken)
    dropped = rules(tmp_path, customers('columns.drop = ["total"]')).target_table(spoken)
    assert dropped.computed == () and dropped.columns == ("id", "fname")
    for other in (replace(spoken, dialect=""), replace(spoken, primary_key=("id", "total"))):
        assert found.refused(other) == [total], "nobody computes it, or rows are found by it"


CONTRADICTIONS = {
    "an exclusion of one rule takes tables from another": (
        '[[rules]]\ninclude = ["shop.*"]\nexclude = ["*.tmp_*"]\n[[rules]]\ninclude = ["crm.*"]\n',
        ["line 8, [[rules]] exclude: '*.tmp_*' of rule 1 leaves out crm.tmp_b, which rule 2 (line 9) includes"],
    ),
    "so does one of a later rule": (
        '[[rules]]\ninclude = ["*.*"]\n[[rules]]\ninclude = ["none.*"]\nexclude = ["crm.a", "shop.a"]\n',
        [
            "line 10, [[rules]] exclude: 'crm.a' of rule 2 leaves out crm.a, which rule 1 (line 6) includes",
            "line 10, [[rules]] exclude: 'shop.a' of rule 2 leaves out shop.a, which rule 1 (line 6) includes",
        ],
    ),
    "also where it is included by its very name": (
        '[[rules]]\ninclude = ["shop.*"]\nexclude = ["shop.tmp_*"]\n[[rules]]\ninclude = ["shop.tmp_b"]\n',
        ["line 8, [[rules]] exclude: 'shop.tmp_*' of rule 1 leaves out shop.tmp_b, which rule 2 (line 9) includes"],
    ),
    "and from several": (
        '[[rules]]\ninclude = ["crm.*"]\n[[rules]]\ninclude = ["shop.a"]\n[[rules]]\ninclude = ["x.y"]\nexclude = ["*.a"]\n',
        [
            "line 12, [[rules]] exclude: '*.a' of rule 3 leaves out crm.a, which rule 1 (line 6) includes",
            "line 12, [[rules]] exclude: '*.a' of rule 3 leaves out shop.a, which rule 2 (line 8) includes",
        ],
    ),
    "rules that agree say nothing": (
        '[[rules]]\ninclude = ["shop.*"]\nexclude = ["*.tmp_*"]\n[[rules]]\ninclude = ["crm.*"]\nexclude = ["*.tmp_b"]\n',
        [],
    ),
    "an exclusion that takes nothing from others says nothing": (
        '[[rules]]\ninclude = ["shop.*"]\nexclude = ["shop.tmp_*", "shop.none"]\n[[rules]]\ninclude = ["crm.*"]\n',
        [],
    ),
    "a rule takes all from itself": (
        '[[rules]]\ninclude = ["shop.a", "crm.*"]\nexclude = ["shop.*"]\n',
        ["line 7, [[rules]] include: 'shop.a' selects nothing: rule 1 itself excludes shop.a"],
    ),
    "a rule that comes too late": (
        '[[rules]]\ninclude = ["shop.*"]\n[[rules]]\ninclude = ["crm.*"]\n'
        '[[rules]]\ninclude = ["shop.a", "crm.a"]\ntarget = "x.y"\n',
        [
            "line 10, [[rules]]: rule 3 has no effect: of several rules the first gives the target, and rule 1 (line 6),"
            " rule 2 (line 8) include before it: crm.a, shop.a"
        ],
    ),
    "behind a single one": (
        '[[rules]]\ninclude = ["crm.*"]\n[[rules]]\ninclude = ["crm.a"]\ntarget = "x.y"\n',
        [
            "line 8, [[rules]]: rule 2 has no effect: of several rules the first gives the target, and rule 1 (line 6)"
            " includes before it: crm.a"
        ],
    ),
    "the narrow one before the wide one": ('[[rules]]\ninclude = ["shop.a"]\n[[rules]]\ninclude = ["*.*"]\n', []),
    "a name that is nearly there": (
        '[[rules]]\ninclude = ["shop.*"]\nexclude = ["shop.TMP_B"]\n',
        ["line 8, [[rules]] exclude: 'shop.TMP_B' matches no table"],
    ),
}


@pytest.mark.parametrize("text, expected", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_one_rule_takes_from_another_is_said_with_both(tmp_path: Path, text: str, expected: list[str]) -> None:
    present = [TableId(schema, name) for schema in ("shop", "crm") for name in ("a", "tmp_b")]
    found = rules(tmp_path, text).contradictions(present)
    assert [str(one.problem) for one in found] == expected
    assert all(one.hint for one in found)


def test_a_contradiction_lists_ten_tables_and_counts_the_others(tmp_path: Path) -> None:
    found = rules(tmp_path, '[[rules]]\ninclude = ["a.*"]\n[[rules]]\ninclude = ["b.*"]\nexclude = ["*.t*"]\n')
    [one] = found.contradictions([TableId("a", f"t{number:02}") for number in range(25)])
    assert "a.t08, a.t09 and 15 more, which rule 1 (line 6) includes" in one.problem.message


def test_a_table_that_somebody_names_is_told_which_exclusion_takes_it(tmp_path: Path) -> None:
    found = rules(
        tmp_path, '[[rules]]\ninclude = ["shop.*"]\n[[rules]]\ninclude = ["crm.*"]\nexclude = ["x.y", "*.tmp_*"]\n'
    )
    [problem] = found.not_replicated(TableId("shop", "tmp_a")).problems
    assert str(problem) == "line 10, [[rules]] exclude: '*.tmp_*' leaves it out, for all rules"
    assert "rule 2 excludes shop.tmp_a" in found.not_replicated(TableId("shop", "tmp_a")).message
    assert found.not_replicated(TableId("other", "a")).message == "no rule includes other.a"
