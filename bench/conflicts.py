"""W6, conflicts: a backlog in which every transaction swaps unique values, puts a deleted row's values under another key
and shifts keys, against one of the same size in which nothing meets anything; in turns, on the same rows.

Capture and apply run, with Spark warm; capture's process is stopped while a backlog is made, as in W3. Where both ends are of
one kind, the server's own replica follows backlogs made in the same way, once ours are through: what contention costs the
server itself. In the same turns it would let our side rest until Spark ends its worker, and starting one takes a second."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.state import StateStore
from anabranch.testing.databases import Database
from bench.at_target import Looking
from bench.catchup import Replica, catch_up, stopped
from bench.figures import Figure, Side, compared
from bench.processes import Cost, Program, until
from bench.stand import Job, Stand

BLOCKS, CHANGES = 300_000, 1_000_000
ROWS_PER_BLOCK, CHANGES_PER_BLOCK = 8, 10
TABLE = """
CREATE TABLE seats (
  id bigint NOT NULL PRIMARY KEY, code varchar(40) NOT NULL, place bigint NULL, amount decimal(12,2) NOT NULL,
  note varchar(200) NOT NULL, changed int NOT NULL, UNIQUE KEY code (code), UNIQUE KEY place (place))
"""
# A block has the keys 10 b to 10 b + 9: two rows that swap, one of two keys taken, five of six in a row taken.
ROW = "{key}, CONCAT('code ', {key}), {key}, {key} % 9973 / 100, CONCAT('seat ', MD5({key})), 0"
FILL = (
    "INSERT INTO seats SELECT "
    + ROW.format(key="n.k")
    + " FROM (SELECT b.n * 10 + s.n AS k FROM numbers b JOIN (SELECT 0 n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL"
    " SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8) s"
    " WHERE b.n >= {first} AND b.n < {last}) AS n"
)
NUMBERS = "INSERT INTO numbers WITH RECURSIVE up (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM up WHERE n + 1 < {count})"
NUMBERS += " SELECT n FROM up"
HELD = "DECLARE k bigint; DECLARE c, d varchar(40); DECLARE p, q bigint; DECLARE b bigint DEFAULT first;"
OTHER_KEY = "SELECT id, code, place INTO k, c, p FROM seats WHERE id IN (10 * b + 2, 10 * b + 3);"
CONFLICTING = f"""
CREATE PROCEDURE conflicting(first bigint, last bigint) BEGIN {HELD}
  WHILE b < last DO
    START TRANSACTION;
    SELECT code, place INTO c, p FROM seats WHERE id = 10 * b;
    SELECT code, place INTO d, q FROM seats WHERE id = 10 * b + 1;
    UPDATE seats SET code = CONCAT('held ', b), place = NULL WHERE id = 10 * b;
    UPDATE seats SET code = c, place = p WHERE id = 10 * b + 1;
    UPDATE seats SET code = d, place = q WHERE id = 10 * b;
    {OTHER_KEY}
    DELETE FROM seats WHERE id = k;
    INSERT INTO seats VALUES (20 * b + 5 - k, c, p, 0, 'moved', 1);
    IF EXISTS (SELECT 1 FROM seats WHERE id = 10 * b + 4) THEN
      UPDATE seats SET id = id + 1 WHERE id BETWEEN 10 * b + 4 AND 10 * b + 8 ORDER BY id DESC;
    ELSE
      UPDATE seats SET id = id - 1 WHERE id BETWEEN 10 * b + 5 AND 10 * b + 9 ORDER BY id;
    END IF;
    COMMIT;
    SET b = b + 1;
  END WHILE;
END
"""
FREE = f"""
CREATE PROCEDURE conflict_free(first bigint, last bigint) BEGIN {HELD}
  WHILE b < last DO
    START TRANSACTION;
    UPDATE seats SET note = CONCAT('held ', b), changed = changed + 1 WHERE id = 10 * b;
    UPDATE seats SET note = CONCAT('first ', b), changed = changed + 1 WHERE id = 10 * b + 1;
    UPDATE seats SET note = CONCAT('second ', b), changed = changed + 1 WHERE id = 10 * b;
    {OTHER_KEY}
    DELETE FROM seats WHERE id = k;
    INSERT INTO seats VALUES (20 * b + 5 - k, UUID(), NULL, 0, 'moved', 1);
    UPDATE seats SET amount = amount + 1, changed = changed + 1 WHERE id BETWEEN 10 * b + 4 AND 10 * b + 9;
    COMMIT;
    SET b = b + 1;
  END WHILE;
