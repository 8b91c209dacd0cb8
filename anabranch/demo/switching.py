"""The demo's other story: a cut-over to the new side while the application writes, and the return to the old one.

The commands are those that a user would type. What does not live here: servers and the directory (run.py), the application
(application.py).
"""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.demo.application import Application, Side, Way
from anabranch.demo.pipeline import JOB_FILE, DemoFailed, Pipeline, RunningJob
from anabranch.demo.shop import ACCOUNT, NAME, End, schema_at
from anabranch.demo.words import words_at_target, words_of
from anabranch.demo.writer import Totals
from anabranch.errors import DifferencesFound, NotCaughtUp
from anabranch.job.caughtup import CaughtUp, Progress
from anabranch.testing.databases import connect

OLD, NEW = "old", "new"
USER = "shop_app"
QUIET_SECONDS = 5.0  # at each side, before the next thing is done
CLOSE_SECONDS = 5.0  # half of what a switch allows (max_lag)
PATIENCE = 400.0
BUDGET = "60s"  # of the verification beside the application: a slow machine has rows left, which are pending
TICK = 0.1
# How documents go there and come back as they were.
DOCUMENTS = {"postgresql": "json", "mysql": "text"}
BACK = f"{NAME}-reverse"
FORM = JOB_FILE.replace("\n[target]\n", f'leave_out = ["anabranch:{BACK}"]\n\n[target]\n').replace(
    'target = "{there}', 'exclude = ["{schema}.event_log"]\ntarget = "{there}'
)
SWITCH = "\n[cutover]\nflip = {flip}\nsequence_margin = 1000\nmax_lag = 10\ngrace = {grace}\n"
GRACE = 3
# https://mariadb.com/kb/en/grant/#global-privileges, https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html
RIGHTS = {
    "mariadb": "SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT, READ_ONLY ADMIN, PROCESS, SLAVE MONITOR, SUPER",
    "mysql": "SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, PROCESS, "
    "XA_RECOVER_ADMIN",
}


@dataclass(frozen=True, slots=True)
class SwitchSummary:
    """The results. `there`, `back`: the reports of `cutover` and `failback`; `verified`, `at_end`: of `verify` beside the
    application at the old side, and when all is over; `lost`: acknowledged transactions that an end has not."""

    there: Mapping[str, Any]
    back: Mapping[str, Any]
    verified: Mapping[str, Any]
    at_end: Mapping[str, Any]
    application: Totals
    pauses: list[float]
    fenced: int
    written: Mapping[str, int]
    lost: Mapping[str, int]

    @property
    def is_well(self) -> bool:
        reports = (self.there, self.back)
        is_switched = all(one["state"] == "finished" and not one["alarms"] for one in reports)
        return is_switched and bool(self.at_end["tables"]) and self.at_end["identical"] and not any(self.lost.values())

    @property
    def exit_code(self) -> int:
        return 0 if self.is_well else DifferencesFound.exit_code

    def lines(self) -> list[str]:
        tables, parked = self.at_end["tables"], self.at_end["parked"]
        equal = [one for one in tables if one["identical"]]
        rows = sum(one["rows_source"] for one in equal)
        return [
            f"beside it   {self._beside()}",
            f"there       {_switched(self.there, self.pauses[:1])}",
            f"back        {_switched(self.back, self.pauses[1:])}",
            f"the writer  {self.written[OLD]:,} transactions committed at the old side, {self.written[NEW]:,} at the new one; "
            f"{self.fenced:,} tries refused by a fence",
            f"lost        {self.lost[OLD]} at the old side, {self.lost[NEW]} at the new one",
            f"identical:  {len(equal)} of {len(tables) + len(parked)} tables ({rows:,} rows compared)",
        ]

    def _beside(self) -> str:
        tables = self.verified["tables"]
        pending = sum(one.get("pending") or 0 for one in tables)
        equal = sum(1 for one in tables if one["identical"])
        more = f", {pending} rows pending" if pending else ""
        return f"{equal} of {len(tables)} tables compared and equal while the application wrote{more}"


