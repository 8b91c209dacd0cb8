"""Commands of the command line as plain tables, for who runs them for somebody else: options, places, what is a path.

What does not live here: the commands (`cli/`), who may give them (`manager/verbs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.errors import ConfigError

JOB = "job"
END_OF_OPTIONS = "--"
LONGEST = 65_536  # characters of all arguments together


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its names with their dashes, whether a value follows, and whether that is the path of a file."""

    names: tuple[str, ...]
    has_value: bool
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """An argument without a name."""

    name: str
    is_required: bool
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """A command line taken apart. `options`: names with their values, None for a flag; `places`: the rest, in its order."""

    options: tuple[tuple[str, str | None], ...]
    places: tuple[str, ...]

    def words(self) -> list[str]:
        """Return it as words again, in a form that every parser reads alike: no word can be taken for another kind of one."""
        options = [name if value is None else f"{name}={value}" for name, value in self.options]
        return [*options, END_OF_OPTIONS, *self.places]


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `verb`: its words, such as `parked ls`."""

    verb: str
    options: tuple[Option, ...]
    places: tuple[Place, ...]

    @property
    def is_of_a_job(self) -> bool:
        """Return whether its first argument is a job, and no other one is the path of a file."""
        return bool(self.places) and self.places[0].name == JOB and not any(place.is_path for place in self.places[1:])

    def taken_apart(self, arguments: Sequence[str]) -> Given:
        """Take arguments apart, without those that are not the command's. Raises ConfigError."""
        if sum(map(len, arguments)) > LONGEST or any("\0" in word for word in arguments):
            raise ConfigError(f"the arguments of {self.verb} are too long, or no text", hint="give fewer of them")
        known: Mapping[str, Option] = {name: option for option in self.options for name in option.names}
        options: list[tuple[str, str | None]] = []
        places: list[str] = []
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == END_OF_OPTIONS:
                places += rest
                break
            if not word.startswith("-") or word == "-":
                places.append(word)
                continue
            name, equals, value = word.partition("=")
            option = known.get(name)
            if option is None:
                raise ConfigError(f"{self.verb} has no option {name}", hint=f"anabranch {self.verb} --help lists them")
            if option.has_value and not equals:
                if not rest:
                    raise ConfigError(f"{self.verb} {name} needs a value", hint=f"give it as {name}=VALUE")
                value = rest.pop(0)
            elif equals and not option.has_value:
                raise ConfigError(f"{self.verb} {name} takes no value", hint=f"give it as {name}")
            options.append((name, value if option.has_value else None))
        return Given(tuple(options), tuple(places))

    def of_job(self, arguments: Sequence[str]) -> Given:
        """Take the arguments behind the job apart, for whoever may not name files. Raises ConfigError, also for a path."""
        given = self.taken_apart(arguments)
        paths = {name for option in self.options if option.is_path for name in option.names}
        if named := [name for name, _ in given.options if name in paths]:
            raise ConfigError(f"{self.verb} {named[0]} names a file of the manager's machine", hint="leave it out")
        wanted = self.places[1:]
        least = sum(place.is_required for place in wanted)
        if not least <= len(given.places) <= len(wanted):
            names = " ".join(place.name.upper() for place in wanted) or "nothing"
            raise ConfigError(f"{self.verb} takes {names} behind the job", hint=f"anabranch {self.verb} --help")
        return given
