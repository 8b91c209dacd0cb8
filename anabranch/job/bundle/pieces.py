"""Gathers what goes into a bundle, piece by piece: each one may be missing, none stops the others.

What does not live here: what of it may be seen (`shown.py`), the pieces that are read from files of the home (`home.py`), the
archive (`archive.py`).
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.config import raw_job
from anabranch.config.toml_text import key_of, text_of
from anabranch.errors import AnabranchError
from anabranch.job.bundle import home
from anabranch.job.bundle.cutting import Cutter
from anabranch.job.bundle.secrets import HIDDEN, NAMES, Secrets
from anabranch.job.bundle.shown import Shown
from anabranch.model.ids import TableId
from anabranch.trail.reader import TrailReader, exists
from anabranch.version import __version__

if TYPE_CHECKING:
    from anabranch.model.status import Status
    from anabranch.view.job_view import JobView

ASKS = "--offline: neither end is asked"
AMOUNT = frozenset("0123456789kmgtbKMGTB.")  # of a setting of Spark that says how much


@dataclass
class Gathered:
    """The pieces by their file names, in their order, and those that are not there, with why."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, make: Callable[[], bytes]) -> None:
        """Add a piece, or why it is not there."""
        try:
            self.files[name] = make()
        except AnabranchError as error:
            self.left_out[name] = str(error)
        except Exception as error:  # noqa: BLE001 - the outermost of a piece: whoever helps needs the others all the more
            self.left_out[name] = f"{type(error).__name__}: {error}"


def gathered(job: JobView, hours: float, offline: bool) -> Gathered:
    """Return all pieces of a job. `hours`: of the trace, up to now; `offline`: leave out what asks an end."""
    found, told = Gathered(), dict[str, Any]()
    # First of all, since whoever asks for a status makes a damaged one anew.
    found.add("state.json", lambda: told.setdefault("state", home.state(job)) and b"")
    if not offline:
        found.add("status.json", lambda: told.setdefault("status", _status(job)) and b"")
    written = job.path.read_text(encoding="utf-8", errors="replace") if job.path.is_file() else ""
    secrets = Secrets.of(job, os.environ, written)
    shown = Shown(secrets, Cutter(_names(job, told.get("status"))))
    _add_local(found, job, hours, shown, told)
    _add_asked(found, job, offline, shown, told)
    found.left_out = {name: shown.text(why) for name, why in found.left_out.items()}
    return found


def _add_local(found: Gathered, job: JobView, hours: float, shown: Shown, told: Mapping[str, Any]) -> None:
    if "state" in told:
        found.add("state.json", lambda: as_bytes(shown.of(told["state"])))
    found.add("job.toml", lambda: job_file(job, shown).encode())
    found.add("environment.json", lambda: as_bytes(shown.hidden({"names": sorted(os.environ)})))
    found.add("versions.json", lambda: as_bytes(shown.hidden(versions())))
    found.add("disks.json", lambda: as_bytes(shown.hidden(home.disks(job))))
    found.add("trail.json", lambda: as_bytes(shown.of(home.trail(job))))
    found.add("schema.json", lambda: as_bytes(shown.hidden(home.schemas(job, shown))))
    found.add("trace.jsonl", lambda: b"".join(as_line(shown.of(entry)) for entry in home.trace(job, hours)))
    found.add("epochs.jsonl", lambda: b"".join(as_line(shown.hidden(one)) for one in home.epochs(job)))
    found.add("tracebacks.txt", lambda: shown.secrets.hide("\n".join(home.tracebacks(job, hours))).encode())


def _add_asked(found: Gathered, job: JobView, offline: bool, shown: Shown, told: Mapping[str, Any]) -> None:
    if offline:
        found.left_out |= dict.fromkeys(("status.json", "metrics.txt", "preflight.json", "ddl.json"), ASKS)
        return
    from anabranch.job.measuring import metrics_text
    from anabranch.model.status import as_json

    status = told.get("status")
    if status is not None:
        found.add("status.json", lambda: as_bytes(shown.of(as_json(status))))
        found.add("metrics.txt", lambda: shown.secrets.hide(metrics_text(job, status)).encode())
    else:
        found.left_out["metrics.txt"] = "it is made of the status"
    found.add("preflight.json", lambda: as_bytes(shown.of(_preflight(job))))
    found.add("ddl.json", lambda: as_bytes(shown.of(_ddl(job))))


