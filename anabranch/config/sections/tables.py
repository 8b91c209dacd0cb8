"""`[[tables]]` of the job file, with `columns` in an entry.

What does not live here: what entries must not share, and filters (`config/entries.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from anabranch.config.section import Section, refuse
from anabranch.config.values import ZeroDate
from anabranch.errors import Problem
from anabranch.model.ids import TableId

MOST_INSTANCES = 2  # of one table, as SQL Server has it


def _table_name(text: str) -> str:
    try:
        TableId.parse(text)
    except ValueError:
        raise refuse(Problem(f"{text!r} names no table", expected='schema.table, like "shop.customers"')) from None
    return text


class Columns(Section):
    """Changes to a table's columns."""

    drop: list[str] = []
    """Columns that are not replicated."""
    rename: dict[str, str] = {}
    """Source column -> target column."""
    type: dict[str, str] = {}
    """Source column -> target type, as in `[types.map]`, over which it takes precedence."""
    zero_date: dict[str, ZeroDate] = {}
    """Source column -> what to write for its invalid dates, as `[types] zero_date`, over which it takes precedence."""

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for names, what in ((self.rename, "renamed"), (self.type, "given a type")):
            both = sorted(set(self.drop) & set(names))
            if both:
                raise refuse(Problem(f"{', '.join(both)}: dropped and {what}", expected="one of the two"))
        return self


class CaptureInstance(Section):
    """A capture instance of a table, where the target has `form = "change_tables"`: one change table of it."""

    name: str = Field(min_length=1)
    """Capture instances where the target has `form = "change_tables"`: `instances = [{ name = "orders_1" }]`, one or two, which
    are all that the table has ([more](../howto/change-tables.md#instances-of-a-table)). The change table is `cdc.<name>_CT`,
    and readers call `fn_cdc_get_all_changes_<name>`. Where absent: one by the rules' name of the table, with all columns."""
    columns: list[str] = []
    """Source columns that it has, in the table's order; all that the table has when the instance is made, where absent."""

    role: str = ""
    """A role of the target's server, which has to be there: it alone gets the right to read the instance, when that is made
    ([more](../howto/change-tables.md#who-may-read)). Where absent, you give rights to readers."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if twice := sorted({name for name in self.columns if self.columns.count(name) > 1}):
            raise refuse(Problem(f"{', '.join(twice)}: named twice", expected="each column once"))
        return self


class TableEntry(Section):
    """Settings of one table. Optional, several."""

    name: Annotated[str, AfterValidator(_table_name)]
    """The source table, exactly, as `schema.table`."""
    columns: Columns = Columns.model_construct()
    where: str | None = Field(default=None, min_length=1)
    """Spark SQL condition over source columns: only rows for which it is true are replicated. It uses key columns only,
    or the source logs full row images."""

    on_conflict: Literal["stop", "source_wins", "target_wins", "ignore_missing", "newest"] | None = None
    """Settle a change whose row is not as expected at the target: it is missing, or it is already there.
    `[apply] on_conflict` when absent. `newest` compares `newest_by`, and keeps the target's row where it is later."""
    newest_by: str | None = Field(default=None, min_length=1)
    """The source column that says how new a row is, for `on_conflict = "newest"`: a number, a date or a time."""

    delta: list[str] = []
    """Source columns of a table of a [pair] that are added up: what one site adds or takes away is added or taken away at the
    other one, too, whichever row is newer. Whole numbers and decimals, NOT NULL, of the same type at both sites."""

    wins: str | None = Field(default=None, min_length=1)
    """The site of a [pair] whose row of this table stays where both sites have changed it, however new the two are: `site` or
    `other`. Both files name the same. `newest_by` tells, there too, which row a change was made from."""

    instances: list[CaptureInstance] = []

    @model_validator(mode="after")
    def _few_instances(self) -> Self:
        if len(self.instances) > MOST_INSTANCES:
            what = f"{len(self.instances)} instances of {self.name}"
            raise refuse(Problem(what, expected="one or two: leave one out when nobody reads it any more"))
        names = [one.name for one in self.instances]
        if len(set(names)) < len(names):
            raise refuse(Problem(f"two instances of {self.name} are called {names[0]}", expected="a name for each"))
        return self

    @model_validator(mode="after")
    def _newest_by_a_column(self) -> Self:
        if self.on_conflict == "newest" and self.newest_by is None:
            raise refuse(
                Problem('on_conflict = "newest" needs newest_by', expected='a column, like newest_by = "changed_at"')
            )
        if self.on_conflict != "newest" and self.newest_by is not None:
            raise refuse(Problem("newest_by has no effect", expected='it together with on_conflict = "newest"'))
        return self

    @property
    def id(self) -> TableId:
        return TableId.parse(self.name)
