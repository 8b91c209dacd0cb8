"""The demo's story, in order: servers, shop, job under a writer, verification, summary.

Progress goes to stderr, the summary to stdout. What does not live here: any of the actors. Each is a context, so that
nothing is left running however the story ends.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from anabranch.demo import place, shop
from anabranch.demo.child import Child
from anabranch.demo.following import follow
from anabranch.demo.moving import across_a_dmz
from anabranch.demo.moving_summary import MovedSummary
from anabranch.demo.pipeline import Pipeline
from anabranch.demo.summary import Summary
from anabranch.demo.switching import SwitchSummary, there_and_back
from anabranch.errors import ConfigError, install_hint
from anabranch.testing import class_archive, packages
from anabranch.testing.cache import ServerUnavailable
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql

RATE = 250.0  # the writer's transactions per second: two cores have room left
SOURCES: dict[str, tuple[str, Callable[[Path], Server]]] = {
    "mariadb": ("MariaDB", start_mariadb),
    "postgresql": ("PostgreSQL", partial(start_postgresql, options=("--wal-level=logical",))),
}
TARGETS: dict[str, tuple[str, Callable[[Path], Server]]] = {
    "postgresql": ("PostgreSQL", start_postgresql),
    "mysql": ("MySQL", partial(start_mysql, options=("--local-infile=1",))),
    "mariadb": ("MariaDB", start_mariadb),
}
# Targets that keep the log of which the way back is fed.
LOGGING: dict[str, tuple[str, Callable[[Path], Server]]] = {
    **TARGETS,
    "postgresql": ("PostgreSQL", partial(start_postgresql, options=("--wal-level=logical",))),
}
FINDERS: dict[str, Callable[[], object]] = {
    "postgresql": lambda: packages.find_postgresql(),
    "mariadb": lambda: packages.find_mariadb(),
    "mysql": lambda: packages.find_mysql(),
}
SCENARIOS = FOLLOW, CUTOVER, DMZ = "follow", "cutover", "dmz"
DRIVERS = ("pymysql", "psycopg", "pyspark", "cryptography")
MAKE_ARCHIVE = "from anabranch.testing.class_archive import environment; environment()"
LEVEL_VARIABLE = "ANABRANCH_LOG_LEVEL"


def run_demo(
    seconds: float | None = 60.0,
    *,
    keep: bool = False,
    rate: float = RATE,
    source: str = "mariadb",
    target: str = "postgresql",
    scenario: str = FOLLOW,
) -> int:
    """Run the demo in the working directory. `source`: a key of SOURCES; `target`: one of TARGETS. `seconds`: None runs until
    Ctrl-C. `scenario`: one of SCENARIOS. Returns the exit code: 0 only if everything is identical."""
    if scenario == CUTOVER and source != "mariadb":
        raise ConfigError(
            "the shop of a PostgreSQL has arrays and ranges, which do not come back from everywhere",
            hint="anabranch demo --scenario cutover --source mariadb",
        )
    started = time.monotonic()
    java_home = requirements(source, target)
    os.environ.setdefault("JAVA_HOME", str(java_home))
    if sys.stderr.isatty():
        os.environ.setdefault(LEVEL_VARIABLE, "warning")  # the job's log lines would tear its live line
    with place.demo_directory(Path.cwd()) as directory:
        summary: Summary | SwitchSummary | MovedSummary
        if scenario == CUTOVER:
            summary = _there_and_back(directory, java_home, rate, (source, target))
        elif scenario == DMZ:
            summary = _across_a_dmz(directory, java_home, seconds, rate, (source, target))
        else:
            summary = _on_servers(directory, java_home, seconds, rate, (source, target))
        total = [_total(time.monotonic() - started)] if scenario == CUTOVER else []
        print("\n".join(["", *summary.lines(), *total, ""]), flush=True)
        if keep or summary.exit_code:
            say(f"databases, job and trail are kept in {_short(directory)} until the next demo")
        else:
            place.remove_own(directory)
    say(f"done in {time.monotonic() - started:.0f} s; nothing is left running")
    _keep_classes()
    return summary.exit_code


def _total(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"total       {minutes} min {rest:02} s, from two servers that start to the last comparison"


def requirements(source: str = "mariadb", target: str = "postgresql") -> Path:
    """Return JAVA_HOME. If something is missing that cannot be fetched, raise one error that names all of it and says
    what to do."""
    finders = (*(FINDERS[family] for family in dict.fromkeys((target, source))), packages.find_java)
    missing = [name for name in DRIVERS if importlib.util.find_spec(name) is None]
    hints = [install_hint("all")] if missing else []
    found: list[object] = []
    for find in finders:
        try:
            found.append(find())
        except ServerUnavailable as unavailable:
            missing.append(unavailable.message)
            hints.append(unavailable.hint)
    if missing:
        raise ConfigError(f"missing for the demo: {', '.join(missing)}", hint="; ".join(hints))
    return Path(str(found[-1])).parent.parent


def say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def _on_servers(
    directory: Path, java_home: Path, seconds: float | None, rate: float, families: tuple[str, str]
) -> Summary:
    (title, start), (title_there, start_there) = SOURCES[families[0]], TARGETS[families[1]]
    say(f"starting {title} and {'another ' * (title == title_there)}{title_there}, privately")
    with start(directory / "source") as origin, start_there(directory / "target") as place_there:
        say(f"  source  {_described(origin)}", f"  target  {_described(place_there)}")
        source, target = shop.create_source(origin), shop.create_target(place_there)
        rows, tables = shop.count_rows(source)
        say(f"a shop with {rows:,} rows in {tables} tables; a writer begins, {rate:.0f} transactions a second")
        pipeline = Pipeline.write(directory, source, target, {"JAVA_HOME": str(java_home), **class_archive.found()})
        say("from another terminal:", f"  . {_short(pipeline.env_file)} && {_command('status', pipeline)}")
        say("", _command("run", pipeline), f"  {_until(seconds)}, then the writer stops, and all of it is verified", "")
        streamed = follow(pipeline, source, target, seconds, rate, say)
        say(_command("verify", pipeline))
        verification = pipeline.verify()
        return Summary(pipeline.job().status(), verification, streamed)


def _there_and_back(directory: Path, java_home: Path, rate: float, families: tuple[str, str]) -> SwitchSummary:
    (title, start), (title_there, start_there) = SOURCES[families[0]], LOGGING[families[1]]
    say(f"starting {title}, the old side, and {title_there}, the new one, privately")
    with start(directory / "source") as origin, start_there(directory / "target") as place_there:
        say(f"  old  {_described(origin)}", f"  new  {_described(place_there)}")
        source, target = shop.create_source(origin), shop.create_target(place_there)
        java = {"JAVA_HOME": str(java_home), **class_archive.found()}
        return there_and_back(directory, source, target, java, rate, say)


def _across_a_dmz(
    directory: Path, java_home: Path, seconds: float | None, rate: float, families: tuple[str, str]
) -> MovedSummary:
    (title, start), (title_there, start_there) = SOURCES[families[0]], TARGETS[families[1]]
    say(f"starting {title} in the source's network, and {title_there} in the target's, privately")
    with start(directory / "source") as origin, start_there(directory / "target") as place_there:
        say(f"  source  {_described(origin)}", f"  target  {_described(place_there)}")
        source, target = shop.create_source(origin), shop.create_target(place_there)
        rows, tables = shop.count_rows(source)
        say(f"a shop with {rows:,} rows in {tables} tables; a writer begins, {rate:.0f} transactions a second")
        java = {"JAVA_HOME": str(java_home), **class_archive.found()}
        return across_a_dmz(directory, source, target, java, seconds, rate, say)


def _keep_classes() -> None:
    """Put an archive of Spark's classes into the cache for the next demo. This comes after the summary: at the start it
    would take time from the job that the archive is to save."""
    if class_archive.found():
        return
    say(
        "an archive of Spark's classes is put into the cache: with it the demo starts in half the time (Ctrl-C: without)"
    )
    with suppress(KeyboardInterrupt), Child([sys.executable, "-c", MAKE_ARCHIVE], {}) as child:
        child.process.wait()


def _described(server: Server) -> str:
    return f"{server.name} {server.version} on {server.host}:{server.port}"


def _command(verb: str, pipeline: Pipeline) -> str:
    """Return the command as the user would type it here."""
    program = Path(sys.argv[0])
    name = _short(program) if program.name == "anabranch" else "anabranch"
    return f"{name} {verb} {_short(pipeline.job_file)}"


def _until(seconds: float | None) -> str:
    return "until Ctrl-C" if seconds is None else f"for {seconds:.0f} seconds of streaming, or until Ctrl-C"


def _short(path: Path) -> str:
    """Return the path relative to the working directory where it is below it."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
