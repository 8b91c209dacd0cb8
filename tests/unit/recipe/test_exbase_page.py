"""The page for those who come from exBase: every name that it says is ours is there, and it leaves none of the states out."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch import errors
from anabranch.connectors.mysql.target import progress_view as at_mysql
from anabranch.connectors.postgresql.target import progress_view as at_postgresql
from anabranch.errors import AnabranchError
from anabranch.model.condition import STATES
from anabranch.recipe.written import steps_by_check

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "howto" / "coming-from-exbase.md").read_text()
STATUS = (ROOT / "docs" / "reference" / "status.md").read_text()
# Of a state's error, beside what each error says of itself.
OF_ERROR = {"message", "at", "retried", "hint", "job"}


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    text = PAGE.split(f" {heading}\n", 1)[1]
    lines = [line for line in re.split(r"\n#+ ", text)[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_state_is_on_the_page_with_its_sub_states() -> None:
    found: dict[str, set[str]] = {}
    for _, state, details in table("States"):
        found.setdefault(names(state)[0], set()).update(names(details))
    assert found == {state: set(details) for state, details in STATES.items()}


def test_facts_of_errors_are_there() -> None:
    facts = AnabranchError("x").facts().keys() | OF_ERROR
    rows = [here for exbase, here in table("Jobs, tasks and errors") if "parts[]" not in here and "phase" not in here]
    said = [names(here)[0] for here in rows]
    assert set(said) - {"state"} <= facts, said
    assert {"code", "side", "task", "exit_code", "retried"} <= set(said)
    assert all(f"`{key}`" in STATUS or f"{key}," in STATUS for key in ("parts", "phase", "state"))


def test_codes_and_checks_are_there() -> None:
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AnabranchError)}
    rows = table("Errors of its guide")
    said = {name for _, cell, _ in rows for name in names(cell)}
    assert said and said <= codes
    checks = {name for *_, cell in rows for name in names(cell) if re.fullmatch(r"(source|target)\.[a-z_]+", name)}
    assert checks and checks <= steps_by_check("postgresql", "postgresql").keys()


def test_columns_of_kafkaoffset_are_those_of_the_views() -> None:
    said = [name for first, *_ in table("`kafkaoffset` at the target") for name in names(first)]
    assert len(said) == 10
    for view in (at_postgresql.CREATE, at_mysql.CREATE):
        assert re.findall(r"AS `?([a-z_]+)`?(?=,|\n  FROM)", view.split("(SELECT job,")[0]) == said
