"""`anabranch trail export|import`: a trail carried by files to where no line leads.

What does not live here: what parcels are, and how they are made and taken in (`trail/exporting.py`, `trail/importing.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json

if TYPE_CHECKING:
    from anabranch.job import Job
    from anabranch.trail.exporting import Exporter
    from anabranch.trail.importing import Importer
    from anabranch.trail.parcel import Manifest
    from anabranch.trail.signing import Signer, Verifier

URL = "trail+file://"
UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AMOUNT = re.compile(r"(\d{1,9})\s*([A-Za-z]{1,2})")
UNOPENED = "the parcels are encrypted, and nobody has opened one: --trail-key FILE"
LOOKED = 1.0  # seconds between two looks for a parcel that is to come


def trail_of(job: str) -> Path:
    """Return the directory of a job's trail; of a trail that is named itself, by its directory or as a URL, that one."""
    found = _found(job)
    return found if isinstance(found, Path) else found.trail


def _found(job: str) -> Path | Job:
    """Return a trail that is named itself, or else the job of the file."""
    from anabranch.trail import identity

    if job.startswith(URL):
        return _absolute(job.removeprefix(URL))
    if Path(job, identity.FILE).is_file():
        return Path(job).absolute()
    from anabranch.job import Job

    return Job.from_file(job)


def _trail_with_keys(job: str) -> Path:
    """Return the trail as `trail_of` does. Keys that a job's file names to read another one's trail are noted beside it."""
    found = _found(job)
    if isinstance(found, Path):
        return found
    from anabranch.lifecycle.encrypting import note_keys

    note_keys(found)
    return found.trail


def _absolute(text: str) -> Path:
    if not text.startswith("/"):
        raise click.BadParameter(f"{URL}{text!r} names no directory: {URL}/DIR/NAME is wanted")
    return Path(text)


