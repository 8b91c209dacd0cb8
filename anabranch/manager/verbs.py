"""The commands that somebody may have the manager carry out, and the role that each needs.

A command that is not in the table is not offered, nor is one that reads or writes files of its own. What does not live here:
the commands' options, which the command line hands in (`cli/offered.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.manager.callers import Role
from anabranch.model.commands import Given

VIEWER, OPERATOR, ADMINISTRATOR = Role.VIEWER, Role.OPERATOR, Role.ADMINISTRATOR
HARMLESS = frozenset(("--json", "--target", "--log-level"))


@dataclass(frozen=True, slots=True)
class Needs:
    """The role that a command needs. `more`: options that need another one; `looks`: options with which, and with harmless
    ones alone, it only looks."""

    role: Role
    more: Mapping[str, Role] = field(default_factory=dict)
    looks: frozenset[str] = frozenset()

    def of(self, given: Given) -> Role:
        """Return the role that a command line needs."""
        names = {name for name, _ in given.options}
        asked = names - HARMLESS
        if len(asked) == 1 and asked <= self.looks:
            return VIEWER
        return max((self.role, *(self.more.get(name, VIEWER) for name in names)), key=list(Role).index)


_SWITCH = Needs(OPERATOR, looks=frozenset(("--plan", "--status")))
OFFERED: Mapping[str, Needs] = {
    "status": Needs(VIEWER, {"--reset-counters": OPERATOR}),
    "metrics": Needs(VIEWER),
    # What never ends takes a place; the two others change what parts that run note and log.
    "trace": Needs(VIEWER, {"--follow": OPERATOR, "--record": OPERATOR, "--log": OPERATOR}),
    "verify": Needs(VIEWER, {"--repair": OPERATOR, "--watch": OPERATOR, "--max-pause": OPERATOR}),
    "preflight": Needs(VIEWER),
    "plan": Needs(VIEWER, {"--execute": OPERATOR}),
    "setup": Needs(VIEWER, {"--execute": ADMINISTRATOR}),
    "rules explain": Needs(VIEWER),
    "rules export": Needs(VIEWER),
    "rules preview": Needs(VIEWER),
    "schema diff": Needs(VIEWER),
    "schema export": Needs(VIEWER),
    "schema ls": Needs(VIEWER),
    "schema print": Needs(VIEWER),
    "schema show": Needs(VIEWER),
    "schema rebuild": Needs(OPERATOR),
    "trail check": Needs(VIEWER),
    "trail ls": Needs(VIEWER),
    "trail show": Needs(OPERATOR),  # values of rows
    "trail prune": Needs(ADMINISTRATOR),
    "trail rekey": Needs(ADMINISTRATOR),
    "conflicts ls": Needs(OPERATOR),  # values of rows, with --json all of them
    "conflicts show": Needs(OPERATOR),  # values of rows
    "conflicts forget": Needs(OPERATOR),
    "ddl ls": Needs(VIEWER),
    "ddl show": Needs(VIEWER),
    "ddl plan": Needs(VIEWER),
    "ddl approve": Needs(OPERATOR),
    "ddl skip": Needs(OPERATOR),
    "ddl replace": Needs(ADMINISTRATOR),  # runs any statement as the job's user
    "parked ls": Needs(OPERATOR),  # values of rows that are set aside, with --json all of them
    "parked show": Needs(OPERATOR),  # values of rows
    "parked resume": Needs(OPERATOR),
    "parked reload": Needs(OPERATOR),
    "parked drop": Needs(OPERATOR),
    "parked release": Needs(OPERATOR),
    "parked discard": Needs(OPERATOR),
    "skip ls": Needs(VIEWER),
    "skip add": Needs(OPERATOR),
    "skip remove": Needs(OPERATOR),
    "load": Needs(OPERATOR),
    "rewind": Needs(OPERATOR),
    "arm": Needs(OPERATOR),
    "drill": Needs(OPERATOR),
    "cutover": _SWITCH,
    "failback": _SWITCH,
    "reverse": Needs(ADMINISTRATOR),  # it repeats the URLs of the job file
    "drop": Needs(ADMINISTRATOR),
}
