"""Files of the hops of a trail: a pump's, a receiver's, a router's; and the URLs of trails that stand in them.

A problem of such a file is told as one of a job file is: line, key, what was expected. What does not live here: job files
(`reading.py`), what the hops do (`transport/`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from anabranch.config.lines import key_lines, line_of
from anabranch.config.reading import EXPECTED
from anabranch.config.section import Section, refuse
from anabranch.config.sections.retry import RetryEnd
from anabranch.config.values import JobName
from anabranch.errors import ConfigError, Problem

LOOPBACK = ("127.0.0.1", "::1", "localhost")
OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key")
TRAIL_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
_URL = re.compile(r"trail\+(file|tls|tcp)://([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?")
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@]+)):(\d{1,5})")
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00")


@dataclass(frozen=True, slots=True)
class TrailUrl:
    """`kind`: file (`path` is its directory), tls or tcp (`host`, `port`; `path` is the trail's name, "" for none). Variables
    are filled in. The files of TLS are paths, or "" without."""

    kind: Literal["file", "tls", "tcp"]
    path: str
    host: str = ""
    port: int = 0
    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            f"trail+file://{self.path}"
            if self.kind == "file"
            else f"trail+{self.kind}://{host}:{self.port}/{self.path}"
        )


def parse_trail_url(text: str, env: Mapping[str, str], kinds: tuple[str, ...], *, is_named: bool = True) -> TrailUrl:
    """Return what a URL says. `is_named`: a network address has to name the trail, else it may not. Raises ValueError with
    what is expected."""
    missing = [name for name in _VARIABLE.findall(text) if name not in env]
    if missing:
        raise ValueError(f"the environment variable {missing[0]} to have a value")
    found = _URL.fullmatch(text)
    forms = {
        "file": "trail+file:///DIRECTORY/NAME",
        "tls": "trail+tls://HOST:PORT",
        "tcp": "trail+tcp://127.0.0.1:PORT",
    }
    expected = " or ".join(forms[one] + "/NAME" * (is_named and one != "file") for one in kinds)
    if found is None or found[1] not in kinds:
        raise ValueError(expected)

    def fill(part: str) -> str:
        pieces = _VARIABLE.split(part)
        return "".join(env[piece] if odd % 2 else unquote(piece) for odd, piece in enumerate(pieces))

    kind, path = found[1], fill(found[3] or "")
    if kind == "file":
        if found[2] or not path.strip("/") or ".." in path.split("/") or found[4] is not None:
            raise ValueError(f"{forms['file']}, an absolute path")
        return TrailUrl("file", path.rstrip("/"))
    address, name = _HOST.fullmatch(fill(found[2])), path.removeprefix("/")
    if address is None or not 0 < int(address[3]) < 65536 or bool(name) != is_named:
        raise ValueError(expected)
    if is_named and not re.fullmatch(TRAIL_NAME, name):
        raise ValueError(f"{expected}, where NAME has 1 to 63 letters, digits, '_', '.' or '-'")
    options = dict(pair.partition("=")[::2] for pair in filter(None, (found[4] or "").split("&")))
    _check_options(kind, options, address[1] or address[2])
    host = address[1] or address[2]
    return TrailUrl(
        "tls" if kind == "tls" else "tcp", name, host, int(address[3]), **{k: fill(v) for k, v in options.items()}
    )


def _check_options(kind: str, options: Mapping[str, str], host: str) -> None:
    if kind == "tcp" and host not in LOOPBACK:
        raise ValueError(
            "trail+tls://, since others could read and write what passes: trail+tcp:// is for this machine alone"
        )
    wanted = OPTIONS if kind == "tls" else ()
    if set(options) != set(wanted) or not all(options.values()):
        raise ValueError(f"the options {', '.join(OPTIONS)} in a URL of trail+tls://, and none in others")


def parse_rate(text: str) -> float:
    """Return the bytes of "20 MB/s" or "1 GB". Raises ValueError with what is expected."""
    found = _RATE.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise ValueError('a number with a unit, like "20 MB/s"')
    return float(found[1]) * _UNITS[(found[2] or "").lower()]


def _rate(text: str) -> str:
    try:
        parse_rate(text)
    except ValueError as error:
        raise refuse(Problem(f"{text!r} is no amount of bytes", expected=str(error))) from None
    return text


def _time_of_day(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise refuse(Problem(f"{text!r} is no time of the day", expected='hours and minutes, like "08:00"'))
    return text


Rate = Annotated[str, AfterValidator(_rate)]
TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]


class Bandwidth(Section):
    """A limit for some hours of the day."""

    start: TimeOfDay = Field(alias="from")
    """From this time of the day on, by this machine's clock."""
    end: TimeOfDay = Field(alias="to")
    """To this one, which may be behind midnight."""
    limit: Rate | None = None
    """So many bytes a second; without it there is no limit in these hours."""

    @property
    def minutes(self) -> tuple[int, int]:
        return _minute(self.start), _minute(self.end)


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


class End(Section):
    """An end of a pump."""

    url: str


class Sending(Section):
    """`[trail]` of a pump: limits and form of what it sends."""

    bandwidth: Rate | list[Bandwidth] = []
    """A limit of bytes a second, or a list of limits by hours; outside of these there is none."""
    compress: bool = False
    """Compress what is sent (zstd). Frames of a trail are compressed in part; text and small frames become smaller still."""
    interval_s: float = Field(default=1.0, ge=0, le=3600)
    """Put a piece that is not full (8 MB) into a store of objects after so many seconds."""
    retain_hours: int = Field(default=24, ge=0, le=8784)
    """Keep a piece in a store of objects for so many hours although every reader has it."""


class PumpRetry(Section):
    """`[retry]` of a pump, for while the next hop is away."""

    target: RetryEnd = RetryEnd.model_construct()
    """The next hop: `interval_s` and `give_up_s` are used."""


class PumpFile(Section):
    """A job whose ends are two trails."""

    name: JobName
    source: End
    target: End
    trail: Sending = Sending.model_construct()
    retry: PumpRetry = PumpRetry.model_construct()


class Listen(Section):
    """`[listen]`: the address of a receiver or router, and the certificate that it shows."""

    address: str
    """HOST:PORT. Without TLS only an address of this machine."""
    tls_ca: str | None = None
    """The authority (PEM) that has to have signed the certificate of whoever connects."""
    tls_cert: str | None = None
    """The certificate (PEM) of this side; a router shows it to the next hop, too."""
    tls_key: str | None = None
    """Its key (PEM), without a passphrase."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        found = _HOST.fullmatch(self.address)
        if found is None or not 0 < int(found[3]) < 65536:
            raise refuse(Problem(f"{self.address!r} is no address", expected="HOST:PORT, such as 0.0.0.0:7420"))
        said = (self.tls_ca, self.tls_cert, self.tls_key)
        if any(said) and not all(said):
            raise refuse(Problem("TLS is described in part", expected="tls_ca, tls_cert and tls_key together"))
        if not all(said) and (found[1] or found[2]) not in LOOPBACK:
            what = f"{self.address} is reached by other machines, who could write trails here"
            raise refuse(Problem(what, expected="tls_ca, tls_cert and tls_key, or an address of this machine"))
        return self

    @property
    def place(self) -> tuple[str, int]:
        found = _HOST.fullmatch(self.address)
        assert found
        return found[1] or found[2], int(found[3])


class Allow(Section):
    """`[[allow]]`: a peer and what it may write. Without a fitting entry nobody may."""

    trail: str = Field(min_length=1)
    """A glob: the trails' names."""
    peer: str = Field(default="*", min_length=1)
    """A glob: the common name, or another name, of the certificate of whoever sends."""


class Store(Section):
    """`[store]`: the place of the trails that a receiver writes."""

    url: str
    """`trail+file:///DIRECTORY`: each trail is a directory below it."""
    min_free: Rate | None = None
    """So much of the disk stays free: with less, nothing is taken, and who sends waits."""
    retain_hours: int = Field(default=24, ge=0, le=8784)
    """How long a segment stays that every reader of the trail is past."""


class ReceiveFile(Section):
    """The file of a receiver."""

    name: JobName
    listen: Listen
    store: Store
    allow: list[Allow] = Field(min_length=1)


class Way(Section):
    """A way of a router."""

    trail: str = Field(min_length=1)
    """A glob: the trails' names. The first way that fits is taken."""
    to: str
    """`trail+tls://HOST:PORT`: the next router, or the receiver."""


class RouteFile(Section):
    """The file of a router."""

    name: JobName
    listen: Listen
    routes: list[Way] = Field(min_length=1)
    allow: list[Allow] = Field(min_length=1)


M = TypeVar("M", bound=Section)


def is_pump_file(path: str | Path) -> bool:
    """Return whether a job file has a trail at both ends. False for one that cannot be read: whoever reads it says why."""
    try:
        return is_pump(tomllib.loads(Path(path).read_bytes().decode("utf-8-sig")))
    except (OSError, ValueError):
        return False


def is_pump(data: Mapping[str, Any]) -> bool:
    """Return whether a job file, as TOML has it, has a trail at both ends."""
    try:
        urls = [data[end]["url"] for end in ("source", "target")]
    except (KeyError, TypeError):
        return False
    return "rules" not in data and all(str(url).startswith("trail+") for url in urls)


def load_hop_file(model: type[M], path: str | Path, env: Mapping[str, str] = os.environ) -> M:
    """Read and check a file. Raises ConfigError with every problem."""
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}", hint="FILE is its path") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    return parse_hop_text(model, text, file, env)