def _amount(units: dict[str, int], wanted: str) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    def parsed(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
        if text is None:
            return None
        found = _AMOUNT.fullmatch(text)
        if not found or found[2].lower() not in units or not int(found[1]):
            raise click.BadParameter(f"{text!r} is not {wanted}", context, parameter)
        return int(found[1]) * units[found[2].lower()]

    return parsed


@click.command("export", cls=Verb)
@job_argument
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the export; that of DIR where nothing is said.")
@click.option("--from", "start", metavar="POSITION", help="First transaction, where the export begins.")
@click.option("--to", "end", metavar="POSITION", help="Last transaction.")
@click.option(
    "--size", metavar="N", callback=_amount(UNITS, "an amount as 64MB"), help="Bytes of a parcel  [default: 64MB]"
)
@click.option("--follow", is_flag=True, help="Go on exporting until Ctrl-C.")
@click.option(
    "--every", metavar="T", callback=_amount(SECONDS, "a time as 10m"), help="With --follow: how often  [default: 10m]"
)
@click.option("--sign-key", metavar="FILE", help="Sign with this private key (Ed25519, PEM).")
@click.option("--sign-key-env", metavar="NAME", help="Sign with the private key in this environment variable.")
@click.option("--trail-key", metavar="FILE", multiple=True, help="Key of an encrypted trail that no job here names.")
@click.option("--trail-key-env", metavar="NAME", multiple=True, help="The same, in this environment variable.")
@click.option("--no-load", is_flag=True, help="Leave files of initial loads out.")
@click.option("--again", is_flag=True, help="Write an interrupted parcel anew that nobody has.")
@click.option("--forget", is_flag=True, help="Remove the export: nothing is kept for it.")
@json_option
@log_level("warning")
def export_(
    job: str, directory: Path, name: str | None, start: str | None, end: str | None, size: int | None, follow: bool,
    every: int | None, sign_key: str | None, sign_key_env: str | None, trail_key: tuple[str, ...],
    trail_key_env: tuple[str, ...], no_load: bool, again: bool, forget: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write what is new in a trail into DIR, in parcels: numbered directories with digests.

    JOB may also be the directory of a trail, or its URL. It goes on where the last export into DIR has ended, also when the
    parcels were taken away. The trail keeps what was not exported.
    """
    from anabranch.trail import exports, keys
    from anabranch.trail.exporting import SIZE, Exporter
    from anabranch.trail.storage import LocalStorage

    if every and not follow:
        raise click.UsageError("--every is for --follow")
    if follow and end:
        raise click.UsageError("--follow has no end: leave --to out")
    trail, directory = trail_of(job) if forget else _trail_with_keys(job), directory.absolute()
    name = name or exports.name_for(trail, directory)
    if forget:
        was = exports.forget(trail, name, directory)
        click.echo(f"export {name} is forgotten" if was else f"there is no export {name}")
        return
    signer = _signer(sign_key, sign_key_env)
    if places := _places(trail_key, trail_key_env):
        keys.note_reader(LocalStorage(trail), {"current": places[0], "former": places[1:]})
    options: dict[str, Any] = {"size": size or SIZE, "signer": signer, "with_load": not no_load, "again": again}
    with Exporter(trail, directory, name, start=_sequence(start, "--from"), **options) as exporter:
        if exporter.reached.number and not as_json:
            click.echo(f"export {name} goes on behind parcel {exporter.reached.number}", err=True)
        if follow:
            _follow(exporter, every or 600)
            return
        made = _export_all(exporter, _sequence(end, "--to"), as_json)
        if as_json:
            reached = {"number": exporter.reached.number, "position": exporter.reached.position}
            write_json({"version": 1, "export": name, "parcels": [_facts(one) for one in made], "reached": reached})
        elif not made:
            click.echo(f"nothing is new behind parcel {exporter.reached.number}")


def _export_all(exporter: Exporter, upto: int | None, is_silent: bool) -> list[Manifest]:
    made = []
    with _bar() as bar:
        while manifest := exporter.next(upto, told=bar(exporter.reached.number + 1)):
            made.append(manifest)
            if not is_silent:
                click.echo(f"{_line(manifest)}, written")
    return made


def _follow(exporter: Exporter, every: int) -> None:
    from anabranch.job.signals import Stop
    from anabranch.trail.exporting import follow

    with Stop() as stop:

        def wait(seconds: float) -> bool:
            return stop.asked() or (seconds > 0 and stop.wait(seconds))

        follow(exporter, every, wait, lambda made: click.echo(f"{_line(made)}, written"))


@click.command("import", cls=Verb)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--into", metavar="TRAIL", help="The replica: its directory, or trail+file:///DIR/NAME.")
@click.option("--verify-key", metavar="FILE", multiple=True, help="Accept only what this public key has signed (PEM).")
@click.option(
    "--trail-key",
    metavar="FILE",
    multiple=True,
    help="Accept only what is sealed by this key.",
)
@click.option("--trail-key-env", metavar="NAME", multiple=True, help="The same, in this environment variable.")
@click.option("--watch", is_flag=True, help="Go on and wait for parcels until Ctrl-C.")
@click.option("--remove-imported", is_flag=True, help="Remove parcels from DIR that the replica has durably.")
@click.option("--check", is_flag=True, help="Read and compare everything in DIR; import nothing.")
@json_option
@log_level("warning")
def import_(
    directory: Path, into: str | None, verify_key: tuple[str, ...], trail_key: tuple[str, ...],
    trail_key_env: tuple[str, ...], watch: bool, remove_imported: bool, check: bool, as_json: bool,
) -> None:  # fmt: skip
    """Take parcels that an export has written into a replica of the trail, each once, in their order.

    A parcel is verified whole before anything of it is to be seen. Where one is missing those before it are taken in, and the
    exit code is 7; with --watch it is waited for.
    """
    from anabranch.trail.importing import Importer
    from anabranch.trail.signing import verifier

    keys = verifier(verify_key) if verify_key else None
    places = _places(trail_key, trail_key_env)
    if check:
        _check(directory, keys, places, as_json)
        return
    if not into:
        raise click.UsageError("--into is wanted: where the replica is, or is to be")
    if watch and as_json:
        raise click.UsageError("--watch has no end to write as JSON")
    place = _absolute(into.removeprefix(URL)) if into.startswith(URL) else Path(into)
    options: dict[str, Any] = {"keys": keys, "trail_keys": places, "remove": remove_imported}
    with Importer(directory, place.absolute(), **options) as importer:
        if watch:
            _watch(importer)
            return
        made, had = _import_all(importer, as_json, keys is not None)
        if any(one.seal for one in made) and not importer.has_key:
            click.echo(UNOPENED, err=True)
        if as_json:
            write_json(
                {"version": 1, "imported": [_facts(one) for one in made], "before": had, "number": importer.number}
            )
        elif not made:
            click.echo(f"nothing is new behind parcel {importer.number}")


def _import_all(importer: Importer, is_silent: bool, is_verified: bool) -> tuple[list[Manifest], list[int]]:
    made, had = [], []
    for number in importer.had():
        had.append(number)
        if not is_silent:
            click.echo(f"parcel {number}: was imported before")
    with _bar() as bar:
        while manifest := importer.next(bar(importer.number + 1)):
            made.append(manifest)
            if not is_silent:
                click.echo(f"{_line(manifest)}, imported")
    if any(one.key for one in made) and not is_verified:
        click.echo("the parcels are signed, and nobody has checked it: --verify-key FILE", err=True)
    return made, had


def _watch(importer: Importer) -> None:
    """Take in what comes. What is missing is told once, and waited for; that parcels are taken in unopened is told once."""
    from anabranch.errors import ParcelMissing
    from anabranch.job.signals import Stop

    missing, is_told = "", False
    with Stop() as stop:
        while not stop.asked():
            try:
                for number in importer.had():
                    click.echo(f"parcel {number}: was imported before")
                made = importer.next()
            except ParcelMissing as error:
                made, told = None, error.message
                if told != missing:
                    click.echo(f"waiting: {told}", err=True)
                missing = told
            if made:
                click.echo(f"{_line(made)}, imported")
                if made.seal and not is_told and not importer.has_key:
                    click.echo(UNOPENED, err=True)
                    is_told = True
            else:
                stop.wait(LOOKED)


def _check(directory: Path, keys: Verifier | None, trail_keys: Sequence[dict[str, str]], as_json: bool) -> None:
    from anabranch.trail.importing import verify

    made: list[Manifest] = []

    def told(manifest: Manifest) -> None:
        made.append(manifest)
        if not as_json:
            click.echo(f"{_line(manifest)}, every digest is right")

    verify(directory, keys, told, trail_keys)
    if as_json:
        write_json({"version": 1, "parcels": [_facts(one) for one in made]})
    elif not made:
        click.echo(f"no parcels are in {directory}")


@contextmanager
def _bar() -> Iterator[Callable[[int], Callable[[int, int], None] | None]]:
    """Show on a terminal how far the parcel is; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)

        def of(number: int) -> Callable[[int, int], None]:
            def told(done: int, total: int) -> None:
                shown.update(task, description=f"parcel {number}", completed=min(done, total), total=total or None)

            return told

        yield of


def _signer(file: str | None, variable: str | None) -> Signer | None:
    from anabranch.trail.signing import signer_of_environment, signer_of_file

    if file and variable:
        raise click.UsageError("--sign-key and --sign-key-env exclude each other")
    if file:
        return signer_of_file(file)
    return signer_of_environment(variable) if variable else None


def _places(files: Sequence[str], variables: Sequence[str]) -> list[dict[str, str]]:
    """Return the places of keys of a trail, as the job file says them; the first one is by which it is encrypted now."""
    return [
        *({"key_file": str(Path(file).absolute())} for file in files),
        *({"key_env": name} for name in variables),
    ]


def _sequence(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    number = text.partition("@")[0]
    if not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} is no position", param_hint=option)
    return int(number)


def _line(manifest: Manifest) -> str:
    count = manifest.last - manifest.first + 1
    told = f"sequences {manifest.first} to {manifest.last}" if count else f"behind {manifest.end}"
    load = sum(file.name.startswith("load/") for file in manifest.files)
    return (
        f"parcel {manifest.number}: {told}"
        + (f", {load} files of a load" if load else "")
        + f", {manifest.size:,} bytes"
    )


def _facts(manifest: Manifest) -> dict[str, Any]:
    names = ("number", "first", "last", "start", "end", "created", "key", "size")
    return {name: getattr(manifest, name) for name in names} | {"files": len(manifest.files)}
