"""Objects of a trail in a store besides its pieces: small, in JSON, replaced as a whole.

    trail.json            whose trail it is (`Begun`), and the first piece that is still there
    writer.json           how far who writes has come (`Written`): at least so far, for it is not written with each piece
    readers/NAME.json     how far a reader has come, durably (`Acknowledged`)

What does not live here: what is written when (`store_pump.py`, `store_retention.py`, `store_source.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.stores.contract import ObjectMissing, ObjectStore
from anabranch.trail.format import to_json
from anabranch.trail.identity import Identity
from anabranch.transport.pieces import FORMAT

BEGUN, WRITTEN, READERS = "trail.json", "writer.json", "readers/"
SUFFIX = ".json"  # of a reader's object
_RESTORE = "restore the object from a backup of the store, or begin anew under another NAME"


@dataclass(frozen=True, slots=True)
class Begun:
    """`chain`: tells this beginning of a trail from another under the same name; `first`: the first piece that is there, or
    will be; `hops`: names of those that the trail came through before; `is_named`: pieces have their writer in their names
    (`store_claims.py`)."""

    chain: str
    identity: Identity
    first: int = 1
    hops: tuple[str, ...] = ()
    format: int = FORMAT
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """`number`: of the last piece; `bytes`: of all pieces so far; `sequence`: what a replica has behind it; `published`: up to
    where the trail was published; `at`: when that was, in seconds since 1970 UTC; `writer`: the session that says so."""

    number: int = 0
    bytes: int = 0
    sequence: int = 0
    published: int = 0
    at: float = 0.0
    writer: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`number`: every piece up to it is durable at the reader; `sequence`: the transactions that it has; `to`: where it writes
    them; `state`, `lag`: as `status` shows them there; `at`: when that was; `writer`: the session of the piece."""

    name: str
    number: int
    sequence: int = 0
    bytes: int = 0
    to: str = ""
    state: str = ""
    lag: float = 0.0
    at: float = 0.0
    writer: str = ""


F = TypeVar("F", Begun, Written, Acknowledged)


def begun(store: ObjectStore) -> Begun | None:
    """Return whose trail is in the store; None where none was begun. Raises TrailCorrupt, TrailError for a newer format."""
    text = _json(store, BEGUN)
    if text is None:
        return None
    where = store.path(BEGUN)
    version = text.get("format")
    if type(version) is int and version > FORMAT:
        message = f"the trail in the store has format {version}, this release knows {FORMAT} ({where})"
        raise TrailError(message, hint="use the release that has written it, or a newer one")
    try:
        text["identity"], text["hops"] = Identity(**text["identity"]), tuple(text["hops"])
        return _typed(Begun(**text), ("chain",), ("first", "format"))
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(where, error) from None


def written(store: ObjectStore) -> Written:
    """Return how far who writes has come at least; nothing where it was never said."""
    text, where = _json(store, WRITTEN), store.path(WRITTEN)
    try:
        return _typed(Written(**text), (), ("number", "bytes", "sequence", "published")) if text else Written()
    except (ValueError, TypeError) as error:
        raise _unreadable(where, error) from None


def reader_object(name: str) -> str:
    return f"{READERS}{quote(name, safe='')}{SUFFIX}"


def acknowledged(store: ObjectStore, names: Iterable[str]) -> list[Acknowledged]:
    """Return how far the readers are that these objects are of; one that is gone meanwhile is left out. Raises TrailCorrupt:
    nobody knows what a reader needs that cannot be read."""
    found = []
    for name in names:
        if not name.endswith(SUFFIX):  # whether somebody may write there was tried by it
            continue
        text, where = _json(store, name), store.path(name)
        if text is None:
            continue
        try:
            found.append(_typed(Acknowledged(**text), ("name", "to", "state"), ("number", "sequence", "bytes")))
        except (ValueError, TypeError) as error:
            raise _unreadable(where, error) from None
    return found


def save(store: ObjectStore, fact: Begun | Written | Acknowledged) -> None:
    """Write a fact, in place of the former one."""
    store.replace(_name(fact), to_json(asdict(fact)) + b"\n")


def begin(store: ObjectStore, fact: Begun) -> None:
    """Write the first fact of all. Raises ObjectExists."""
    store.create(BEGUN, to_json(asdict(fact)) + b"\n")


def from_piece_on(fact: Begun, first: int) -> Begun:
    return replace(fact, first=first)


def _name(fact: Begun | Written | Acknowledged) -> str:
    if isinstance(fact, Acknowledged):
        return reader_object(fact.name)
    return BEGUN if isinstance(fact, Begun) else WRITTEN


def _json(store: ObjectStore, name: str) -> dict[str, Any] | None:
    with suppress(ObjectMissing):
        try:
            found = json.loads(store.read(name))
        except (ValueError, RecursionError) as error:
            raise _unreadable(store.path(name), error) from None
        if not isinstance(found, dict):
            raise _unreadable(store.path(name), "it is no object")
        return found
    return None


def _typed(fact: F, texts: tuple[str, ...], numbers: tuple[str, ...]) -> F:
    """Return the fact if its values have their types. Raises ValueError."""
    if not all(isinstance(getattr(fact, name), str) for name in texts):
        raise ValueError(f"{', '.join(texts)} have to be texts")
    if not all(type(value := getattr(fact, name)) is int and value >= 0 for name in numbers):
        raise ValueError(f"{', '.join(numbers)} have to be numbers")
    return fact


def _unreadable(where: str, error: object) -> TrailCorrupt:
    return TrailCorrupt(f"{where} cannot be read: {error}", hint=_RESTORE)
