"""Settings that a job may not change between two starts without a decision (K32), and how a change is described.

User, password and options of an end, and every tuning value, may change freely. What does not live here: storing the
definition (`anabranch.job` at the target), or acting on a change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.databases import OPTIONS, SOURCE, TARGET, Options


@dataclass(frozen=True, slots=True)
class _Stored:
    """Place of an option in a stored definition, and its value in a job that ran before it was stored."""

    path: tuple[str, ...]
    before: str | bool | None


# Options that were stored before connectors owned them stay where the release before looks for them. An option that a database
# gets later, and that may not change freely, has a line here for what jobs of before had.
_STORED: Mapping[tuple[str, str], _Stored] = {
    (SOURCE, "decoder"): _Stored(("decoder",), "pgoutput"),
    (TARGET, "json"): _Stored(("json",), "jsonb"),
    (TARGET, "geometry"): _Stored(("types", "geometry"), "bytea"),
    (TARGET, "vector"): _Stored(("types", "vector"), "real[]"),
    (TARGET, "computed"): _Stored((OPTIONS, TARGET, "computed"), "computed"),
    (TARGET, "arrays"): _Stored((OPTIONS, TARGET, "arrays"), "text"),
    (TARGET, "composites"): _Stored((OPTIONS, TARGET, "composites"), "text"),
    (TARGET, "mode"): _Stored((OPTIONS, TARGET, "mode"), "table"),
    (TARGET, "transactions"): _Stored((OPTIONS, TARGET, "transactions"), ""),
    (TARGET, "table_partitions"): _Stored((OPTIONS, TARGET, "table_partitions"), None),
    (TARGET, "schema_changes"): _Stored((OPTIONS, TARGET, "schema_changes"), False),
}


def with_options(definition: dict[str, Any], options: Mapping[str, Options]) -> dict[str, Any]:
    """Add the options of both roles that may not change freely to a job's definition."""
    for role, one in options.items():
        for key in sorted(one.NEEDS_LOAD):
            *above, last = _path(role, key)
            place = definition
            for name in above:
                place = place.setdefault(name, {})
            place[last] = getattr(one, key)
    return definition


def options_of(before: Mapping[str, Any], role: str, now: Options) -> Options:
    """Return the options of a stored definition, as far as they may not change freely; the others are as `now`."""
    return replace(now, **{key: _value(before, role, key) for key in now.NEEDS_LOAD})


def _path(role: str, key: str) -> tuple[str, ...]:
    stored = _STORED.get((role, key))
    return stored.path if stored else (OPTIONS, role, key)


def _value(stored: Mapping[str, Any], role: str, key: str) -> Any:
    found: Any = stored
    for name in _path(role, key):
        found = found.get(name) if isinstance(found, Mapping) else None
    known = _STORED.get((role, key))
    return known.before if found is None and known else found


@dataclass(frozen=True, slots=True)
class Change:
    """Something that the job file says otherwise than before. `what`: the key, with the rule or table that it is of. `role`:
    of an option, the end that it belongs to."""

    what: str
    before: object
    after: object
    role: str = ""

    def __str__(self) -> str:
        return f"{self.what}: was {_shown(self.before)}, is {_shown(self.after)}"


WHERE, FORM = "source", "[target] form"  # another one is another job
JSON = f"[{TARGET}.{OPTIONS}] json"
TEXTS_AS_JSON = frozenset(f"[{TARGET}.{OPTIONS}] {key}" for key in ("arrays", "composites"))


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the differences that need tables to be loaded again; empty = the job may go on."""
    ends = [
        None if _is_one(old["source"], new["source"]) else Change(WHERE, old["source"], new["source"]),
        _changed(FORM, *(some.get("form", "rows") for some in (old, new))),
        *(_option(old, new, role, key) for role, key in _options(old, new)),
        _changed("[ddl] ghost_tables", *(some.get("ghosts", []) for some in (old, new))),
        _changed("[types] map", *(some.get("types", {}).get("map", {}) for some in (old, new))),
    ]
    found = [*ends, *_rules(old["rules"], new["rules"]), *_tables(old["tables"], new["tables"])]
    return [change for change in found if change is not None]


def _is_one(before: str, after: str) -> bool:
    """Return whether two sources are one: a server may join those that a URL names, or leave them. What is read there is
    compared with the trail by whoever reads it."""
    places = [re.fullmatch(r"(\w+)://(.*)/([^/]*)", one) for one in (before, after)]
    old, new = (found and (found[1], found[3], _plain(found[2])) for found in places)
    if not old or not new:
        return before == after
    return old[:2] == new[:2] and not old[2].isdisjoint(new[2])


def _plain(place: str) -> set[str]:
    """Return addresses without the brackets of an IPv6 host, as former releases stored it."""
    return {re.sub(r"^\[([^]/]*)\]", r"\1", one) for one in place.split(",")}


def _options(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and key of each option that one of the two may have."""
    others = {(role, key) for some in (old, new) for role, values in some.get(OPTIONS, {}).items() for key in values}
    return [*_STORED, *sorted(others - _STORED.keys())]


def _option(old: Mapping[str, Any], new: Mapping[str, Any], role: str, key: str) -> Change | None:
    found = _changed(f"[{role}.{OPTIONS}] {key}", *(_value(some, role, key) for some in (old, new)))
    return found and replace(found, role=role)


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
