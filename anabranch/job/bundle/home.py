"""Gathers the pieces of a bundle that are files of the job's home: state.db, trail, definitions, trace, disks. Asks neither
end and changes nothing.

What does not live here: pieces that ask (`pieces.py`), what of them may be seen (`shown.py`).
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anabranch.errors import TrailError
from anabranch.job.bundle.cutting import kind_of, type_of
from anabranch.job.bundle.secrets import HIDDEN
from anabranch.state import trace as traces
from anabranch.state.store import FILE, VERSION, StateStore
from anabranch.trail.format import segment_names
from anabranch.trail.headers import check_segment
from anabranch.trail.identity import load
from anabranch.trail.reader import TrailReader
from anabranch.trail.retention import readers
from anabranch.trail.segment import SegmentReader
from anabranch.trail.staging import waiting
from anabranch.trail.storage import LocalStorage
from anabranch.view.schema_history import TableVersion, versions

if TYPE_CHECKING:
    from anabranch.job.bundle.shown import Shown
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView

ENTRIES, FILES, TRACEBACKS, STRETCHES = 20_000, 2_000, 20, 1_000  # at most of each: the last ones, of the home any
READ_S = 2.0  # for which somebody who writes state.db is waited for
_FRAME = re.compile(r'\s+File "[^"]*", line \d+, in [\w<>.]+')
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?::|\Z)")


def state(job: JobView) -> dict[str, Any]:
    """Return what state.db has, of the job and of each target. A damaged one is told as such, and stays as it is."""
    homes = {"": job.config.home} | {one.target: one.target_home for one in job.targets() if one.is_one_of_several}
    return {"known_version": VERSION, "of": {name or "job": _state(path) for name, path in homes.items()}}


def _state(path: Path, is_told: bool = True) -> dict[str, Any]:
    file = path / FILE
    if not file.exists():
        return {"is": "not there"}
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=READ_S)) as connection:
            problems = [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)")]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            names = [
                row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
            ]
            rows = [{"table": name, "rows": _count(connection, name)} for name in names]
    except sqlite3.DatabaseError as error:
        return {"is": "damaged", "bytes": file.stat().st_size, "error": str(error)}
    found = {"bytes": file.stat().st_size, "version": version, "rows": rows}
    if problems != ["ok"]:
        return {"is": "damaged", **found, "problems": problems}
    if version != VERSION:  # of another release: to open it would make it anew
        return {"is": "of another release", **found}
    if not is_told:
        return {"is": "whole"}
    with closing(StateStore(path)) as store:
        return {"is": "whole", **found, "told": store.snapshot()}


def _state_is_whole(path: Path) -> bool:
    return bool(_state(path, is_told=False)["is"] == "whole")


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def trail(job: JobView) -> dict[str, Any]:
    """Return what the trail consists of, and whether the headers of its segments are right. No row is read."""
    storage = LocalStorage(job.trail)
    identity = load(storage)
    if identity is None:
        raise TrailError(f"there is no trail in {job.trail}", hint="start capture first")
    with TrailReader(job.trail, name="bundle") as reader:
        end, first = reader.end(), reader.first()
        segments = [
            {
                "file": s.name,
                "state": s.state,
                "bytes": s.bytes,
                "first": s.first,
                "last": s.last,
                "chunks": s.chunks,
                "rows": s.rows,
            }
            for s in reader.segments()
        ]
    return {
        "format": identity.format,
        "id": identity.job_uuid,
        "first": first,
        "written": str(end.position),
        "segments": segments,
        "headers": _headers(storage),
        "readers": [
            {"name": one.name, "kind": one.kind, "sequence": one.sequence} for one in readers(job.trail).values()
        ],
        "prepared_transactions": len(waiting(job.trail)),
    }


def _headers(storage: LocalStorage) -> dict[str, Any]:
    problems = list[str]()
    names = segment_names(storage.names())
    for name in names:
        segment = SegmentReader(storage, str(name))
        try:
            check_segment(storage, segment, name)
        except TrailError as error:
            problems.append(error.message)
        except FileNotFoundError:  # it was dropped, or packed, at this moment
            continue
        finally:
            segment.close()
    return {"checked": len(names), "problems": problems}


def schemas(job: JobView, shown: Shown) -> dict[str, Any]:
    """Return the versions of each table's definition: names and types, no default, comment, expression or condition."""
    found = versions(job)
    return {"versions": [_version(one, shown) for one in found]}


