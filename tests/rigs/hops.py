"""A way between two databases in two jobs, with a trail between them: one captures, the other applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from anabranch.config.reading import load_job
from anabranch.testing.servers import free_port
from anabranch.trail.reader import has_begun
from anabranch.view.job_view import JobView
from rigs.hop_files import Process, pump_file, receive_file, route_file, url
from rigs.scenario import SOURCE_SECRET, TARGET_SECRET, Result, Running, Scenario, wait_until

NO_SPARK = '[spark]\nmaster = "local[2]"\n'


@dataclass
class Hops:
    """`here` captures into `trail`, `there` applies it."""

    here: Scenario
    there: Scenario
    trail: Path

    def start(self) -> tuple[Running, Running]:
        return self.here.start("run"), self.there.start("run")

    def until_caught_up(self) -> tuple[Result, Result]:
        """Let both run until they have caught up, the one that captures first."""
        return self.here.run_until_caught_up(), self.there.run_until_caught_up()


def hops(made: Scenario, at_capture: str = "", at_apply: str = "", trail: Path | None = None) -> Hops:
    """Make two jobs of one. `at_capture`, `at_apply`: what their files have besides. `trail`: where the second one reads it,
    if that is another directory than the one that the first one writes."""
    here, written = capturing(made, at_capture)
    return Hops(here, applying(made, trail or written, at_apply), written)


def capturing(made: Scenario, more: str = "", at_source: str = "") -> tuple[Scenario, Path]:
    """Make the job that captures, and return it with its trail. `at_source`: what its `[source]` has besides."""
    here = replace(made, name=f"{made.name}_out", directory=made.directory / "out")
    written = made.directory / "trails" / "shop"
    source = made.source.server
    at = made.source_at or (source.host, source.port)
    user = made.user[0] if made.user else source.user
    here.job_file.write_text(
        f'name = "{here.name}"\n[source]\nurl = "{source.name}://{user}:${{{SOURCE_SECRET}}}@{at[0]}:{at[1]}{made.source_path}"\n'
        f'{at_source}\n[target]\nurl = "trail+file://{written}"\n[[rules]]\ninclude = ["{made.schema}.*"]\n{more}\n{NO_SPARK}'
    )
    return here, written


def applying(made: Scenario, trail: Path, more: str = "", to: str = "{table}") -> Scenario:
    """Make the job that applies a trail to the target of `made`. `to`: what tables are called there."""
    there = replace(made, name=f"{made.name}_in", directory=made.directory / "in", is_loaded_by_table=True)
    target = made.target.server
    at = made.target_at or (target.host, target.port)
    user = made.target_user[0] if made.target_user else target.user
    there.job_file.write_text(
        f'name = "{there.name}"\n[source]\nurl = "trail+file://{trail}"\n'
        f'[target]\nurl = "{target.name}://{user}:${{{TARGET_SECRET}}}@{at[0]}:{at[1]}/{made.target_path}"\n'
        f'[[rules]]\ninclude = ["{made.schema}.*"]\ntarget = "{made.there}.{to}"\n{more}\n{NO_SPARK}'
    )
    return there


@dataclass
class Another(Scenario):
    """A further job that applies a trail, into a schema of its own."""

    into: str = ""

    @property
    def there(self) -> str:
        return self.into

    @property
    def names(self) -> str:
        """The name under which it is registered with the trail."""
        return JobView(load_job(self.job_file), self.job_file).names.apply


def another(way: Hops, name: str) -> Another:
    """Make a further job that applies what `there` applies, under a name that is that of its schema, too."""
    kept = {one.name: getattr(way.there, one.name) for one in fields(Scenario) if one.init}
    said = way.there.job_file.read_text()
    found = Another(**{**kept, "name": name, "directory": way.there.directory.parent / name}, into=name)
    said = said.replace(f'name = "{way.there.name}"', f'name = "{name}"', 1)
    found.job_file.write_text(said.replace(f'target = "{way.there.there}.', f'target = "{name}.'))
    return found


def over_three(way: Hops, folder: Path) -> list[Process]:
    """Make a pump, a router and a receiver that bring the trail to `folder/in/shop`; who takes comes first."""
    inner, outer = free_port(), free_port()
    files = (
        ("receive", receive_file(folder, inner)),
        ("route", route_file(folder, outer, inner)),
        ("run", pump_file(folder, way.trail, url(outer, "shop", None))),
    )
    return [Process(*arguments, folder=folder) for arguments in files]


@contextmanager
def moved(way: Hops, moving: Sequence[Process]) -> Iterator[tuple[Running, Running]]:
    """Provide both jobs of a way, streaming over processes that bring the trail from one to the other; those end with it."""
    with ExitStack() as ended:
        for one in moving:
            ended.callback(one.end)
        run, applied = way.start()
        wait_until(lambda: has_begun(way.trail), 120, "the trail has begun", run.tail, run)
        for one in moving:
            one.start()
        way.there.wait_streaming(applied, seconds=240)
        yield run, applied
