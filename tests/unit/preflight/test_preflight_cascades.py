"""Rule 1 before the start: foreign keys whose work the log does not show, and that apply could not repeat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.model.checks import CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema
from anabranch.preflight.cascades import check_cascades
from anabranch.rules.rule_set import RuleSet
from rigs.preflight import ALL, HEAD, INT, End, failures, run, table

CASCADE, SET_NULL, RESTRICT = Action.CASCADE, Action.SET_NULL, Action.RESTRICT
PLACE = "foreign key fk to shop.a (ON DELETE CASCADE, ON UPDATE RESTRICT)"


def child(parent: str = "shop.a", on_delete: Action = CASCADE, on_update: Action = RESTRICT) -> TableSchema:
    key = ForeignKey("fk", ("n",), TableId(*parent.split(".")), ("id",), on_delete, on_update)
    return replace(table("shop.b"), foreign_keys=(key,))


def entry(name: str, what: str) -> str:
    return f'[[tables]]\nname = "{name}"\n{what}\n'


def failed(tmp_path: Path, text: str, *tables: TableSchema, shows: bool = False) -> list[str]:
    return failures(run(tmp_path, text, End([table("shop.a"), *tables], shows_cascades=shows), End()))


@pytest.mark.parametrize("name", ["shop.a", "shop.b"])
def test_rule_01_a_filter_at_either_end_of_a_cascade_is_refused(tmp_path: Path, name: str) -> None:
    text = ALL + entry(name, 'where = "id > 1"')
    message = (
        f"job.cascades shop.b: {PLACE} changes rows, which the source's log does not show, and {name} has a filter"
    )
    assert failed(tmp_path, text, child()) == [message]
    assert failed(tmp_path, text, child(on_delete=RESTRICT, on_update=SET_NULL))
    assert failed(tmp_path, text, child(on_delete=RESTRICT)) == []
    assert failed(tmp_path, text, child(), shows=True) == []


def test_rule_01_a_filter_on_a_table_that_cascades_to_itself_is_refused(tmp_path: Path) -> None:
    text = ALL + entry("shop.b", 'where = "id > 1"')
    (message,) = failed(tmp_path, text, child("shop.b"))
    assert message.endswith("and shop.b has a filter")


def test_rule_01_a_filter_elsewhere_is_none_of_its_business(tmp_path: Path) -> None:
    text = ALL + entry("shop.c", 'where = "id > 1"')
    assert failed(tmp_path, text, child(), table("shop.c")) == []


def test_rule_01_a_cascade_from_a_parent_that_the_job_leaves_out_is_refused(tmp_path: Path) -> None:
    text = HEAD + '[[rules]]\ninclude = ["shop.*"]\nexclude = ["shop.a"]\n'
    message = f"{PLACE} changes rows, which the source's log does not show, and the job leaves shop.a out"
    report = run(tmp_path, text, End([table("shop.a"), child()], shows_cascades=False), End())
    assert failures(report) == [f"job.cascades shop.b: {message}"]
    assert report.failed[0].hint == "include shop.a, exclude shop.b, or declare the key with RESTRICT at the source"
    assert failed(tmp_path, ALL, child("crm.a")) != []
    assert failed(tmp_path, text, child(on_delete=RESTRICT)) == []
    assert failed(tmp_path, text, child(), shows=True) == []


def test_rule_01_columns_of_a_cascade_may_not_be_dropped(tmp_path: Path) -> None:
    text = ALL + entry("shop.b", 'columns = { drop = ["n"] }')
    (message,) = failed(tmp_path, text, child())
    assert message.endswith("and the job drops shop.b.n")


def test_rule_01_columns_of_a_cascade_may_not_be_left_out_at_the_target(tmp_path: Path) -> None:
    """Also those of a parent that streams, and that the child is to join."""
    (tmp_path / "job.toml").write_text(ALL)
    found = RuleSet(load_job(tmp_path / "job.toml", {}), MysqlTypes())
    (left,) = check_cascades(found, [child().leaving_out(["n"]), table("shop.a")], found.values)
    assert left.message.endswith("and the target is without shop.b.n")
    (left,) = check_cascades(found, [child()], found.values, [table("shop.a").leaving_out(["id"])])
    assert left.message.endswith("and the target is without shop.a.id")
    (fine,) = check_cascades(found, [child()], found.values, [table("shop.a")])
    assert fine.verdict is CheckVerdict.OK


def test_rule_01_columns_of_a_cascade_may_not_be_computed_by_the_target(tmp_path: Path) -> None:
    """Apply has no values of such a column. One beside the key is none of its business."""
    computed = Column("n", INT, "int", generated=True, expression="`id` * 2", computed_from=("id",))
    plain = Column("m", INT, "int")
    whole = ForeignKey("fk", ("n",), TableId("shop", "a"), ("n",), CASCADE, RESTRICT)
    beside = replace(whole, columns=("m",), parent_columns=("id",))

    def checked(parent: Column, own: Column, key: ForeignKey) -> list[str]:
        a, b = table("shop.a"), table("shop.b")
        tables = [
            replace(a, columns=(a.columns[0], parent), engine="InnoDB"),
            replace(b, columns=(b.columns[0], own, plain), foreign_keys=(key,), engine="InnoDB"),
        ]
        return failures(run(tmp_path, ALL, End(tables, shows_cascades=False), End(), types=MysqlTypes("mysql")))

    (at_parent,) = checked(computed, replace(plain, name="n"), whole)
    assert at_parent.startswith(f"job.cascades shop.b: {PLACE} changes rows") and at_parent.endswith(
        "computes shop.a.n"
    )
    assert checked(replace(plain, name="n"), computed, beside) == []


def test_rule_01_cascades_that_apply_can_repeat_are_counted(tmp_path: Path) -> None:
    report = run(tmp_path, ALL, End([table("shop.a"), child()], shows_cascades=False), End())
    assert [r.message for r in report.results if r.check == "job.cascades"] == [
        "1 foreign keys change rows without a record in the log; apply makes these changes at the target"
    ]


def test_rule_01_tables_that_remove_each_others_rows_are_refused(tmp_path: Path) -> None:
    """Neither can be loaded before the other. One that only clears a column leads no further."""

    def circle(action: Action) -> list[str]:
        back = ForeignKey("back", ("n",), TableId("shop", "b"), ("id",), action, RESTRICT)
        tables = [replace(table("shop.a"), foreign_keys=(back,)), child()]
        return failures(run(tmp_path, ALL, End(tables, shows_cascades=False), End()))

    first, second = circle(CASCADE)
    assert first.startswith("job.cascades shop.a: shop.a and shop.b remove each other's rows") and "shop.b:" in second
    assert circle(SET_NULL) == []
    assert failed(tmp_path, ALL, child("shop.b")) == []
