"""Tables without a key: finding exactly as many of equal rows as asked (K28).

Rows are equal when every value is the same to the last byte: texts byte by byte whatever their collation says, FLOAT by its
number and not by the six digits that it prints, labels by their number, -0.0 is not 0.0, NULL equals NULL. Staged rows have a
digest of their values with an index, so the target is read once whatever the server knows of hash joins.

No row has a name here. Where all rows that equal a staged one go, one statement removes them. Where some stay, all go and
as many as stay come back: they are the same in every column. That would not hold where the target has columns of its own, or
a trigger looks on: there a DELETE with a LIMIT does it for each staged row.
https://dev.mysql.com/doc/refman/8.0/en/delete.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.connectors.mysql.target.known_columns import KnownColumn, KnownTable, assigned, has_triggers
from anabranch.connectors.mysql.target.merge import Stage, places
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, one, quoted, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_warnings
from anabranch.connectors.sql.merge_pieces import MergePiece
from anabranch.contracts import Conflict
from anabranch.rows.net import TargetTable

TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json"))
BYTES = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
LABELS = frozenset(("enum", "set"))
FLOATS = frozenset(("float", "double"))
SHAPES = frozenset(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
                    "geometrycollection", "geomcollection", "vector"))  # fmt: skip
MOST, BEGINNING = 40, 100  # columns in a digest, characters of each: enough to tell nearly all rows apart


def merge_multiset(stages: StagingTables, piece: MergePiece, stage: Stage) -> None:
    """Remove first, then insert: as many of equal rows as asked, each exactly once. Driver errors pass."""
    connection, table, s = stages.connection, piece.table, table_name(stage)
    wanted, coming = _sums(connection, stage)
    if wanted:
        coming += _remove(stages, piece, stage, wanted)
    if coming:
        most = int(one(connection, f"SELECT MAX(delta) FROM {s}"))
        done = run(connection, insert_copies(table, piece.values, stage, most))
        refuse_warnings(connection, table.source)
        if done != coming:
            raise Conflict(table.source, f"expected {coming} inserts of whole rows, found {done}")


def _sums(connection: Connection, stage: Stage) -> tuple[int, int]:
    """Return how many rows go, and how many come."""
    forms = (f"COALESCE(SUM(IF({sign}delta > 0, {sign}delta, 0)), 0)" for sign in ("-", ""))
    gone, come = ask(connection, f"SELECT {', '.join(forms)} FROM {table_name(stage)}")[0]
    return int(gone), int(come)


def insert_copies(table: TargetTable, names: Sequence[str], stage: Stage, most: int) -> str:
    """Return the statement that inserts each staged row as often as its delta says, `most` times or less."""
    return (
        f"INSERT INTO {table_name(table.target)} ({column_list(names)})"
        f" SELECT {places('s', 'v', len(names))} FROM {table_name(stage)} AS s{_numbers(most)}"
    )


def _numbers(most: int) -> str:
    """Return a join by which each staged row stands there as often as its delta says: with all numbers below it."""
    digits = range(len(str(most - 1)))
    ten = f"(SELECT 0 AS d {' '.join(f'UNION ALL SELECT {digit}' for digit in range(1, 10))})"
    number = " + ".join(f"d{place}.d * {10**place}" for place in digits)
    return "".join(f" JOIN {ten} AS d{place}" for place in digits) + f" WHERE {number} < s.delta"


def _remove(stages: StagingTables, piece: MergePiece, stage: Stage, wanted: int) -> int:
    """Remove rows. Returns how many equal ones have to come back: they are staged to come then, like those that are new."""
    connection, table, s = stages.connection, piece.table, table_name(stage)
    known = stages.known.of(table.target)
    run(connection, f"UPDATE {s} AS s SET digest = {_digest(known, piece, staged=True)} WHERE delta < 0")
    same = f"s.delta < 0 AND s.digest = {_digest(known, piece, staged=False)} AND {match(known, piece.values)}"
    joined = f"{table_name(table.target)} AS t STRAIGHT_JOIN {s} AS s ON {same}"
    rows = ask(connection, f"SELECT s._n, MAX(-s.delta), COUNT(*) FROM {joined} GROUP BY s._n")
    found = [(int(n), int(asked), int(there)) for n, asked, there in rows]
    _expect(table, wanted, sum(min(asked, there) for _, asked, there in found))
    staying = {n: there - asked for n, asked, there in found if there > asked}
    has_own = staying and stages.known.whole(table.target).beside(piece.values)
    if has_own or (staying and has_triggers(connection, table.target)):
        some = [f"{_delete_some(known, piece, stage, n)} LIMIT {asked}" for n, asked, _ in found]
        _expect(table, wanted, sum(connection.together(some)))
        return 0
    there = sum(there for *_, there in found)
    _expect(table, there, run(connection, f"DELETE t FROM {joined}"))
    if staying:
        connection.together([f"UPDATE {s} SET delta = {stay} WHERE _n = {n}" for n, stay in staying.items()])
    return sum(staying.values())


def _expect(table: TargetTable, wanted: int, done: int) -> None:
    if done != wanted:
        raise Conflict(table.source, f"expected {wanted} deletes of whole rows, found {done}")


def _delete_some(known: KnownTable, piece: MergePiece, stage: Stage, n: int) -> str:
    return f"DELETE FROM {table_name(piece.table.target)} WHERE {_equals_one(known, piece, stage, n)}"


def one_row(known: KnownTable, piece: MergePiece, stage: Stage, sets: Mapping[str, str] | None) -> str:
    """Return the statement that removes one of the rows that equal the staged one, or gives it other values (as SQL)."""
    target, where = table_name(piece.table.target), _equals_one(known, piece, stage)
    if sets is None:
        return f"DELETE FROM {target} WHERE {where} LIMIT 1"
    return f"UPDATE {target} SET {assigned(known, tuple(sets), tuple(sets.values()))} WHERE {where} LIMIT 1"


def _equals_one(known: KnownTable, piece: MergePiece, stage: Stage, n: int | None = None) -> str:
    """Return the condition for rows that equal a staged one. Statements with LIMIT know one table and no alias."""
    which = f"s._n = {n} AND " if n is not None else ""
    same = match(known, piece.values, table_name(piece.table.target))
    return f"EXISTS (SELECT 1 FROM {table_name(stage)} AS s WHERE {which}{same})"


# --- equal rows -------------------------------------------------------------------------------------------------------


def match(known: KnownTable, names: Sequence[str], alias: str = "t") -> str:
    """Return the condition under which a target row equals staged row `s` (its values are v0, v1, …)."""
    pairs = ((known.column(name), f"{alias}.{quoted(name)}", f"s.v{place}") for place, name in enumerate(names))
    return " AND ".join(_equal(*pair) for pair in pairs)


def _equal(column: KnownColumn, ours: str, theirs: str) -> str:
    forms = [_exact(column, ours), _exact(column, theirs)]
    found = " <=> ".join(forms)
    if column.type in FLOATS:  # the sign of zero
        found += f" AND CAST({ours} AS CHAR) <=> CAST({theirs} AS CHAR)"
    return found


def _exact(column: KnownColumn, place: str) -> str:
    """Return a value in a form whose `<=>` tells apart what differs in any byte."""
    if column.type in TEXTS:
        return f"CAST(CAST({place} AS CHAR) AS BINARY)" if column.type == "json" else f"CAST({place} AS BINARY)"
    if column.type in LABELS:
        return f"({place}+0)"
    return f"HEX({place})" if column.type in SHAPES else place


def _digest(known: KnownTable, piece: MergePiece, staged: bool) -> str:
    """Return a number that equal rows share. It is made of values in the same way on both sides."""
    parts: list[str] = []
    for place, name in enumerate(piece.values):
        column = known.column(name)
        if column.type in FLOATS or column.type in SHAPES or column.type == "json":
            continue
        value = f"s.v{place}" if staged else f"t.{quoted(name)}"
        if column.type in TEXTS | BYTES:
            form = f"HEX(LEFT({value}, {BEGINNING}))"
        else:  # bits are no text of any character set
            form = f"HEX({value}+0)" if column.type == "bit" else f"HEX(CAST({_exact(column, value)} AS CHAR))"
        parts.append(f"IFNULL({form}, 'N')")
    return f"CRC32(CONCAT_WS(',', {', '.join(parts[:MOST])}))" if parts else "0"
