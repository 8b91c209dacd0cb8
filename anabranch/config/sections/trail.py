"""`[trail]` of the job file."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem

_ONE = "one of key_file, key_env and key_command"


class FormerKey(Section):
    """A key that encrypted what is in the trail, and encrypts nothing new."""

    key_file: str | None = Field(default=None, min_length=1)
    key_env: str | None = Field(default=None, min_length=1)
    key_command: list[str] = []

    @property
    def places(self) -> dict[str, str | list[str]]:
        """The place of the key, by the names of the file."""
        said = {"key_file": self.key_file, "key_env": self.key_env, "key_command": self.key_command}
        return {name: place for name, place in said.items() if place}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if len(self.places) != 1:
            raise refuse(Problem(f"{', '.join(self.places) or 'nothing'} says where a former key is", expected=_ONE))
        return self


class Encrypt(Section):
    """Encryption of the trail's files at rest."""

    key_file: str | None = Field(default=None, min_length=1)
    """A file with the key of 32 bytes, raw, in hexadecimal digits or in base64, which nobody but its owner can read. From the
    next segment on, the trail is [encrypted by it](../howto/encrypt-the-trail.md). A relative path begins at the job file."""
    key_env: str | None = Field(default=None, min_length=1)
    """The variable of the environment that has the key, in place of `key_file`. Each process of the job needs it."""
    key_command: list[str] = []
    """A command with its arguments that has a key service wrap data keys, and unwrap them, in place of `key_file`
    ([how it is asked](../howto/encrypt-the-trail.md#a-key-service))."""
    former: list[FormerKey] = []
    """Keys that were used before, as `[{ key_file = "…" }]`: what they encrypted is read, and nothing new is encrypted by them.
    With these alone, new segments are not encrypted."""

    @property
    def places(self) -> dict[str, str | list[str]]:
        """The place of the present key, by the names of the file; empty where there is none."""
        said = {"key_file": self.key_file, "key_env": self.key_env, "key_command": self.key_command}
        return {name: place for name, place in said.items() if place}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if len(self.places) > 1:
            raise refuse(Problem(f"{' and '.join(self.places)} both say where the key is", expected=_ONE))
        if not self.places and not self.former:
            raise refuse(Problem("says of no key where it is", expected=_ONE))
        return self


class Trail(Section):
    """The trail: the files between capture and targets."""

    encrypt: Encrypt | None = None
    load_limit_gb: float | None = Field(default=None, gt=0)
    """Limit the files of a load that wait for those who apply them, in a job that [captures into a
    trail](../howto/capture-and-apply-apart.md#how-much-room-the-load-takes): further chunks wait until some of it was loaded. A
    table that is under way is finished first, so a large one may need more. Without it the load waits for nobody."""
    load_retain_hours: int | None = Field(default=None, ge=1, le=8784)
    """Keep the rows of a table's load, and the trail from before them, for so long behind the load, in a job that [captures
    into a trail](../howto/capture-and-apply-apart.md#for-who-comes-later): a job, a pump or an export that joins within that
    time gets all of it. `load_limit_gb` bounds it: the oldest go first. Without it files go when all have them."""
