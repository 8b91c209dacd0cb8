"""The pages about failpoints and torture (generate.py writes them)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch.failpoints import LOG_VARIABLE, POINTS, VARIABLE

KEPT = Path(__file__).parents[1] / "tests" / "torture"
TWO_SITES_KEPT = KEPT / "two-sites.json"
TARGETS = {
    "postgresql": "PostgreSQL",
    "mysql": "MySQL",
    "mariadb": "MariaDB",
    "kafka": "Kafka",
    "postgresql-changes": "PostgreSQL that keeps changes",
    "mysql-changes": "MySQL that keeps changes",
    "mariadb-changes": "MariaDB that keeps changes",
}


def failpoints(generated: str) -> Iterator[str]:
    yield "# Failpoints"
    yield ""
    yield generated
    yield "Places at which the product can be made to fail, for tests and for [torture](../explanation/torture.md). Nothing"
    yield "happens at them unless the environment of a process asks for it:"
    yield ""
    yield "```"
    yield f'{VARIABLE}="apply.committed=exit@2;trail.synced=delay:0.3;load.copied=raise:TargetUnavailable"'
    yield f"{LOG_VARIABLE}=/tmp/reached"
    yield "```"
    yield ""
    yield "`name=action@n` acts when the place is reached for the n-th time in a process (default: the first), and once: with a"
    yield "log once in all processes that share it. A name that is not in this table is refused (exit 2), with the nearest one."
    yield ""
    yield "| action | what it does |"
    yield "|---|---|"
    yield "| `exit`, `exit:CODE` | the process is gone at once, as after SIGKILL |"
    yield "| `raise` | an error that nobody expects |"
    yield "| `raise:CLASS` | an error of [these classes](errors.md) |"
    yield "| `delay:SECONDS` | it waits |"
    yield "| `full`, `full:SECONDS` | from then on, for so long, the disk has no room at this place |"
    yield ""
    yield "The log gets a line for the first reach of each name in a process, and `name=action@n PID` for what acted."
    for room in dict.fromkeys(name.partition(".")[0] for name in POINTS):
        yield from ("", f"## {room}", "", "| name | what is so just there |", "|---|---|")
        yield from (f"| `{name}` | {what} |" for name, what in POINTS.items() if name.startswith(f"{room}."))


def runs() -> dict[str, Any]:
    """Return what the last runs have left that are kept, by the kind of target."""
    found = {name: KEPT / f"results-{name}.json" for name in TARGETS}
    return {name: json.loads(file.read_text()) for name, file in found.items() if file.exists()}


def torture(generated: str) -> Iterator[str]:
    kept = runs()
    yield "# Torture"
    yield ""
    yield generated
    yield TORTURE.strip()
    for name, run in kept.items():
        yield from ("", f"## The last run to a {TARGETS[name]}", "")
        yield from _run(run)
    yield from ("", "## Two active sites", "", TWO_SITES.strip())
    if TWO_SITES_KEPT.exists():
        yield from _two_sites(json.loads(TWO_SITES_KEPT.read_text()))
    yield from ("", "## Where they failed", "")
    yield from _faults(kept)
    yield from _failpoints(kept)
    yield ""
    yield "## What it found"
    yield ""
    yield "A seed gives the same history as long as the kit draws alike: these gave theirs when they were found."
    yield ""
    yield "| seed | what was wrong | the test that stays |"
    yield "|---|---|---|"
    bugs = (bug for run in kept.values() for bug in run["bugs"])
    yield from (f"| {bug['seed']} | {bug['what']} | `{bug['test']}` |" for bug in bugs)


def _run(run: dict[str, Any]) -> Iterator[str]:
    first, last = run["seeds"]
    failed = f", {len(run['failed'])} failed" if run["failed"] else ""
    yield f"Seeds {first} to {last} at commit `{run['commit']}`, on {', '.join(run['servers'])}:"
    yield f"**{run['passed']} histories passed**{failed}, {run['counted']} of them count;"
    if two := run.get("with_two_targets"):
        yield f"{two} with two targets;"
    yield f"{run['transactions']} transactions, {run['observations']} looks at the target, in which {run['states']} states of"
    yield f"the source were seen; {run['seconds']} seconds."


def _two_sites(run: dict[str, Any]) -> Iterator[str]:
    """One line for each pair of servers: only histories that passed are kept."""
    first, last = run["seeds"]
    yield from ("", f"The last run, seeds {first} to {last} at commit `{run['commit']}`:", "")
    kinds = sorted({kind for pair in run["pairs"].values() for kind in pair["faults"]})
    yield f"| servers | histories that passed | transactions | rows | crossings that had to be noted | {' | '.join(kinds)} |"
    yield "|---|" + "---|" * (4 + len(kinds))
    for pair in run["pairs"].values():
        counts = [pair["histories"], pair["transactions"], pair["rows"], pair["crossed"]]
        counts += [pair["faults"].get(kind, 0) for kind in kinds]
        yield f"| {', '.join(pair['servers'])} | {' | '.join(map(str, counts))} |"


def _faults(kept: dict[str, Any]) -> Iterator[str]:
    kinds = sorted({kind for run in kept.values() for kind in run["faults"]})
    yield f"| fault, times at a target of | {' | '.join(TARGETS[name] for name in kept)} |"
    yield "|---|" + "---|" * len(kept)
    for kind in kinds:
        yield f"| {FAULTS[kind]} (`{kind}`) | {' | '.join(str(run['faults'].get(kind, 0)) for run in kept.values())} |"
    yield ""


def _failpoints(kept: dict[str, Any]) -> Iterator[str]:
    """Two numbers for each kind of target: histories that reached a failpoint, and in which it failed."""
    yield f"| [failpoint](../reference/failpoints.md), reached / failed at | {' | '.join(TARGETS[name] for name in kept)} |"
    yield "|---|" + "---|" * len(kept)
    for point in dict.fromkeys(point for run in kept.values() for point in run["failpoints"]):
        numbers = (run["failpoints"].get(point, (0, 0)) for run in kept.values())
        yield f"| `{point}` | {' | '.join(f'{reached} / {failed}' for reached, failed in numbers)} |"


TORTURE = """
`anabranch torture` runs random histories of transactions through whole jobs while things go wrong, and checks every state
that a reader of the target could have seen. Anyone can run it on a pair of their own:
[torture your own pair](../howto/torture-your-own-pair.md).

