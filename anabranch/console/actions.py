"""Actions that pages offer beside start and stop: the command that each has carried out, and what comes of it, for people.

What does not live here: asking before it is done (`action_pages.py`), who may have a command carried out (`manager/verbs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """The thing that an action is about, as a page's form sends it. `target`: "" of the only one; `number`: of a change."""

    table: str = ""
    target: str = ""
    number: int | None = None
    sql: str = ""

    @property
    def name(self) -> str:
        """Say what the action is about."""
        change = f"change {self.number}" if self.number is not None else ""
        what = " of ".join(filter(None, (change, self.table)))
        return " at ".join(filter(None, (what, self.target)))

    @property
    def options(self) -> list[str]:
        """The option that names the target."""
        return [f"--target={self.target}"] if self.target else []


@dataclass(frozen=True)
class Action:
    """An action. `button`: its verb; `needs`: what it has to be about, `table` or `number`; `comes`: what comes of it, each a
    sentence; `takes_sql`: whether the person may give a statement with it."""

    verb: str
    button: str
    comes: tuple[str, ...]
    words: Callable[[About], list[str]]
    needs: str = ""
    takes_sql: bool = False

    def arguments(self, about: About) -> list[str]:
        """Return the arguments of the command, behind the job."""
        return [*about.options, *self.words(about)]


def _table(about: About) -> list[str]:
    return ["--", about.table]


def _rows(about: About) -> list[str]:
    which = "--all" if about.number is None else f"--number={about.number}"
    return [which, "--", about.table]


def _number(about: About) -> list[str]:
    return ["--", str(about.number)]


def _statement(about: About) -> list[str]:
    return [*([f"--sql={about.sql}"] if about.sql else []), *_number(about)]