def _version(one: TableVersion, shown: Shown) -> dict[str, Any]:
    reason, _, statement = one.ended.partition(": ")
    return {
        "table": str(one.table),
        "version": one.schema.version,
        "sequence": one.sequence,
        "position": one.position,
        "came": one.came,
        "statement": one.statement and (kind_of(one.statement) or HIDDEN),
        "ended": shown.text(reason) + (f": {kind_of(statement) or HIDDEN}" if statement else ""),
        "renamed": [list(pair) for pair in one.renamed],
        **_definition(one.schema),
    }


def _definition(schema: TableSchema) -> dict[str, Any]:
    columns = [
        {
            "name": column.name,
            "type": type_of(column.native),
            "nullable": column.nullable,
            "has_default": column.has_default,
            "generated": column.generated,
            "auto_increment": column.auto_increment,
            "charset": column.charset,
            "collation": column.collation,
            "replicated": column.type is not None,
        }
        for column in schema.columns
    ]
    indexes = [
        {"name": index.name, "columns": list(index.columns), "unique": index.unique, "kind": index.kind}
        for index in schema.indexes
    ]
    keys = [
        {
            "name": key.name,
            "columns": list(key.columns),
            "parent": str(key.parent),
            "parent_columns": list(key.parent_columns),
        }
        for key in schema.foreign_keys
    ]
    return {
        "columns": columns,
        "primary_key": list(schema.primary_key),
        "indexes": indexes,
        "foreign_keys": keys,
        "checks": [check.name for check in schema.checks],
        "partitions": len(schema.partitions),
        "engine": schema.engine,
    }


def epochs(job: JobView) -> Iterator[dict[str, Any]]:
    """Yield the last stretches of the trail that capture has written, and each target's apply has passed; of a damaged state.db
    nothing."""
    homes = [("capture", "", job.config.home), *(("apply", one.target, one.target_home) for one in job.targets())]
    for part, target, path in homes:
        if _state_is_whole(path):
            with closing(StateStore(path)) as store:
                yield from ({"part": part, "target": target, **one} for one in store.last_passages(part, STRETCHES))


def trace(job: JobView, hours: float) -> list[dict[str, Any]]:
    """Return the entries of the last hours, the oldest first, at most ENTRIES."""
    return list(traces.entries(job.config.home, _since(hours)))[-ENTRIES:]


def tracebacks(job: JobView, hours: float) -> Iterator[str]:
    """Yield the tracebacks of the last hours: places in the code and names of errors, without what they say."""
    since = _since(hours).timestamp()
    files = [
        path for path in sorted((job.config.home / "logs").glob("traceback-*.txt")) if path.stat().st_mtime >= since
    ]
    for path in files[-TRACEBACKS:]:
        yield f"== {path.name}"
        for line in path.read_text(errors="replace").splitlines():
            if frame := _FRAME.match(line):
                yield frame[0]
            elif (raised := _RAISED.match(line)) and (
                raised[1].endswith(("Error", "Exception", "Refused")) or "." in raised[1]
            ):
                yield raised[1]


def disks(job: JobView) -> dict[str, Any]:
    """Return the sizes of file systems, and of the files of the home."""
    home = job.config.home
    there = {str(path): path for path in (home, job.trail, job.target_home, Path.cwd()) if path.exists()}
    usage = {name: shutil.disk_usage(path)._asdict() for name, path in there.items()}
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    return {
        "bytes": usage,
        "files": {
            str(path.relative_to(home)): size for path in islice(files, FILES) if (size := _size(path)) is not None
        },
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # it has just gone
        return None


def _since(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)
