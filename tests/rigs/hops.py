"""A way between two databases in two jobs, with a trail between them: one captures, the other applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rigs.scenario import SOURCE_SECRET, TARGET_SECRET, Result, Running, Scenario

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
    here, there = (replace(made, name=f"{made.name}_{way}", directory=made.directory / way) for way in ("out", "in"))
    written = made.directory / "trails" / "shop"
    source, target = made.source.server, made.target.server
    at, to = made.source_at or (source.host, source.port), made.target_at or (target.host, target.port)
    user = made.user[0] if made.user else source.user
    target_user = made.target_user[0] if made.target_user else target.user
    here.job_file.write_text(
        f'name = "{here.name}"\n[source]\nurl = "{source.name}://{user}:${{{SOURCE_SECRET}}}@{at[0]}:{at[1]}{made.source_path}"\n'
        f'[target]\nurl = "trail+file://{written}"\n[[rules]]\ninclude = ["{made.schema}.*"]\n{at_capture}\n{NO_SPARK}'
    )
    there.job_file.write_text(
        f'name = "{there.name}"\n[source]\nurl = "trail+file://{trail or written}"\n'
        f'[target]\nurl = "{target.name}://{target_user}:${{{TARGET_SECRET}}}@{to[0]}:{to[1]}/{made.target_path}"\n'
        f'[[rules]]\ninclude = ["{made.schema}.*"]\ntarget = "{made.there}.{{table}}"\n{at_apply}\n{NO_SPARK}'
    )
    return Hops(here, there, written)
