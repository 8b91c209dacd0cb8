"""Rules that move from one job to another: a file that has nothing else, and what its import means for the other job.

The job file is replaced as a whole, or not at all. Nothing is taken over: that is `anabranch plan`'s. What does not live here:
the text itself (`config/rule_text.py`), what a changed file means for tables (`planning.py`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from anabranch.config import JobConfig, parse_job, raw_job
from anabranch.config.reading import AnyVariable
from anabranch.config.rule_text import SECTIONS, exported, imported, parted, read, rules_text
from anabranch.errors import ConfigError, SourceUnavailable, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.lifecycle.planning import Plan, plan
from anabranch.rules.rule_set import check_filter
from anabranch.version import __version__
from anabranch.view.chosen_tables import chosen_tables
from anabranch.view.job_view import JobView
from anabranch.view.running import running


@dataclass(frozen=True)
class ImportedRules:
    """Keep what an import of rules did, or would do. `lines`: the differences of the rules, as a unified diff without its head;
    empty where the job file says the same already. `warnings`: what the rules do not fit. `plans`: what `Job.plan` says then,
    by target, None where the job has not run there; empty where nobody was asked. `written`: whether the file was replaced."""

    name: str
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    plans: Mapping[str, Plan | None] | None = None
    written: bool = False


def exported_rules(file: Path) -> str:
    """Return a job's rules as a file of their own. Asks neither end; variables need no values. Raises ConfigError."""
    raw, text = raw_job(file), file.read_bytes().decode("utf-8-sig")
    config = parse_job(text, file, AnyVariable(), check_filter)
    targets = sorted({end.scheme for end in config.ends.values()})
    origin = {"job": str(raw["name"]), "source": config.source.endpoint.scheme, "targets": targets}
    return exported(text, origin, _choices(config), f"written by anabranch {__version__} from {file.name}")


def import_rules(
    rules: Path, file: Path, check: bool = False, offline: bool = False, sections: Sequence[str] = SECTIONS
) -> ImportedRules:
    """Put the sections of a file of rules in place of those of a job file, which may have none yet. `check`: write nothing.
    `offline`: ask neither end, and need no variables. Raises ConfigError, or PreflightFailed, for rules that the job cannot
    have; then nothing is written."""
    before = raw_job(file)  # raises for a file that is none
    content = file.read_bytes()
    text, came = content.decode("utf-8-sig"), _text(rules)
    said = read(came, rules.name)
    if parted(said, sections)[0] == parted(before, sections)[0]:
        return ImportedRules(str(before.get("name", "")), ())
    made = imported(text, came, sections)
    try:
        config = parse_job(made, file, AnyVariable() if offline else os.environ, check_filter)
    except ConfigError as error:
        problems = [f"with {rules.name}, {error.message}", *map(str, error.problems)]
        raise ConfigError("; ".join(problems), hint="nothing was written; lines are those of the new file") from None
    job = JobView(config, file)
    for one in job.targets():
        one.rules  # noqa: B018  # raises for types that the target cannot have
    warnings = [*_unlike(said, config), *_working(job)]
    plans: dict[str, Plan | None] = {}
    if not offline:
        warnings += _asked(job, plans)
    was, now = (rules_text(one.replace("\r\n", "\n"), sections).splitlines() for one in (text, came))
    lines = unified_diff(was, now, lineterm="", n=2)
    if not check:
        _replace(file, content, ("\ufeff" if content.startswith(b"\xef\xbb\xbf") else "") + made)
    return ImportedRules(config.name, tuple(lines)[2:], tuple(warnings), plans, not check)


def _asked(job: JobView, plans: dict[str, Plan | None]) -> list[str]:
    """Fill in what the rules mean for each target that is there. Returns warnings, of which one is an end that is away."""
    warnings = list[str]()
    for one in job.targets():
        try:
            plans[one.target] = plan(one, execute=False)
        except (SourceUnavailable, TargetUnavailable) as error:
            warnings.append(f"what this means for the tables of {one.target} is not known: {error}")
    try:
        return [*warnings, *chosen_tables(job).warnings]
    except SourceUnavailable as error:
        return [*warnings, f"whether all patterns name tables is not known: {error}"]


def _working(job: JobView) -> Iterator[str]:
    if parts := [str(part) for part in running(job)]:
        yield (
            f"the job is running ({', '.join(parts)}) by the rules that it has taken over, and a part of it that starts again"
            " refuses others: stop it, take them over with anabranch plan JOB --execute, start it"
        )


def _unlike(said: Mapping[str, Any], config: JobConfig) -> Iterator[str]:
    """Yield where the job is another one than that of the rules, so that they may mean something else."""
    source = said.get("origin", {}).get("source")
    if source not in (None, config.source.endpoint.scheme):
        yield f"the rules are of a {source} source, this job's is {config.source.endpoint.scheme}: names and types are its own"
    for kind, chosen in said.get("choices", {}).items():
        for name in config.ends:
            here = config.type_choices(name).get(kind, chosen)
            if here != chosen:
                yield (
                    f"options.{kind} of {name} is {here!r}, where the rules come from it is {chosen!r}: options of a database"
                    " stay as each file has them"
                )


def _choices(config: JobConfig) -> dict[str, Any]:
    """Return choices of types that all targets have alike."""
    every = [config.type_choices(name) for name in config.ends]
    return {kind: chosen for kind, chosen in every[0].items() if all(one.get(kind) == chosen for one in every)}


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {why}") from None


def _replace(file: Path, before: bytes, text: str) -> None:
    """Put a text in place of a file, as a whole, with its owner and rights. Raises ConfigError where the file has changed
    meanwhile."""
    real = file.resolve()
    draft = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    try:
        _remove_drafts(real)
        there = real.stat()
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, there.st_mode & 0o600)
        with open(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            _give(handle, there)
            os.fsync(handle)
        reach("rules.import.written")
        if real.read_bytes() != before:
            raise ConfigError(f"{file} was changed meanwhile", hint="look at it, and import once more")
        os.replace(draft, real)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _give(handle: int, there: os.stat_result) -> None:
    """Give a draft the owner and the rights of the file that it replaces. A group that cannot have it gets none."""
    for owner, group in ((there.st_uid, -1), (-1, there.st_gid)):
        with suppress(PermissionError):  # an ordinary user gives no file away
            os.fchown(handle, owner, group)
    is_of_group = os.fstat(handle).st_gid == there.st_gid
    os.fchmod(handle, stat.S_IMODE(there.st_mode) & (0o7777 if is_of_group else ~0o070))


def _remove_drafts(real: Path) -> None:
    """Remove drafts of a file whose imports were killed: they have what the file has."""
    for one in real.parent.iterdir():
        pid = one.name.removeprefix(f".{real.name}.").removesuffix(".tmp")
        if pid.isdecimal() and one.name == f".{real.name}.{pid}.tmp" and not _is_another(int(pid)):
            one.unlink(missing_ok=True)


def _is_another(pid: int) -> bool:
    """Return whether another process of now has the number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid != os.getpid()
