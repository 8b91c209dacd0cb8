"""Write the recipe of a route: the steps of both ends, whether this release runs it, and whether exBase has it.

What does not live here: steps of a connector (`connectors/<db>/<role>/recipe.py`), the text (`shown.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from anabranch import connectors
from anabranch.databases import SOURCE, TARGET, registry
from anabranch.errors import ConfigError
from anabranch.model.recipe import Asked, Step, step_names
from anabranch.recipe.later import later_steps
from anabranch.recipe.routes import FAMILIES, Release, direction, routes, sources_of, targets_of

VERSION = 1
JOB = "job.file"  # the step of findings that are about the job file
ENDS = (SOURCE, TARGET)


@dataclass(frozen=True)
class End:
    """One end of a recipe. `lacking`: why this release cannot run it, "" where it can."""

    role: str
    release: Release
    steps: tuple[Step, ...]
    lacking: str = ""

    @property
    def title(self) -> str:
        return f"{FAMILIES[self.release.name].title} {self.release.release}".strip()


@dataclass(frozen=True)
class Recipe:
    """A route, with what has to be set up for it. `exbase`: "forward", "back", or "" for a route that exBase does not have."""

    source: End
    target: End
    exbase: str

    @property
    def runs(self) -> bool:
        return not (self.source.lacking or self.target.lacking)

    def to_json(self) -> dict[str, Any]:
        ends = {
            end.role: {
                "database": end.release.name, "release": end.release.release, "title": end.title,
                "runs": not end.lacking, "lacking": end.lacking or None, "steps": [asdict(step) for step in end.steps],
            }
            for end in (self.source, self.target)
        }  # fmt: skip
        return {"version": VERSION, "runs": self.runs, "exbase_route": self.exbase or None} | ends


def recipe(
    source: Release, target: Release, asked_source: Asked, asked_target: Asked, only_exbase: bool = False
) -> Recipe:
    """Return the recipe of a route that exBase has, or that this release runs.

    Raises ConfigError for any other pair, with the nearest routes; with `only_exbase` for each that exBase does not have."""
    exbase = direction(source, target)
    ends = _end(SOURCE, source, asked_source), _end(TARGET, target, asked_target)
    found = Recipe(*ends, exbase)
    if not exbase and (only_exbase or not found.runs):
        raise ConfigError(_refused(source, target, ends, only_exbase), hint=_nearest(source, target))
    return found


def steps_by_check(source: str, target: str) -> dict[str, str]:
    """Return for each check of preflight, of these databases, the step that mends its findings. Under "source", "target" and
    "job" alone: the step for findings that no other names."""
    found = {"job": JOB}
    for role, name in zip(ENDS, (source, target), strict=True):
        made = connectors.recipe(name, role, Asked())
        if made is not None:
            found |= {role: f"{role}.tables", **step_names(made.steps)}
    return found


def _end(role: str, release: Release, asked: Asked) -> End:
    scheme = FAMILIES[release.name].connector
    is_ours = scheme and role in registry()[scheme].roles
    made = connectors.recipe(scheme, role, replace(asked, version=release.version)) if is_ours else None
    if made is None:
        title = FAMILIES[release.name].title
        why = f"{title} is no {role}" if scheme else f"the connector of {title} comes later"
        return End(role, release, later_steps(release, role, asked), why)
    if release.version < made.oldest:
        oldest = ".".join(map(str, made.oldest)).removesuffix(".0")
        return End(
            role,
            release,
            made.steps,
            f"this release takes {FAMILIES[release.name].title} {oldest} and later as a {role}",
        )
    return End(role, release, made.steps)


def _refused(source: Release, target: Release, ends: tuple[End, End], only_exbase: bool) -> str:
    what = f"exBase has no route from {source} to {target}"
    lacking = "; ".join(end.lacking for end in ends if end.lacking)
    return (
        what
        if only_exbase and not lacking
        else f"{what}, and this release does not run it: {lacking}"
        if lacking
        else what
    )


def _nearest(source: Release, target: Release) -> str:
    """Name the routes of the same source and of the same target; where there are none, those of the same databases."""
    to, of = targets_of(source), sources_of(target)
    if not to and not of:
        to = list(dict.fromkeys(other for one, other, _ in routes() if one.name == source.name))
        of = list(dict.fromkeys(one for one, other, _ in routes() if other.name == target.name))
    said = [f"{source} goes to {_listed(to)}"] if to else [f"nothing is read from {source.name} there"]
    said += [f"{target} comes from {_listed(of)}"] if of else [f"nothing is written to {target.name} there"]
    return "; ".join(said)


def _listed(releases: list[Release]) -> str:
    return ", ".join(map(str, releases))
