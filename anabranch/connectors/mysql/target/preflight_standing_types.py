"""Check of types that a job may choose for columns that stand, and not for columns that are to be made."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql.target.enums import LABELLED
from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed
from anabranch.model.checks import CheckResult


def check_labels_there(live: Live) -> Iterator[CheckResult]:
    """Check that columns for which `enum` or `set` is chosen stand already: their labels are not told by that word."""
    for table in live.new():
        for name, type in zip(table.columns, table.types, strict=True):
            if type.target in LABELLED:
                text = f"column {name} cannot be made as {type.target}: the word does not say its labels"
                yield failed("types", text, "make the table beforehand, or choose a text type ([types.map])", table)