END
"""


@dataclass
class Seats:
    """The table in a database of the source. Each transaction has a block of its own; one after another, round and round."""

    database: Database
    blocks: int
    next: int = 0

    def create(self) -> None:
        count = f"SET SESSION {{}} = {self.blocks + 1}"
        setting = "max_recursive_iterations" if self.database.server.name == "mariadb" else "cte_max_recursion_depth"
        self.database.execute(
            TABLE,
            "CREATE TABLE numbers (n int PRIMARY KEY)",
            count.format(setting),
            NUMBERS.format(count=self.blocks),
            CONFLICTING,
            FREE,
        )
        for first in range(0, self.blocks, 50_000):
            self.database.execute(FILL.format(first=first, last=min(first + 50_000, self.blocks)))
        self.database.execute("ANALYZE TABLE seats")

    def backlog(self, procedure: str, transactions: int) -> int:
        """How many transactions it is."""
        if self.next + transactions > self.blocks:
            self.next = 0
        self.database.execute(f"CALL {procedure}({self.next}, {self.next + transactions})")
        self.next += transactions
        return transactions


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    source, target = stand.databases("conflicts")
    transactions = int(CHANGES * scale) // CHANGES_PER_BLOCK
    seats = Seats(source, max(int(BLOCKS * scale), transactions))
    seats.create()
    replica = Replica(stand, 0) if stand.is_alike else None
    job = stand.job("conflicts", source, target, table="seats")
    costs: dict[str, list[Cost]] = {"conflict_free": [], "conflicting": []}
    native: dict[str, list[Cost]] = {procedure: [] for procedure in costs}
    with job.start("capture") as capture, Looking(target) as looking:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)
        with job.start("load") as load:
            load.process.wait()
        assert load.process.returncode == 0, "\n".join(line for _, line in load.said)
        with job.start("apply") as apply:
            _wait_for_indexes(looking, job, seats, apply)
            before = job.at.epochs(looking, job.name)
            for _ in range(repeat):
                for procedure, found in costs.items():
                    with stopped(capture):
                        goal = job.written() + seats.backlog(procedure, transactions)
                    found.append(catch_up(stand, job, looking, goal, capture, apply))
            epochs, slow = (
                job.at.epochs(looking, job.name) - before,
                StateStore(job.home).snapshot()["slow_epochs"],
            )
            if replica:
                goal = job.written() + _follow(replica, seats, transactions, native, repeat, capture)
                until(lambda: job.applied(looking) >= goal, 600, "the replica's backlogs", check=apply.check)
    _check(source, job)
    changes = transactions * CHANGES_PER_BLOCK
    free, ours = (
        Side(name, what, changes, costs[procedure])
        for name, what, procedure in (
            ("conflict_free", "the same, nothing meets", "conflict_free"),
            ("anabranch", "anabranch capture and apply", "conflicting"),
        )
    )
    facts = {"changes": changes, "rows": seats.blocks * ROWS_PER_BLOCK}
    count = slow["count"] if slow else 0
    why = {"epochs": epochs, "slow_epochs": count} | ({"last": slow["reason"]} if slow else {})
    return [
        compared("W6 conflicts", stand.pair, ours, free, 0.5, facts=facts),
        *(_beside_replica(stand, ours, native) if replica else ()),
        Figure("W6 conflicts", stand.pair, "slow_epochs_per_1000", 1000 * count / max(epochs, 1), 1, True, why),
    ]


def _follow(
    replica: Replica, seats: Seats, transactions: int, found: dict[str, list[Cost]], repeat: int, capture: Program
) -> int:
    """Measure the replica on backlogs of its own, of each kind in turns; ours wait meanwhile. Returns the transactions."""
    total = 0
    with stopped(capture):
        replica.catch_up()
        for _ in range(repeat):
            for procedure, costs in found.items():
                total += seats.backlog(procedure, transactions)
                costs.append(Cost(replica.catch_up(), 0.0, 0.0))
    return total


def _beside_replica(stand: Stand, ours: Side, native: dict[str, list[Cost]]) -> list[Figure]:
    """Compare our rate with the replica's on the conflicting backlogs; show what part of its own free rate it keeps there."""
    what = f"{stand.name}'s own replica, one thread"
    theirs = Side("replica", what, ours.work, native["conflicting"])
    free = Side("replica_conflict_free", f"{what}, nothing meets", ours.work, native["conflict_free"])
    return [
        compared("W6 conflicts/replica", stand.pair, ours, theirs, None),
        compared("W6 replica alone", stand.pair, theirs, free, None),
    ]


def _wait_for_indexes(looking: Looking, job: Job, seats: Seats, apply: Program) -> None:
    """A change is through, and the unique keys stand."""
    seats.backlog("conflicting", 10)
    until(lambda: job.at.indexes_of(looking, "seats") == 3, 180, "the unique keys", check=apply.check)
    until(lambda: job.applied(looking) >= job.written(), 180, "the first changes", check=apply.check)


def _check(source: Database, job: Job) -> None:
    """Row by row: what stands where."""
    query = "SELECT id, code, place, amount, note, changed FROM {} ORDER BY id"
    assert source.query(query.format("seats")) == job.target.query(query.format(job.at.table("seats"))), (
        "the ends differ"
    )