def _status(job: JobView) -> Status:
    from anabranch.job.status import status

    return status(job)


def _preflight(job: JobView) -> dict[str, Any]:
    from anabranch.job.preflight import asked_report

    reports = dict[str, Any]()
    for one in job.targets():
        try:
            reports[one.target] = asked_report(one).to_json()
        except AnabranchError as error:
            reports[one.target] = {"error": str(error), **error.facts()}
    return {"targets": reports}


def _ddl(job: JobView) -> dict[str, Any]:
    from anabranch.job.ddl_changes import ddl_changes

    found = dict[str, Any]()
    for one in job.targets():
        try:
            changes = ddl_changes(one, None)
            found[one.target] = [
                {**asdict(change), "source": str(change.source), "target": str(change.target)} for change in changes
            ]
        except AnabranchError as error:
            found[one.target] = {"error": str(error), **error.facts()}
    return {"targets": found}


def _names(job: JobView, status: Status | None) -> Iterator[str]:
    """Yield names of the job that are no values: of tables, columns, indexes, ends and hosts."""
    config = job.config
    yield from (config.name, os.uname().nodename, *config.ends, *(str(entry.id) for entry in config.tables))
    for end in (config.source.endpoint, *config.ends.values()):
        for one in (end, *end.each):
            yield from (one.scheme, one.place, one.host, one.database, f"{one.host}:{one.port}")
    for target in status.targets if status else ():
        for table in target.tables:
            yield from (table.source, table.target)
    with suppress(AnabranchError):
        if exists(job.trail):
            with TrailReader(job.trail) as reader:
                for entry in reader.history.entries:
                    yield from _named(entry.table)
                    if entry.schema is not None:
                        yield from _named(entry.schema.id)
                        yield from (column.name for column in entry.schema.columns)
                        yield from (index.name for index in entry.schema.indexes)


def _named(table: TableId | None) -> tuple[str, ...]:
    return (str(table), table.schema, table.name) if table else ()


# --- the job file -----------------------------------------------------------------------------------------------------


def job_file(job: JobView, shown: Shown) -> str:
    """Return the job file without comments, secrets, users, filters' values and arguments of commands."""
    lines = ["# as anabranch bundle shows it: without comments, secrets, users and values"]
    raw = raw_job(job.path)
    lines += [
        f"{key_of(name)} = {text_of(_seen(name, one, shown))}" for name, one in raw.items() if not _is_section(one)
    ]
    for name, one in raw.items():
        for section in one if isinstance(one, list) and _is_section(one) else [one] if _is_section(one) else []:
            lines += ["", f"[[{key_of(name)}]]" if isinstance(one, list) else f"[{key_of(name)}]"]
            lines += [f"{key_of(key)} = {text_of(_seen(key, value, shown, name))}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
    )


def _seen(key: str, value: Any, shown: Shown, section: str = "") -> Any:
    if isinstance(value, dict):
        inner = key if section == "spark" or not section else section
        return {name: _seen(name, one, shown, inner) for name, one in value.items()}
    if key == "flip" or NAMES.search(key):
        return [HIDDEN] * len(value) if isinstance(value, list) else HIDDEN
    if isinstance(value, list):
        return [_seen(key, one, shown, section) for one in value]
    if not isinstance(value, str):
        return value
    if key == "url":
        return shown.secrets.url(value)
    if section == "conf":
        return value if AMOUNT.issuperset(value) or value in ("true", "false") else HIDDEN
    return shown.text(value) if key == "where" else shown.secrets.url(value)


# --- this machine -----------------------------------------------------------------------------------------------------


def versions() -> dict[str, Any]:
    """Return the releases of what runs here. Those of the servers are findings of preflight."""
    from anabranch.rows import installed

    packages = {one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]}
    return {
        "anabranch": __version__,
        "decoder": installed.described(),
        "python": sys.version,
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "package": str(Path(__file__).parents[2]),
        "packages": dict(sorted(packages.items(), key=lambda one: one[0].lower())),
    }


def as_bytes(value: Any) -> bytes:
    """Return a value as a JSON document."""
    return (json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def as_line(value: Any) -> bytes:
    """Return a value as a line of JSON."""
    return (json.dumps(value, default=str, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