**A history** is drawn from its seed: three tables and more, with and without keys, with unique keys and foreign keys and
their actions, with values at the edges of their types; dozens of transactions of several sessions at once, whose commits
interleave: swaps, rotations, keys that move, savepoints, rollbacks, statements that fail, truncates. Some lie before the
load, some run while it runs (tables are read in chunks of a few rows then), the others behind it. With private servers a
quarter of the histories goes to a target whose user may not set `session_replication_role`: keys act and are checked there.
The job of three in ten comes as a user whose every session begins with an administrator's
[settings](../reference/session-settings.md) at their worst: three rows for a SELECT, `array_nulls = off`, a millisecond for
a statement. In two of five histories from a MySQL or MariaDB columns are computed, virtual ones over foreign keys that change
rows unseen and over each other in levels, stored ones over what statements give. In two of ten histories columns are added to
tables while they stream (`[ddl] add_column = "apply"`), anywhere among the others and, at a PostgreSQL, inside transactions,
with rows of both definitions around each statement. In one of six histories from a MySQL or MariaDB further tables are made,
renamed and dropped while they stream, with rows of theirs before and behind (`[ddl] create_table`, `rename_table`; what is
dropped goes at the target, too, or is kept there, under its name or another one). A table may come where another one was, with
the same columns or others. No foreign key connects these tables with others, and none is dropped or renamed before the load's
indexes are built: the job would park it. In the end `anabranch ddl ls` must have one note of each statement, in their order.

**The job** is the product: capture, load and apply, each a process of its own, with what Spark would do done in that
process (a history takes some seconds), or `anabranch run` with Spark as it is. One of six jobs has two targets, the second a
database beside the first on the same server, or, where one is a MySQL or MariaDB, that and a PostgreSQL, either of them first;
the second has a load and an apply of its own, without Spark. In four fifths of these the second one is held back for up to
four seconds: its apply is stopped in the middle, or begins late, or all of it does; in many, segments of the trail are dropped
as soon as both are past them.

**The faults**, one to three per history, come from the same seed: a process is gone at a
[failpoint](../reference/failpoints.md) or at any moment, stands still while another one takes its place, loses its line,
finds the disk full or its clock changed; the target's server restarts, with its last commits or without. What a fault ended
is started again, as an operator would. A process that ends without a fault that explains it fails the history; of two targets a
fault meets the parts or the line of one, and explains nothing of the other. A history in which no fault came about does not
count, nor does one with fewer than ten looks at the target before the last, or with fewer than three states seen (of two
targets: at the one that showed most).

**What others do** is drawn for three of ten histories, and meets the faults, too: a table is loaded again; the job goes back;
a table of the target takes no rows for a while, is [parked](../howto/bring-back-a-parked-table.md), and goes on; or it takes
some rows only, which are [set aside](../howto/set-rows-aside.md), and released later; or somebody else writes to tables of the
target while the job streams with [`on_conflict = "source_wins"`](../howto/rows-that-differ-at-the-target.md): rows get other
values, go, or come under keys that the source is about to use. In the end `verify --repair` makes these equal again.
In some of the others a policy comes for a table of the target, and the job's user may not see past it: apply has to end with
an error that names the table, until the policy is gone.