def parse_hop_text(model: type[M], text: str, file: Path, env: Mapping[str, str]) -> M:
    """Check the text of a file, which is called `file` in messages. Raises ConfigError with every problem."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    try:
        return model.model_validate(data, context={"env": env})
    except ValidationError as error:
        lines = key_lines(text)
        problems = [
            Problem(p.message, line_of(lines, detail["loc"]), _key(detail["loc"]), p.expected, p.nearest)
            for detail in error.errors(include_url=False)
            for p in _problems(model, detail)
        ]
        problems.sort(key=lambda one: one.line or 0)
        raise ConfigError(f"{file} has {len(problems)} problem{'s' * (len(problems) > 1)}", problems=problems) from None


def _key(path: tuple[str | int, ...]) -> str:
    names = [str(one) for one in path if not isinstance(one, int) and one not in ("constrained-str", "function-after")]
    return names[0] if len(names) == 1 else f"[{names[0]}] {'.'.join(names[1:])}" if names else ""


def _problems(model: type[BaseModel], detail: ErrorDetails) -> tuple[Problem, ...]:
    kind, path = detail["type"], detail["loc"]
    if kind == "refused":
        found: tuple[Problem, ...] = detail["ctx"]["problems"]
        return found
    if kind == "extra_forbidden":
        names = _names(model, path[:-1])
        nearest = get_close_matches(str(path[-1]), names, 1)
        return (Problem("unknown key", expected=f"one of {', '.join(names)}", nearest="".join(nearest)),)
    message, expected = EXPECTED.get(kind, (detail["msg"], ""))
    facts = {**detail.get("ctx", {}), "value": repr(detail["input"])}
    return (Problem(message.format(**facts), expected=expected.format(**facts)),)


def _names(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Return the keys of the section that a path leads to."""
    for part in path:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part in fields:
            kinds: list[Any] = [fields[str(part)].annotation]
            kinds += [inner for kind in kinds for inner in get_args(kind)]
            kinds += [inner for kind in kinds for inner in get_args(kind)]
            model = next((one for one in kinds if isinstance(one, type) and issubclass(one, Section)), model)
    return [field.alias or name for name, field in model.model_fields.items()]
