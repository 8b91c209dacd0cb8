"""`[source.options]` and `[target.options]`: the settings that one database has in one role, of its connector's own class.

They are checked before the rest of the file, by models made of those classes, and so are the places where some of them stood
before they were their connectors': FORMER. Those stay valid, with the same meaning, for every target that has the key.
What does not live here: the settings themselves (`connectors/<db>/<role>/options.py`), the words of a problem
(`reading.py`), what a changed one means (`changes.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from anabranch.config.lines import Path as KeyPath
from anabranch.config.section import Section
from anabranch.databases import OPTIONS, SOURCE, TARGET, Database, Options, public, registry
from anabranch.errors import Problem

# Section and key that options had in job files until they had a section of their own -> the role.
FORMER: Mapping[tuple[str, str], str] = {
    ("capture", "server_id"): SOURCE,
    ("capture", "decoder"): SOURCE,
    ("capture", "heartbeat_interval_s"): SOURCE,
    ("capture", "held_log_warning_mb"): SOURCE,
    ("capture", "binary"): SOURCE,
    ("capture", "streaming"): SOURCE,
    ("types", "large_objects"): SOURCE,
    ("types", "json"): TARGET,
    ("types", "geometry"): TARGET,
    ("types", "vector"): TARGET,
}

_models: dict[type[Options], type[BaseModel]] = {}


@dataclass
class Settled:
    """`data`: the job file with its options as values, and without their former places. `wrong`: what pydantic says of them,
    with the key's place in the file. `unused`: former places that hold what no database of the job has. `former`: the
    places of options that stand where they stood before -> where."""

    data: dict[str, Any]
    problems: list[tuple[KeyPath, Problem]] = field(default_factory=list)
    wrong: list[ErrorDetails] = field(default_factory=list)
    unused: list[tuple[str, str]] = field(default_factory=list)
    former: dict[KeyPath, KeyPath] = field(default_factory=dict)


@dataclass(frozen=True)
class _End:
    place: KeyPath
    role: str
    entry: dict[str, Any]


def settle(data: Mapping[str, Any]) -> Settled:
    """Check the options of all ends, and take former places out. Values of a wrong kind are left to the models."""
    found = Settled({key: _copied(value) for key, value in data.items()})
    former = {place: _taken(found.data, *place) for place in FORMER if _stands(found.data, *place)}
    used = set[tuple[str, str]]()
    for end in _ends(found.data):
        kind = _class(end)
        if kind is None:  # which is another problem
            end.entry[OPTIONS] = Options()
            used |= {place for place in former if FORMER[place] == end.role}
            continue
        mine = {place: value for place, value in former.items() if FORMER[place] == end.role and place[1] in keys(kind)}
        used |= mine.keys()
        end.entry[OPTIONS] = _settled(found, end, kind, mine)
    for section, key in former.keys() - used:
        found.unused.append((section, key))
        _check(found, _owner(FORMER[section, key], key), {key: former[section, key]}, {key: (section, key)})
    found.unused.sort()
    return found


def _settled(found: Settled, end: _End, kind: type[Options], former: Mapping[tuple[str, str], Any]) -> Options:
    given, here = end.entry.get(OPTIONS, {}), (*end.place, OPTIONS)
    if not isinstance(given, dict):
        found.problems.append((here, Problem("is not a section", expected="a section")))
        return kind()
    values, places = dict[str, Any](given), {key: (*here, key) for key in given}
    for place, value in former.items():
        section, key = place
        if key not in given:
            values[key], places[key] = value, place
            found.former[FORMER[place], OPTIONS, key] = place
        elif (type(given[key]), given[key]) != (type(value), value):
            text = f"is {given[key]!r} here, and {value!r} in [{section}] {key}, where it stood before"
            found.problems.append(((*here, key), Problem(text, expected="one of the two")))
    return _check(found, kind, values, places) or kind()


def _check(
    found: Settled, kind: type[Options], values: Mapping[str, Any], places: Mapping[str, KeyPath]
) -> Options | None:
    try:
        return kind(**dict(model_of(kind).model_validate(dict(values))))
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][0])
            if detail["type"] == "extra_forbidden":
                found.problems.append((places[key], _unknown(kind, key)))
            else:
                found.wrong.append({**detail, "loc": (*places[key], *detail["loc"][1:])})
    return None


def _unknown(kind: type[Options], key: str) -> Problem:
    names = list(keys(kind))
    of = ", ".join(owners(key))
    return Problem(
        f"unknown key; it is an option of {of}" if of else "unknown key",
        expected=f"one of {', '.join(names)}" if names else "none",
        nearest="".join(get_close_matches(key, names, 1)),
    )


def owners(key: str) -> list[str]:
    """Return the names of the databases that have such an option in some role."""
    return [one.name for one in public() if any(key in keys(one.options_of(role)) for role in one.roles)]


def model_of(kind: type[Options]) -> type[BaseModel]:
    """Return a model that checks options as every other section is checked; it is made once, which takes a millisecond."""
    if kind not in _models:
        _models[kind] = _made(kind)
    return _models[kind]


def _made(kind: type[Options]) -> type[BaseModel]:
    hints = get_type_hints(kind, include_extras=True)  # with bounds of what stands in a table
    made = {one.name: (hints[one.name], Field(default=one.default, **one.metadata)) for one in fields(kind)}
    with warnings.catch_warnings():
        # A key may be called `json` or `schema`; they hide deprecated methods of pydantic that nobody here calls.
        warnings.filterwarnings("ignore", message='Field name "(json|schema)"')
        model: type[BaseModel] = create_model(kind.__name__, __config__=Section.model_config, **made)  # type: ignore[call-overload]  # names and types are data here
    return model


def build_models() -> None:
    """Build the validators of all options, for forks of this process to share, as build_sections does for sections."""
    for role in (SOURCE, TARGET):
        for kind in classes(role):
            model_of(kind).model_rebuild()


def keys(kind: type[Options]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _class(end: _End) -> type[Options] | None:
    """Return None where the URL names no database, or none in this role."""
    url = end.entry.get("url", end.entry.get("endpoint"))
    database = registry().get(url.partition("://")[0]) if isinstance(url, str) else None
    return database.options_of(end.role) if database and end.role in database.roles else None


def _owner(role: str, key: str) -> type[Options]:
    """Return the class that has this option, of whatever database."""
    return next(kind for kind in classes(role) if key in keys(kind))


def classes(role: str) -> Iterator[type[Options]]:
    """Return each class of options of a role once, in the registry's order."""
    return iter(dict.fromkeys(one.options_of(role) for one in public(role)))


def databases_of(kind: type[Options], role: str) -> list[Database]:
    return [one for one in public(role) if one.options_of(role) is kind]


def _ends(data: dict[str, Any]) -> Iterator[_End]:
    for role in (SOURCE, TARGET):
        if isinstance(entry := data.get(role), dict):
            yield _End((role,), role, entry)
    entries = data.get("targets", [])
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            yield _End(("targets", number), TARGET, entry)


def _copied(value: Any) -> Any:
    """Copy sections and lists of them, as deep as something is taken out or put in."""
    if isinstance(value, dict):
        return dict(value)
    return [dict(one) if isinstance(one, dict) else one for one in value] if isinstance(value, list) else value


def _stands(data: Mapping[str, Any], section: str, key: str) -> bool:
    return isinstance(data.get(section), dict) and key in data[section]


def _taken(data: dict[str, Any], section: str, key: str) -> Any:
    return data[section].pop(key)
