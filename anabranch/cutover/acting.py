"""Find what will not act on rows of the target as it does at the source: triggers, keys and checks that do not hold.

Looked at in the plan and at the fence, and told; it refuses nothing. A key or check that the job has built, and that some rows
break, is told once, here. What does not live here: what else the job could not build (`TableState.facts.not_built`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.contracts import Acting, ActingEnd, Unproven
from anabranch.cutover.terms import Ends
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.ids import TableId

MAKE = "make it at the target if the application needs it there, so that it leaves the job's rows alone until the flip"
LACKING, OFF, UNPROVEN, UNSEEN = "triggers_lacking", "triggers_off", "unproven", "unseen"
NAMES = (LACKING, OFF, UNPROVEN, UNSEEN)
Finding = Mapping[str, str]


class Told(NamedTuple):
    """Hold a finding for people: the name of the check, of which table of the target, what it is, what to do."""

    check: str
    table: str
    said: str
    hint: str


def look(ends: Ends) -> dict[str, list[Finding]]:
    """Ask both ends. Returns the findings for a note, each list under one of the names above; an empty one is left out. Raises
    only where an end is away."""
    states = ends.store.states.tables(ends.job.config.name)
    there = {t: ends.job.rules.target_table(s.schema).target for t, s in states.items() if s.schema}
    found: dict[str, list[Finding]] = defaultdict(list)
    source = _asked(ends.source, "source", list(there), found)
    target = _asked(ends.target, "target", list(dict.fromkeys(there.values())), found)
    if target is None:
        return dict(found)
    found[LACKING] += _lacking(there, source, target) if source else ()
    off_there = {(there[t.table], t.name.lower()) for t in source.triggers if t.enable} if source else set()
    found[OFF] += [
        {"table": str(t.table), "trigger": t.name, "do": t.enable}
        for t in target.triggers
        if t.enable and (t.table, t.name.lower()) not in off_there
    ]
    lines = [line for _, state in sorted(states.items()) for line in state.facts.not_built]
    found[UNPROVEN] += [_unproven(one, lines) for one in target.unproven]
    return {name: lines for name, lines in found.items() if lines}


def _asked(end: object, role: str, tables: Sequence[TableId], found: Mapping[str, list[Finding]]) -> Acting | None:
    """Ask an end, and note what it does not show. Returns None where it has no triggers, or refuses to tell of them."""
    if not isinstance(end, ActingEnd):
        return None
    try:
        acting = end.acting(tables)
    except (SourceUnavailable, TargetUnavailable):
        raise
    except (SourceError, TargetError) as error:
        found[UNSEEN].append({"end": role, "table": "", "why": error.message, "do": error.hint})
        return None
    why = "the job's user may not see its triggers"
    found[UNSEEN] += [
        {"end": role, "table": str(table), "why": why, "do": do} for table, do in sorted(acting.unseen.items())
    ]
    return acting


def _lacking(there: Mapping[TableId, TableId], source: Acting, target: Acting) -> Iterator[Finding]:
    """Yield triggers that fire at the source and have none of their name at the target, where it shows its own."""
    named = {(trigger.table, trigger.name.lower()) for trigger in target.triggers}
    for one in source.triggers:
        table = there[one.table]
        if not one.enable and table not in target.unseen and (table, one.name.lower()) not in named:
            yield {"table": str(table), "source": str(one.table), "trigger": one.name}


def _unproven(one: Unproven, not_built: Sequence[str]) -> Finding:
    """Return the finding, with what the job itself has said of the constraint as it built it, if it did: that says why."""
    found = {"table": str(one.table), "what": one.said, "do": one.mend}
    subject = one.said.partition(" is NOT ")[0]  # a kind and a name
    own = f"; there its name is {subject.removeprefix('foreign key ')}"  # behind the name of the source's
    for line in not_built:
        if f" of {one.table} " in line and (line.startswith(f"{subject} of ") or line.endswith(own)):
            return {**found, "why": line}
    return found


def not_told(not_built: Sequence[str], facts: Mapping[str, Any]) -> list[str]:
    """Return what the job could not build and is not among the findings."""
    known = {one.get("why") for one in facts.get(UNPROVEN, ())}
    return [line for line in not_built if line not in known]


def told(facts: Mapping[str, Any]) -> Iterator[Told]:
    """Yield what `look` found for people, a table and a kind at a time; also of notes that were made without it."""
    for (table, source), names in _by(facts.get(LACKING, ()), "table", "source").items():
        one = _one(names, "trigger", "triggers")
        yield Told("triggers", table, f"{table} has no {one} of the name, which {source} has at the source", MAKE)
    for (table,), names in _by(facts.get(OFF, ()), "table").items():
        one = _one(names, "trigger", "triggers")
        yield Told(
            "triggers", table, f"an application does not fire {one} of {table}", "; ".join(n["do"] for n in names)
        )
    for one_of in facts.get(UNPROVEN, ()):
        said = one_of.get("why") or f"{one_of['what']}, of {one_of['table']}"
        yield Told("unproven", one_of["table"], said, one_of["do"])
    for one_of in facts.get(UNSEEN, ()):
        of = f" of {one_of['table']}" if one_of["table"] else ""
        said = f"triggers{of} at the {one_of['end']} are not known: {one_of['why']}"
        yield Told("triggers", one_of["table"], said, one_of["do"])


def _by(found: Sequence[Finding], *names: str) -> dict[tuple[str, ...], list[Finding]]:
    grouped: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in found:
        grouped[tuple(one[name] for name in names)].append(one)
    return grouped


def _one(found: Sequence[Finding], word: str, words: str) -> str:
    return f"{word if len(found) == 1 else words} {', '.join(dict.fromkeys(one['trigger'] for one in found))}"