def there_and_back(
    directory: Path, source: End, target: End, java: Mapping[str, str], rate: float, say: Callable[..., None]
) -> SwitchSummary:
    """Tell the story between two ends, the source with the shop, the target empty, in `directory`. `rate`: transactions per
    second. Raises what the application or a command ended with, NotCaughtUp where an end falls behind for minutes."""
    sides = {OLD: _side(source, is_target=False), NEW: _side(target, is_target=True)}
    way = Way(directory, OLD)
    forth = _forth(directory, source, target, java, way)
    say(
        "from another terminal:",
        f"  . {shlex.quote(str(forth.env_file))} && anabranch cutover --status {shlex.quote(str(forth.job_file))}",
        "",
    )
    with Application(sides, way, rate) as application, RunningJob(forth) as job:
        progress = Progress(forth.job())
        watched = [job]

        def is_well() -> None:
            application.check()
            for one in watched:
                one.check()

        say(
            f"the application writes at the old side, {rate:.0f} transactions a second; anabranch run {NAME}.toml follows"
        )
        _await(
            progress, is_well, lambda: progress.is_streaming and progress.is_built, "the shop is loaded and complete"
        )
        say(f"anabranch verify {NAME}.toml --budget {BUDGET}, while the application writes")
        verified = forth.verify_beside(BUDGET)
        _Seen(target).await_close(source, is_well)
        say(f"anabranch reverse {NAME}.toml -o {BACK}.toml")
        back = _way_back(forth, way)
        say(f"anabranch cutover {NAME}.toml --plan")
        _plan(forth.answer("cutover", "--plan"), say)
        say(f"anabranch cutover {NAME}.toml")
        there = forth.answer("cutover")
        with RunningJob(back) as returning:
            watched.append(returning)
            say("", f"the application writes at the new side; anabranch run {BACK}.toml keeps the old one up to date")
            _Seen(source).await_close(target, is_well)
            _quiet(is_well)
            home = _failback(forth, is_well, say)
            totals = application.stop()
            _drain(progress, is_well)
            say(f"anabranch verify {NAME}.toml")
            at_end = forth.verify()
            returning.stop()
        watched.remove(returning)
        job.stop()
    written = {side: len(found) for side, found in application.acknowledged.items()}
    lost = _lost(application, {OLD: source, NEW: target})
    return SwitchSummary(there, home, verified, at_end, totals, application.pauses, application.fenced, written, lost)


def _failback(forth: Pipeline, is_well: Callable[[], None], say: Callable[..., None]) -> Mapping[str, Any]:
    """Return to the old side, where the application writes for a while. Returns the report."""
    say(
        "",
        "Monday: the new side shows a problem (as a demo may say), and the shop returns",
        f"anabranch failback {NAME}.toml",
    )
    home = forth.answer("failback")
    say("", "the application writes at the old side again; the new one follows")
    _quiet(is_well)
    return home


def _lost(application: Application, ends: Mapping[str, End]) -> dict[str, int]:
    """Count the acknowledged transactions that each end does not have."""
    acknowledged = {one for found in application.acknowledged.values() for one in found}
    return {name: len(acknowledged - _ledger(end)) for name, end in ends.items()}


def _forth(directory: Path, source: End, target: End, java: Mapping[str, str], way: Way) -> Pipeline:
    """Write the job that leads to the new side, with a way back and a flip."""
    forth = Pipeline.write(directory, source, target, java, form_for(target))
    with forth.job_file.open("a") as file:
        file.write("\n[reverse]\nenabled = true\n" + SWITCH.format(flip=json.dumps(way.flip(NEW)), grace=GRACE))
    return forth


def form_for(target: End) -> str:
    """Return the form of the job file: without the table that has no key, whose rows could not come back."""
    documents = DOCUMENTS.get(target.database.server.name)
    options = f'[target.options]\njson = "{documents}"\n\n[[rules]]' if documents else "[[rules]]"
    return FORM.replace("[[rules]]", options)


