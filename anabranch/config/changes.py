"""Settings that a job may not change between two starts without a decision (K32), and how a change is described.

User, password and options of an end, and every tuning value, may change freely. What does not live here: storing the
definition (`anabranch.job` at the target), or acting on a change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.config.job import JobConfig


def definition(config: JobConfig) -> dict[str, Any]:
    """Return source, rules, filters, column lists and target types as JSON values, without secrets."""
    source = config.source.endpoint
    return {
        "source": f"{source.scheme}://{source.place}/{source.database}",
        "rules": [rule.model_dump() for rule in config.rules],
        "tables": {
            str(entry.id): {
                "drop": sorted(entry.columns.drop),
                "rename": entry.columns.rename,
                "type": entry.columns.type,
                "where": entry.where,
            }
            for entry in config.tables
        },
        "decoder": config.capture.decoder,
        "json": config.types.json,
        "types": {"geometry": config.types.geometry, "vector": config.types.vector, "map": config.types.map},
    }


@dataclass(frozen=True, slots=True)
class Change:
    """Something that the job file says otherwise than before. `what`: the key, with the rule or table that it is of."""

    what: str
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.what}: was {_shown(self.before)}, is {_shown(self.after)}"


SOURCE, DECODER, JSON = "source", "[capture] decoder", "[types] json"


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the differences that need tables to be loaded again; empty = the job may go on."""
    ends = [
        _changed(SOURCE, _plain(old["source"]), _plain(new["source"])),
        _changed(DECODER, *(some.get("decoder", "pgoutput") for some in (old, new))),
        _changed(JSON, old["json"], new["json"]),
    ]
    types = old.get("types", {}), new.get("types", {})
    chosen = [
        _changed(f"[types] {key}", *(some.get(key, default) for some in types)) for key, default in _TYPES.items()
    ]
    found = [*ends, *chosen, *_rules(old["rules"], new["rules"]), *_tables(old["tables"], new["tables"])]
    return [change for change in found if change is not None]


def _plain(source: str) -> str:
    """Remove the brackets of an IPv6 host, as former releases stored it."""
    return re.sub(r"^(\w+://)\[([^]/]*)\]", r"\1\2", source)


_TYPES: dict[str, Any] = {
    "geometry": "bytea",
    "vector": "real[]",
    "map": {},
}  # as in a job that was run before they were


_ENTRY = {"where": "where", "drop": "dropped columns", "rename": "renamed columns", "type": "types of columns"}


def _changed(what: str, before: object, after: object) -> Change | None:
    return None if before == after else Change(what, before, after)


def _shown(value: object) -> str:
    if not value:
        return "absent"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rules(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[Change | None]:
    found = []
    for number in range(max(len(old), len(new))):
        before = old[number] if number < len(old) else {}
        after = new[number] if number < len(new) else {}
        for key in ("include", "exclude", "target"):
            found.append(_changed(f"rule {number + 1} {key}", before.get(key), after.get(key)))
    return found


def _tables(old: dict[str, Any], new: dict[str, Any]) -> list[Change | None]:
    found = []
    for table in sorted(set(old) | set(new)):
        before, after = old.get(table, {}), new.get(table, {})
        for key, what in _ENTRY.items():  # an entry that says nothing is as good as none
            found.append(_changed(f"table {table} {what}", before.get(key) or None, after.get(key) or None))
    return found
