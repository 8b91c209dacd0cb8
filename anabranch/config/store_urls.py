"""Read the URLs of trails in stores of objects: `trail+s3://BUCKET/PREFIX/NAME`, `trail+sftp://USER@HOST/DIR/NAME`, ….

Variables are put in after the URL is cut into parts, and taken literally. No message of this file repeats a part of a URL that
could be a password. What does not live here: URLs of trails that are directories or receivers (`hop_files.py`), what opens a
store (`anabranch.stores.opening`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import unquote

TRAIL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_URL = re.compile(r"trail\+([a-z0-9]+)://(?:([^@/?#]*)@)?([^@/?#]*)(/[^?#]*)?(?:\?([^#]*))?")
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@/]+))(?::(\d{1,5}))?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of store, as far as its URL says. `port` 0: it has no address. `has_user`: a user has to be there,
    `may_have_user`: one may. `has_brokers`: several addresses may stand there, and the path has one part. `secrets`: options
    that are never shown."""

    form: str
    port: int = 0
    has_user: bool = False
    may_have_user: bool = False
    has_brokers: bool = False
    options: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "objects": Kind("trail+objects:///DIRECTORY/NAME"),
    "s3": Kind(
        "trail+s3://BUCKET/PREFIX/NAME",
        options=("region", "endpoint_url", "profile", "addressing", "ssl_ca", "encryption", "kms_key"),
        secrets=("access_key_id", "secret_access_key", "session_token"),
    ),
    "sftp": Kind(
        "trail+sftp://USER@HOST/DIRECTORY/NAME",
        22,
        has_user=True,
        options=("host_key", "known_hosts", "key"),
        secrets=("key_passphrase",),
    ),
    "ftp": Kind("trail+ftp://USER:${PASSWORD}@HOST/DIRECTORY/NAME", 21, has_user=True),
    "ftps": Kind("trail+ftps://USER:${PASSWORD}@HOST/DIRECTORY/NAME", 21, has_user=True, options=("ssl_ca",)),
    "hdfs": Kind("trail+hdfs://USER@NAMENODE/DIRECTORY/NAME", 9870, has_user=True),
    "kafka": Kind(
        "trail+kafka://BROKER:9092[,BROKER2:9092]/NAME",
        9092,
        may_have_user=True,
        has_brokers=True,
        options=("sasl_mechanism", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "replication", "min_insync_replicas"),
    ),
}


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A place in a store. `kind`: one of KINDS. `path`: what stands before the trail's objects, with its name at the end: an
    absolute directory (for a server's login directory it begins with "/~/"), or the prefix in a bucket. `host`: of S3 the
    bucket, of Kafka all brokers where there are several ("a:9092,b:9092"). Variables are filled in. Its text shows no
    secret."""

    kind: str
    path: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)

    @property
    def name(self) -> str:
        """Return the trail's name: the last part of the path."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        known = KINDS[self.kind]
        is_list = "," in self.host
        host = f"[{self.host}]" if ":" in self.host and not is_list else self.host
        port = f":{self.port}" if known.port and self.port != known.port and not is_list else ""
        user = f"{self.user}@" if self.user else ""
        return f"trail+{self.kind}://{user}{host}{port}/{self.path.removeprefix('/')}"


def is_store_url(text: str) -> bool:
    """Return whether a URL is that of a store of objects, whatever else may be wrong with it."""
    return text.partition("://")[0].removeprefix("trail+") in KINDS and text.startswith("trail+")


def parse_store_url(text: str, env: Mapping[str, str]) -> StoreUrl:
    """Return what a URL says. Raises ValueError with what is expected."""
    missing = [name for name in _VARIABLE.findall(text) if name not in env]
    if missing:
        raise ValueError(f"the environment variable {missing[0]} to have a value")
    found = _URL.fullmatch(text)
    if found is None or found[1] not in KINDS:
        expected = " or ".join(kind.form for kind in KINDS.values())
        raise ValueError(f"{expected}; special characters are written as %XX, or stand in a ${{VARIABLE}}")
    kind, known = found[1], KINDS[found[1]]
    path = _path(_fill(found[4] or "", env), known)
    user, colon, password = (found[2] or "").partition(":")
    host, port = _place(kind, _fill(found[3], env))
    if (bool(user) != known.has_user and not known.may_have_user) or (colon and not user):
        raise ValueError(f"{known.form}, with a user before the @" if known.has_user else known.form)
    if known.may_have_user and bool(user) != bool(password):
        raise ValueError(f"{known.form}, with USER:${{PASSWORD}}@ before it, or neither")
    return StoreUrl(
        kind,
        path.removeprefix("/") if kind in ("s3", "kafka") else path,
        host,
        port,
        _fill(user, env),
        _fill(password, env),
        tuple(_options(found[5] or "", known, env)),
    )


def _fill(part: str, env: Mapping[str, str]) -> str:
    """Percent-decode what stands in the URL, and put variables in as they are."""
    pieces = _VARIABLE.split(part)
    return "".join(env[piece] if odd % 2 else unquote(piece) for odd, piece in enumerate(pieces))


def _path(path: str, known: Kind) -> str:
    path = path.rstrip("/")
    parts = path.split("/")[1:]
    if not parts or any(part in ("", ".", "..") for part in parts) or not path.isprintable():
        raise ValueError(f"{known.form}: a path that neither leads upwards nor has an empty part")
    if known.has_brokers and len(parts) > 1:
        raise ValueError(f"{known.form}, where NAME is one part: the topics NAME.names and NAME.objects")
    if not TRAIL_NAME.fullmatch(parts[-1]):
        raise ValueError(f"{known.form}, where NAME has 1 to 63 letters, digits, '_', '.' or '-'")
    return path


def _place(kind: str, text: str) -> tuple[str, int]:
    """Return host and port; of S3 the bucket, of several brokers all of them in place of the host."""
    known = KINDS[kind]
    if kind == "s3":
        if not _BUCKET.fullmatch(text):
            raise ValueError(
                f"{known.form}, where BUCKET is the name of a bucket; the server is the option endpoint_url"
            )
        return text, 0
    if not known.port:
        if text:
            raise ValueError(f"{known.form}, an absolute path")
        return "", 0
    if known.has_brokers and "," in text:
        each = [_place(kind, one) for one in text.split(",")]
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in each), known.port
    found = _HOST.fullmatch(text)
    port = int(found[3] or known.port) if found else 0
    if found is None or not 0 < port < 65536:
        raise ValueError(f"{known.form}, where HOST may be followed by :PORT")
    return found[1] or found[2], port


def _options(query: str, known: Kind, env: Mapping[str, str]) -> list[tuple[str, str]]:
    allowed = (*known.options, *known.secrets)
    made: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, equals, value = pair.partition("=")
        if name not in allowed or not equals or not value or name in made:
            nearest = get_close_matches(name, allowed, 1)
            meant = f"; did you mean {nearest[0]}?" if nearest and nearest[0] != name else ""
            expected = f"options as NAME=VALUE, each once, of {', '.join(allowed)}" if allowed else "no option"
            raise ValueError(f"{expected}{meant}")
        made[name] = _fill(value, env)
    return list(made.items())
