"""The job file of the way back, as text: what it says, and beside it what was decided and why.

URLs and settings stand as the job's own file writes them, so variables stay variables. What does not live here: the decisions
about tables (`way_back.py`), writing the file (`lifecycle/reversing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.config.toml_text import comment_of, key_of, text_of
from anabranch.model.markers import origin_of
from anabranch.model.way_back_names import NAME_LIMIT, name_of
from anabranch.rules.inverted import inverted
from anabranch.rules.way_back import TableBack, WayBack

DRILL = "-drill"
_NONE: Mapping[str, Any] = {}
WIDTH = 118  # of a line of names
# Sections that say how a job works, at whichever end, and their keys that belong to one end or to one direction.
CARRIED: Mapping[str, tuple[str, ...]] = {
    "capture": ("server_id", "decoder", "heartbeat_interval_s", "held_log_warning_mb", "binary", "streaming"),
    "apply": ("on_conflict", "truncate", "triggers"),
    "spark": (),
    "trace": (),
}
WHY_LEFT = {
    "capture": "settings of the database that the job reads",
    "apply": "on_conflict: if both sides won, rows would be swapped for ever; truncate, triggers: settings of the job's target",
}


def reverse_file(raw: Mapping[str, Any], back: WayBack, written: str) -> str:
    """Return the text. `raw`: the job's own file, as it is written. `written`: when, and from which file, for its first line.
    Raises ValueError where no rules bring the tables back."""
    return "\n".join(_lines(raw, back, written)) + "\n"


def drill_name_of(job: str) -> str:
    """Return the name of the job that a drill runs."""
    return job[: NAME_LIMIT - len(DRILL)] + DRILL


def drill_file(raw: Mapping[str, Any], back: WayBack, written: str, options: Mapping[str, Any] = _NONE) -> str:
    """Return the file of a drill: the way back into other tables (`back.tables`), which are loaded, and which take what the job
    itself writes. `options`: of its target. Raises ValueError where no rules bring the tables there."""
    return "\n".join(_drill_lines(raw, back, written, options)) + "\n"


def _drill_lines(raw: Mapping[str, Any], back: WayBack, written: str, options: Mapping[str, Any]) -> Iterator[str]:
    job = str(raw["name"])
    yield f"# The drill of the way back of the job {comment_of(job)}: {comment_of(written)}."
    yield "# anabranch drill made it and removes it: anabranch drill JOB --clean after a kill."
    yield f"name = {text_of(drill_name_of(job))}"
    yield ""
    yield from ("[source]", f"url = {text_of(_target(raw)['url'])}", "")
    yield from ("[target]", f"url = {text_of(raw['source']['url'])}")
    yield from (f"options.{key_of(key)} = {text_of(value)}" for key, value in options.items())
    yield ""
    yield from _rules(back)
    for table in back.tables:
        yield from _table(table)
    yield from _settings(raw)


def _lines(raw: Mapping[str, Any], back: WayBack, written: str) -> Iterator[str]:
    job = str(raw["name"])
    yield f"# The way back of the job {comment_of(job)}: {comment_of(written)}."
    yield "# Before anybody but that job writes to its target: anabranch preflight FILE, anabranch arm FILE; after that"
    yield "# anabranch run FILE. The page `migrate with a way back` of the documentation has the whole of it."
    yield f"name = {text_of(name_of(job))}"
    yield ""
    yield from _ends(raw, job)
    yield from _rules(back)
    for table in back.tables:
        yield from _table(table)
    yield "# The tables stand there with all their rows: nothing is loaded, and nothing is emptied. The job begins where"
    yield "# `anabranch arm` puts it."
    yield from ("[load]", 'existing = "take_over"', "")
    yield "# A table whose definition changes here is parked: nobody alters those of the source by altering these."
    yield from ("[ddl]", 'action = "park"', "")
    yield from _settings(raw)


def _ends(raw: Mapping[str, Any], job: str) -> Iterator[str]:
    source, target = raw["source"], _target(raw)
    yield "# The ends are exchanged. The user of each URL needs the rights of its new role: preflight says which are missing."
    yield "[source]"
    yield f"url = {text_of(target['url'])}"
    yield f"# What the job {comment_of(job)} writes there came from here, and does not come back."
    yield f"leave_out = [{text_of(origin_of(job))}]"
    yield from _left(
        "options", target.get("options"), "how values stand at the job's target: types below say what is chosen"
    )
    yield ""
    yield "[target]"
    yield f"url = {text_of(source['url'])}"
    yield from _left("options", source.get("options"), "settings of reading that database, and of no other")
    yield ""


def _target(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the section of the only target."""
    found: Mapping[str, Any] = raw["target"] if "target" in raw else raw["targets"][0]
    return found