_LATER = "Apply does it while it runs, or when it starts."
ACTIONS: Mapping[str, Action] = {
    "resume": Action(
        "parked resume",
        "Resume",
        (
            "The table goes on from where it was parked, with those that were parked together with it: what the trail has kept "
            "for it is applied, in order, and then it joins the others.",
            "Where the target still refuses the row, the table is parked again, and nothing is lost.",
            _LATER,
        ),
        _table,
        "table",
    ),
    "reload": Action(
        "parked reload",
        "Load again",
        (
            "The target's table is emptied, and all of its rows are copied from the source again: until that is done, who "
            "reads it finds less than the source has, or nothing.",
            "Where its definition has changed since, the command says so, and does nothing.",
            "What was set aside of it, and what the trail kept for it, is forgotten. The table joins when the stream has "
            "caught up.",
            "The source is read once more, from beginning to end: this takes as long as its first load.",
        ),
        _table,
        "table",
    ),
    "recreate": Action(
        "parked reload",
        "Make it anew, and load",
        (
            "The target's table is dropped, and made again as the source has it now. What people have granted on it is given "
            "back; a view on it may keep the target from that, and then nothing is done.",
            "All of its rows are copied: until that is done, who reads the table finds less than the source has, or nothing.",
            "What was set aside of it, and what the trail kept for it, is forgotten. The table joins when the stream has "
            "caught up.",
        ),
        lambda about: ["--recreate", *_table(about)],
        "table",
    ),
    "give-up": Action(
        "parked drop",
        "Give up what is held",
        (
            "The trail no longer keeps the changes of this table, nor of those that were parked with it: its room on the disk "
            "is free again.",
            "This cannot be taken back: from then on only a load brings the table back.",
        ),
        _table,
        "table",
    ),
    "release": Action(
        "parked release",
        "Apply the rows again",
        (
            "The rows that are set aside are tried again, each with all later changes of it, in order.",
            "What the target still refuses stays set aside.",
            _LATER,
        ),
        _rows,
        "table",
    ),
    "discard": Action(
        "parked discard",
        "Discard the rows",
        (
            "The target keeps its version of the rows, or stays without them: both ends differ there from now on.",
            "Later changes of these rows are applied to what the target has. What is discarded stays on record.",
            "This cannot be taken back. " + _LATER,
        ),
        _rows,
        "table",
    ),
    "verify": Action(
        "verify",
        "Compare",
        (
            "Both ends are read and compared: sums of every table, then the rows that differ. Nothing is changed.",
            "The job and its writers go on; differences are looked at again, and what is not decided in time is pending.",
            "Both ends have the load of reading their tables once.",
        ),
        lambda about: [],
    ),
    "sample": Action(
        "verify",
        "Compare a sample",
        (
            "Of each table 5 % of the rows are compared, by ranges of its key that are drawn anew each time.",
            "Nothing is changed.",
            "A sample that is identical says so of these rows alone.",
        ),
        lambda about: ["--sample=5%"],
    ),
    "repair": Action(
        "verify",
        "Compare and repair",
        (
            "Both ends are compared, and rows that differ are written at the target as the source has them: what somebody has "
            "written there by hand in these rows is gone.",
            "Apply does it, in order with everything else; then these rows are compared again.",
        ),
        lambda about: ["--repair"],
    ),
    "approve": Action(
        "ddl approve",
        "Carry it out",
        (
            "The change is carried out at the target's table, which goes on from there by what the trail has kept, and then "
            "joins the others.",
            _LATER,
        ),
        _number,
        "number",
    ),
    "skip-change": Action(
        "ddl skip",
        "Go on without it",
        (
            "The target's table stays as it is: both ends differ in their definition from now on. A dropped column stays, with "
            "NULL in rows that come; an added one is not there.",
            "Where rows would not fit, this is refused, and nothing is done.",
            _LATER,
        ),
        _number,
        "number",
    ),
    "replace": Action(
        "ddl replace",
        "Go on with the table as I have altered it",
        (
            "In place of what the job would do, the statement below is run at the target as the job's user; or none, where you "
            "have altered the table already.",
            "The table is looked at then. Where it does not take the rows behind the change, this is refused.",
            "What its rows have in columns that came or changed is your word.",
        ),
        _statement,
        "number",
        takes_sql=True,
    ),
    "plan-cutover": Action(
        "cutover",
        "Look what is in the way",
        ("It is looked at what keeps a cut-over from being begun. Nothing is changed at either end.",),
        lambda about: ["--plan"],
    ),
    "cutover": Action(
        "cutover",
        "Cut over",
        (
            "The source is fenced: from then on it refuses writes to the job's tables, and the application stands still.",
            "The target is brought to the fence, counters are set, foreign keys are switched on, and the command of [cutover] "
            "flip switches the application to the target. Downtime is from the fence to the end of that command.",
            "An error before the flip opens the source again, and the target follows on. Behind the flip there is no way back "
            "by this: only a way back that was armed.",
            "Where it was begun already, it goes on with the step that comes next.",
        ),
        lambda about: [],
    ),
    "abort-cutover": Action(
        "cutover",
        "Take it back",
        (
            "The fence is lifted: the source takes writes again, and the target follows.",
            "It is refused behind the flip, and where nobody knows how the flip command ended.",
        ),
        lambda about: ["--abort"],
    ),
    "plan-failback": Action(
        "failback",
        "Look what is in the way back",
        ("It is looked at what keeps a return to the source from being begun. Nothing is changed at either end.",),
        lambda about: ["--plan"],
    ),
    "failback": Action(
        "failback",
        "Return to the source",
        (
            "The target is fenced: from then on it refuses writes to the job's tables, and the application stands still.",
            "The source is brought to the fence by the way back, which has to run, and the command of [cutover] flip in the "
            "file of the way back switches the application there. Downtime is from the fence to the end of that command.",
            "An error before the flip opens the target again. Behind the flip this job goes on from the source to the target.",
            "Where it was begun already, it goes on with the step that comes next.",
        ),
        lambda about: [],
    ),
    "abort-failback": Action(
        "failback",
        "Take the return back",
        (
            "The fence is lifted: the target takes writes again, and the way back follows.",
            "It is refused behind the flip, and where nobody knows how the flip command ended.",
        ),
        lambda about: ["--abort"],
    ),
    "plan-drill": Action(
        "drill",
        "Look what a drill would make",
        ("It is looked at what the way back needs, and how much room a shadow takes. Nothing is made at either end.",),
        lambda about: ["--plan"],
    ),
    "drill": Action(
        "drill",
        "Show that the way back works",
        (
            "A shadow is made at the source, in a schema or database of its own: an empty table for each of the job's tables, "
            "into which a job from the target loads, and then streams for up to a minute. It takes the room of the tables.",
            "Both ends have the load of reading and writing their tables once. The application's tables are not written.",
            "Each table is compared with its shadow; then all that was made is removed, after an error and a cancel, too.",
        ),
        lambda about: [],
    ),
    "clean-drill": Action(
        "drill",
        "Remove what a drill has left",
        ("What a drill that was killed has left at both ends is removed: its shadow, its slot, the state of its job.",),
        lambda about: ["--clean"],
    ),
    "reverse": Action(
        "reverse",
        "Write the job file of the way back",
        (
            "Both ends are read, and nothing is changed. The operation's page then shows the file of a job from the target to "
            "the source, to be taken in as a job of its own.",
            "It repeats the URLs of this job's file, so it is for administrators.",
        ),
        lambda about: [],
    ),
}  # fmt: skip