**The verdict** does not rest on the product: every transaction writes its number into a ledger table, the order of the
commits is what `mysqlbinlog` or `mariadb-binlog` says of that table, and what the tables hold after each of them is
computed by a model. A watcher reads all tables of the target in one snapshot, again and again, from when every table
streams: what readers see of the load before is not checked by it. Each reading must be the state after some of the
first commits, never fewer than before; that a table is not there yet, any more, or under its next name is a part of the
state. In the end, when every fault is over and every part lives, both sides and the model must be the same. What may be
seen otherwise is what [correctness](correctness.md) declares (K16, TRUNCATE). Of two targets each is looked at and
judged by itself; what a person does (tables are loaded again or parked, the job goes back) is done to the first.
Two-phase commits run beside some of the histories: each is seen whole or not at all, and stays.

Nothing is asked of tables that are loading or parked. Of a table with rows set aside all other rows are judged, and in the end
nothing may be aside. Of a key that somebody wrote to, the target must hold what was left there until the source touches it, and
the source's row from then on; what `anabranch.conflict` says must be the differences that the stream met, each once, and no
other. Not drawn is somebody else's writing to tables with foreign keys, to values of unique columns, and rows put
where the target enforces foreign keys; nor that rows set aside are discarded.

**PostgreSQL as a source** (`--source postgresql`) is another server of the kit's, with a schema for each history. The order
of the commits, and the rows of each, are what a slot of the kit's own has, read by a decoder of the kit's own; what the rows
come to is compared with the source's tables in the end. Statements stand in subtransactions, most of them, so that what is
refused is taken back alone; one of eight transactions is committed by two phases; TRUNCATE is a part of a transaction, of
several tables at once; large values are kept outside of their rows and stay as they are; foreign keys and unique constraints
are checked at the end of a transaction, some of them, so that rows swap values without one between; rows of some tables are
whole in the log, of some they are told by an index other than the key, and of some nothing tells which they were until the
job has asked for that; some tables are partitioned, by list, range or hash, in two levels too, and rows move between
partitions; large transactions come in fragments. In every third history some tables inherit from others, over two levels
too, so that what is said to one changes rows of another; in every third an enum gets labels, before the load, while it runs
and behind it, which rows then have. In one of six policies hide rows of the source's tables from everybody, and of every
table that the job makes at the target for it (from any source): the job's user has BYPASSRLS. Not drawn are foreign
keys that change rows where the target's would do the same (a user who may not set `session_replication_role`), other unique
keys of partitioned tables, primary keys that are checked late, and other definitions that change: a partition that is attached,
detached or dropped parks the table, which a scenario shows.

With `--decoder` the log is read by another one, on PostgreSQL 15, or each history draws one (`drawn`). What a decoder does not
show is left out of the tables: partitioned tables of wal2json and decoderbufs, floating and decimal numbers of wal2json (a NULL
among them may be a value), points and times with a zone of decoderbufs. The order of commits is that of pgoutput in any case.

**MySQL and MariaDB as targets** (`--target mysql`, `--target mariadb`) are servers of the kit's, too, from every
source. The watcher reads the tables in one consistent snapshot; a table that refuses rows does it by a trigger, because
a CHECK would be asked of the rows that are there. Two of five jobs have `[apply] truncate = "truncate"`. A TRUNCATE at
a MySQL or MariaDB source is a transaction of its own, so the state between the emptying and its epoch is one that the
source had. That of a PostgreSQL source is applied as DELETE where its transaction also writes the ledger. Half of the
histories from there have some that do nothing else: a message in the log has their number. The other one of two targets
is a PostgreSQL, the second or the first of them, with a server of its own that may be restarted for itself. Two of five
have `[target.options]`: JSON as text, UUIDs as bytes, instants as the one or the other type, arrays as JSON, no
computed columns; not where somebody else writes. Not drawn there: users who may not switch foreign keys off or from
whom a policy hides rows (there are none), and kinds of columns whose values do not all come exactly: MariaDB's UUID and
INET at a MySQL, MySQL's -0.0 at a MariaDB; from a PostgreSQL numbers without digits, NaN and infinities, dates outside
of the years 1000 to 9999, 24:00, JSON as it was typed, and texts and bytes without a length in keys.