def _side(end: End, is_target: bool) -> Side:
    """Give the job's account the rights of both roles, and make one for the application, which passes no fence."""
    server, password = end.database.server, secrets.token_hex(12)
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        if server.name == "postgresql":
            cursor.execute(f"ALTER ROLE {ACCOUNT} REPLICATION")
            cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{password}' IN ROLE {ACCOUNT}")
        else:
            cursor.execute(f"GRANT {RIGHTS[server.name]} ON *.* TO {ACCOUNT}@'127.0.0.1'")
            for database in (NAME, ACCOUNT):
                cursor.execute(f"GRANT ALL ON {database}.* TO {ACCOUNT}@'127.0.0.1'")
            cursor.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT ALL ON {NAME}.* TO {USER}@'127.0.0.1'")
    return Side(end.database, USER, password, (words_at_target if is_target else words_of)(server.name))


def _way_back(forth: Pipeline, way: Way) -> Pipeline:
    back = replace(forth, name=BACK)
    with forth.command("reverse", "-o", str(back.job_file), stdout=sys.stderr.fileno()) as child:
        if code := child.process.wait():
            raise DemoFailed("reverse", code)
    with back.job_file.open("a") as file:
        file.write(SWITCH.format(flip=json.dumps(way.flip(OLD)), grace=GRACE))
    return back


def _plan(plan: Mapping[str, Any], say: Callable[..., None]) -> None:
    warnings = [one for one in plan["checks"] if one["verdict"] == "warning"]
    say(f"  {len(plan['checks'])} checks, nothing is in the way; {len(warnings)} warnings")


def _switched(report: Mapping[str, Any], pause: list[float]) -> str:
    seen = f"; {pause[0]:.1f} s between two commits of the application" if pause else ""
    return f"{report['state']}, downtime {report['downtime_seconds']:.1f} s{seen}; alarms: {len(report['alarms'])}"


class _Seen:
    """Waits until what is written at one end from now on is at this one, and within what time."""

    def __init__(self, end: End) -> None:
        self.end = end

    def await_close(self, other: End, is_well: Callable[[], None]) -> None:
        """Wait until this end is no further behind than a switch allows. What was written while the job started comes first,
        and on a slow machine that is minutes old."""
        deadline = time.monotonic() + PATIENCE
        while True:
            begun = time.monotonic()
            self._await_newer(other, is_well, deadline)
            if time.monotonic() - begun <= CLOSE_SECONDS:
                return

    def _await_newer(self, other: End, is_well: Callable[[], None], deadline: float) -> None:
        newest = f"SELECT max(number) FROM {schema_at(other.database.server.name)}.ledger WHERE writer = 1"
        wanted = other.database.query(newest)[0][0] + 1
        here = f"SELECT max(number) FROM {schema_at(self.end.database.server.name)}.ledger WHERE writer = 1"
        while (self.end.database.query(here)[0][0] or 0) < wanted:
            _require_time(deadline, "what the application writes is not at the other side")
            is_well()
            time.sleep(TICK)


def _await(progress: Progress, is_well: Callable[[], None], is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        _require_time(deadline, f"not within {PATIENCE:.0f} seconds: {what}")
        is_well()
        progress.refresh()
        time.sleep(TICK)


def _drain(progress: Progress, is_well: Callable[[], None]) -> None:
    caught_up = CaughtUp(progress)
    _await(progress, is_well, caught_up.is_reached, "the new side is caught up")


def _quiet(is_well: Callable[[], None]) -> None:
    over = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < over:
        is_well()
        time.sleep(TICK)


def _require_time(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise NotCaughtUp(
            what, hint="this machine may be too slow for the writer: anabranch demo --scenario cutover --rate 50"
        )


def _ledger(end: End) -> set[tuple[int, int]]:
    found = end.database.query(f"SELECT writer, number FROM {schema_at(end.database.server.name)}.ledger")
    return {(int(writer), int(number)) for writer, number in found}
