"""`JobView`: a job file with its home, as a whole or as one of its targets sees it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from zlib import crc32

from anabranch import connectors
from anabranch.config import ONLY, JobConfig
from anabranch.config.hops import Hop
from anabranch.databases import registry
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.trail.retention import Names

if TYPE_CHECKING:
    from anabranch.contracts import TypeMap
    from anabranch.rules.rule_set import RuleSet


class JobView:
    """The facts about a job that every operation needs. It opens nothing."""

    def __init__(self, config: JobConfig, path: Path, target: str = "") -> None:
        """Set up the view. `target`: the name of the one that this is about; "" for a job with several, as a whole."""
        self.config, self.path = config, path
        self.target = target or (next(iter(config.ends)) if len(config.ends) == 1 else "")

    @cached_property
    def rules(self) -> RuleSet:
        """Made when it is asked for: states and ends do without."""
        from anabranch.rules.rule_set import RuleSet

        return RuleSet(self.config, self.types, self.target)

    @cached_property
    def types(self) -> TypeMap:
        """The type map of this target; of a job with several targets as a whole, that of the first."""
        return connectors.target(next(iter(self.config.ends.values())) if not self.target else self.endpoint).types

    def targets(self) -> list[Self]:
        """Return the job as each of its targets sees it; of one that is a target's view, that one."""
        return [self] if self.target else [type(self)(self.config, self.path, name) for name in self.config.ends]

    @property
    def whole(self) -> Self:
        """The job as a whole, also of one target's view."""
        return type(self)(self.config, self.path)

    def on(self, target: str | None) -> Self:
        """Return the job as this target sees it. None: there is only one. Raises ConfigError."""
        if target is not None and target not in self.config.ends:
            hint = f"one of {', '.join(self.config.ends)}"
            raise ConfigError(f"the job has no target {target!r}", job=self.config.name, hint=hint)
        if target is None and not self.target:
            raise self._ambiguous()
        return self if target in (None, self.target) else type(self)(self.config, self.path, target or "")

    def _ambiguous(self) -> ConfigError:
        names = ", ".join(self.config.ends)
        return ConfigError(
            f"the job has several targets: {names}", job=self.config.name, hint="say which: --target NAME"
        )

    @property
    def endpoint(self) -> Endpoint:
        """The target. Raises ConfigError where there are several."""
        if not self.target:
            raise self._ambiguous()
        return self.config.ends[self.target]

    @property
    def is_server(self) -> bool:
        """True where the target is a server as a whole, with one database for the state of all jobs; else it is a database."""
        return registry()[self.endpoint.scheme].is_one_end

    @property
    def label(self) -> str:
        """The job's name for messages, with the target's if it has several."""
        return f"{self.config.name}, target {self.target}" if self.is_one_of_several else self.config.name

    @property
    def is_one_of_several(self) -> bool:
        return bool(self.target) and len(self.config.ends) > 1

    @property
    def names(self) -> Names:
        """Names of what this target holds of the trail. Several jobs may read a trail that is not their own."""
        if self.config.hop is Hop.APPLY:  # two jobs at different sites may have one name
            return Names(f"{self.config.name}.{crc32(str(self.endpoint).encode()):08x}")
        return Names("" if self.target == ONLY else self.target)

    @property
    def trail(self) -> Path:
        """The directory of the trail: of a job with a trail at an end that one, else its own, in its home."""
        match self.config.hop:
            case Hop.CAPTURE:
                return Path(self.endpoint.database)
            case Hop.APPLY:
                return Path(self.config.source.endpoint.database)
            case None:
                return self.config.home / "trail"

    @property
    def captures(self) -> bool:
        """Return whether the job reads a source's log; else its trail is written by another job."""
        return self.config.hop is not Hop.APPLY

    @property
    def applies(self) -> bool:
        """Return whether the job brings its trail to a target; else other jobs do."""
        return self.config.hop is not Hop.CAPTURE

    @property
    def streams_by(self) -> tuple[str, ...]:
        """Return the parts without which nothing of the job streams."""
        return ("capture",) * self.captures + ("apply",) * self.applies

    @property
    def target_home(self) -> Path:
        """The place beside the trail of what is kept for this target; it can be rebuilt."""
        return self.config.home / "targets" / self.target if self.is_one_of_several else self.config.home


def check_filter(text: str) -> None:
    """Raise ValueError for a row filter that cannot be used."""
    from anabranch.rules.rule_set import check_filter as check

    check(text)