**Kafka as a target** (`--target kafka`) is a broker of the kit's, from every source; the job has `initial_load = true`, the
format `plain`, and one, three or five partitions to a topic. The watcher reads the topics with `read_committed`, up to ends at
which all partitions stood still at one moment, and looks at the rows that the messages tell behind each transaction of the
source: every one of them is seen by itself, and must be the next state that the source had. Messages are folded strictly: the
image before a change must be the row that is there, so what is told twice, left out or out of order contradicts; a key stays in
its partition, a delete has its tombstone, a TRUNCATE is told to each partition once. Most faults are where such a target is
written: the job is gone around its topics, its first rows and its Kafka transactions, another process takes its place and
fences it, the broker is killed or restarted. Not drawn is what such a job refuses (foreign keys that change rows unseen,
partial images, a second target, tables that are loaded again, parked or written to by others), columns that are computed, added
or altered, and tables that come and go; lines to the broker, which clients find past any proxy; Spark, which has nothing to do.

**Change tables as a target** (`--target postgresql-changes`, `mysql-changes`, `mariadb-changes`) are those of a server of
the kit's, from every source. A database has the change tables of one job, so at a PostgreSQL each history has one of its
own; at a MySQL or MariaDB they go one after the other. The watcher is a program that [copies
changes](../howto/change-tables.md#read-it): it remembers `fn_cdc_get_max_lsn()`, asks `fn_cdc_get_all_changes_…` from the
next place on, with `'all update old'`, for all tables up to the same place, again and again while the job dies, and never
asks for anything twice. Each transaction of the source must come in one range, whole and once, in the order of the commits,
and what its rows make of those before must be the next state that the source had: a row that goes must be there as it is
told, the two images of an update have one place and one mask, the mask has every column that differs, and no place is
without its time, which never goes back. Of each range the net changes are asked for, too: upon the rows in front of it they
must come to the rows behind it. There is no load, so it is known in the end only which rows were there before: those that
the model has in front of the first transaction that came, or that had to come because the job had begun. Most faults are
where change tables are made and written, and on lines to them; the server restarts, and loses its last commits, which come
again under the places that a reader has already. In half of the jobs the time is noted each second while nothing changes.
Not drawn is what is not drawn for a Kafka, and TRUNCATE, which stops such a job; instances that come and go, roles, the
clean-up; at a MySQL or MariaDB columns of single precision, of which they print six digits.

A history that fails is made smaller while it still fails, and written to a file that `anabranch torture --replay` runs.
"""
TWO_SITES = """
`make torture-sites SEEDS=1..250` runs histories of [two active sites](../howto/two-active-sites.md), between four pairs of
servers: up to four writers at both sites change, delete and insert the same few rows, while processes of both jobs are
killed or end at failpoints (`kill`, `exit`), all lines of the jobs to a site are reset (`cut`), and the server of a site
dies and starts again (`restart`). Each history is of one of three tables: of two rows the newer one stays; a column is
added up besides; one site wins.

Writers put a number for each transaction into a table that the jobs replicate with the rest. It says, in the end, that no
transaction is missing at either site, and of each write how much of the other site it had before it. From that follows:

- **Both sites are equal**, and nobody else's row is there.
- **The newer row**: it is known of every key which row stands, or that none does.
- **Added up**: of a key that nobody deleted, the row and its sum are known. A row that a delete had seen, or that crossed
  one, does not stand, nor counts what a delete had seen. *Open is* whether a row that was inserted behind all deletes
  stands: while a job has the note of one, it goes.
- **One site wins**: a key whose writes all were made one behind the other has the last one's row, to its version. Else the
  winning site's last row stands, unless the other site had it when it wrote later: then one of these. *Open is* which,
  since a version of the winning site that the job has raised, or one that both sites gave, refuses also what was made from
  it; whether an insert stands that crossed the winning site's delete; and whether a row does that began under a deleted key
  with a version that the other site had already.
- **Notes**: if the other site's last write of a key was not known to a change, the job that brings the change must have
  noted both versions (`anabranch conflicts ls`), and where no two writes crossed, neither job may have noted anything.
  *Open are* notes of keys with deletes, which depend on what an epoch takes together, and at the site that does not win,
  because a version that was raised may be the greater one by itself.
"""
FAULTS = {
    "clock": "the wall clock of a process jumps",
    "cut": "lines to an end are reset",
    "delay": "a wait at a failpoint",
    "exit": "the process is gone at a failpoint",
    "freeze": "a process stands still",
    "full": "no room on the disk",
    "kill": "SIGKILL at any moment",
    "lose": "the target restarts without its last commits",
    "raise": "an unexpected error at a failpoint",
    "refuse": "an end refuses lines",
    "restart": "a server restarts",
    "second": "a process stands still, another one takes its place, then it goes on",
    "slow": "every block to or from an end waits",
    "stall": "an end says nothing",
}