def _left(what: str, values: Mapping[str, Any] | None, why: str) -> Iterator[str]:
    if values:
        yield f"# left out: {what} {', '.join(map(comment_of, values))} ({why})"


def _rules(back: WayBack) -> Iterator[str]:
    yield "# Each table by its name: one that somebody makes beside them has no place to go back to."
    for rule in inverted((table.read, table.written) for table in back.tables):
        yield "[[rules]]"
        yield from _include(rule.include)
        yield f"target = {text_of(rule.target)}"
        yield ""
    for table, why in sorted(back.left_out.items()):
        yield f"# {comment_of(str(table))} does not go back: {comment_of(why)}"
    if back.left_out:
        yield ""


def _include(names: tuple[str, ...]) -> Iterator[str]:
    line = f"include = {text_of(names)}"
    if len(line) <= WIDTH:
        yield line
        return
    yield "include = ["
    yield from (f"    {text_of(name)}," for name in names)
    yield "]"


def _table(table: TableBack) -> Iterator[str]:
    if not (table.rename or table.drop or table.types):
        return
    yield "[[tables]]"
    yield f"name = {text_of(str(table.read))}"
    if table.drop:
        for name, why in table.drop.items():
            yield f"# {comment_of(name)} does not go back: {comment_of(why)}"
        yield f"columns.drop = {text_of(list(table.drop))}"
    if table.rename:
        yield f"columns.rename = {text_of(table.rename)}"
    if table.types:
        yield "# as these columns stand at the source"
        yield f"columns.type = {text_of(table.types)}"
    yield ""


def _settings(raw: Mapping[str, Any]) -> Iterator[str]:
    for section, not_carried in CARRIED.items():
        values: Mapping[str, Any] = raw.get(section, {})
        left = [key for key in values if key in not_carried]
        kept = {key: value for key, value in values.items() if key not in left}
        if left:
            yield f"# left out: [{section}] {', '.join(left)} ({WHY_LEFT[section]})"
        if kept:
            yield f"[{section}]"
            yield from (f"{key_of(key)} = {text_of(value)}" for key, value in kept.items())
        if left or kept:
            yield ""
    yield from _retry(raw.get("retry", {}))
    gone = [name for name in ("types", "reverse") if raw.get(name)]
    if loads := [key for key in raw.get("load", {}) if key != "existing"]:
        gone.append(f"load ({', '.join(loads)})")
    if gone:
        yield f"# left out, as they are about the way there: [{'], ['.join(gone)}]"


def _retry(values: Mapping[str, Any]) -> Iterator[str]:
    """Exchange the limits of both ends: they are about a server, not about its role."""
    if not values:
        return
    turned = {{"source": "target", "target": "source"}.get(name, name): value for name, value in values.items()}
    if plain := {name: value for name, value in turned.items() if not isinstance(value, Mapping)}:
        yield "[retry]"
        yield from (f"{key_of(name)} = {text_of(value)}" for name, value in plain.items())
        yield ""
    for name, value in turned.items():
        if isinstance(value, Mapping):
            yield f"[retry.{key_of(name)}]"
            yield from (f"{key_of(key)} = {text_of(one)}" for key, one in value.items())
            yield ""
