"""Pieces: numbered objects that carry a trail through a store, each whole, never changed, chained by their digests.

    prefix      magic, bytes of the head
    head        JSON (`Head`): whose it is, its number, the digest of the piece before it, what a replica has behind it
    body        messages as on a line (`messages.py`): HISTORY, SEGMENT, FILE; zstd where the head says so
    digest      SHA-256 of all before it, by which the next piece names this one

What does not live here: what comes into a piece (`batch.py`), which objects there are besides (`store_facts.py`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa

from anabranch.errors import StateError, TrailCorrupt, TrailError
from anabranch.trail.format import to_json
from anabranch.trail.identity import Identity
from anabranch.trail.replica import Held
from anabranch.transport.messages import BODY_LIMIT, HEAD_LIMIT, PREFIX, Decoder, Message, ProtocolError

FORMAT = 1
FOLDER = "pieces/"
HEAD = 64 * 1024  # bytes in which the head of a piece ends
LARGEST = 1 << 30  # bytes of a body; more is damage
_MAGIC = b"\xabPIECE\n"
_PREFIX = struct.Struct("<7sBI")  # magic, format, bytes of the head
DIGEST = 32  # bytes
_AGAIN = "restore the object from a backup of the store; without it, begin anew under another NAME, and load again"


@dataclass(frozen=True, slots=True)
class Head:
    """The facts of a piece. `chain`: which beginning of the trail in the store it is of; `previous`: the digest of piece
    number - 1, "" for the first. `writer`: the session that has written it, `pump` a name for people. `held`: what a replica
    has behind it. `bytes`: of all pieces before it; `published`: up to where the trail was published then; `at`: when it was
    made, in seconds since 1970 UTC."""

    number: int
    chain: str
    previous: str
    writer: str
    pump: str
    identity: Identity
    held: Held
    bytes: int
    published: int
    at: float


@dataclass(frozen=True, slots=True)
class PieceRead:
    """A piece that is whole. `size`: bytes of the object."""

    head: Head
    digest: str
    body: bytes
    size: int

    def messages(self) -> Iterator[Message]:
        """Yield what it carries. Raises ProtocolError for what none of this release has written."""
        decoder = Decoder(PREFIX.size + HEAD_LIMIT + BODY_LIMIT)
        decoder.feed(self.body)
        while (message := decoder.next()) is not None:
            yield message
        if decoder.waiting:
            raise ProtocolError(f"{decoder.waiting} bytes at its end are no message")


def name_of(number: int) -> str:
    return f"{FOLDER}{number:020d}"


def number_of(name: str) -> int | None:
    """Return the number of a piece by its object's name, which may have its writer behind it; None for another object."""
    digits, _, _ = name.removeprefix(FOLDER).partition("-")
    return int(digits) if name.startswith(FOLDER) and len(digits) == 20 and digits.isdecimal() else None


def encode(head: Head, body: bytes, *, compress: bool = False) -> bytes:
    """Return the bytes of a piece; its digest is at their end."""
    sent, codec = body, ""
    if compress:
        sent, codec = pa.compress(body, codec="zstd", asbytes=True), "zstd"
    text = to_json({**asdict(head), "codec": codec, "size": len(body)})
    return sealed(b"".join((_PREFIX.pack(_MAGIC, FORMAT, len(text)), text, sent)))


def sealed(data: bytes) -> bytes:
    """Return the bytes with their digest behind them."""
    return data + sha256(data).digest()


def made_at(data: bytes, number: int, where: str) -> float:
    """Return when a piece was made, by its first bytes. Raises TrailCorrupt."""
    try:
        magic, _, length = _PREFIX.unpack_from(data)
        if magic == _MAGIC:
            return float(json.loads(data[_PREFIX.size : _PREFIX.size + length])["at"])
    except (struct.error, ValueError, KeyError, TypeError):
        pass
    raise damaged(number, where, "its head cannot be read")


def digest_of(data: bytes) -> str:
    """Return the digest of a piece by its bytes, which are not checked."""
    return data[-DIGEST:].hex()


def decode(data: bytes, number: int, where: str) -> PieceRead:
    """Return a piece. `where`: the object, for people. Raises TrailCorrupt for one that is not what was written, or stands in
    another one's place, TrailError for one of a newer release."""
    if len(data) < _PREFIX.size + DIGEST:
        raise damaged(number, where, f"it has {len(data)} bytes")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise damaged(number, where, "it is no piece of a trail")
    if sha256(memoryview(data)[:-DIGEST]).digest() != data[-DIGEST:]:
        raise damaged(number, where, "its digest is another: bytes of it were changed, or are missing")
    if version > FORMAT:
        message = f"piece {number} ({where}) has format {version}, this release knows {FORMAT}"
        raise TrailError(message, hint="use the release that has written it, or a newer one")
    try:
        text = json.loads(data[_PREFIX.size : _PREFIX.size + length])
        codec, size = text.pop("codec"), text.pop("size")
        head = _head(text)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(number, where, f"its head cannot be read: {error}") from None
    if head.number != number:
        raise damaged(number, where, f"it says that it is piece {head.number}")
    sent = data[_PREFIX.size + length : -DIGEST]
    return PieceRead(head, digest_of(data), _body(sent, codec, size, number, where), len(data))


def refuse_other(piece: PieceRead, chain: str, previous: str, where: str) -> None:
    """Raise where a piece is not the one that follows: StateError for one of another trail, TrailCorrupt for another chain."""
    head = piece.head
    if head.chain != chain:
        message = f"piece {head.number} ({where}) is of job {head.identity.job}, and of another beginning of a trail"
        raise StateError(f"{message} than the store", hint="somebody has copied it there: " + _AGAIN)
    if head.previous != previous:
        message = f"piece {head.number} ({where}) does not follow the piece {head.number - 1} that was read"
        raise TrailCorrupt(f"{message}: it names another digest", hint="one of the two was replaced: " + _AGAIN)


def damaged(number: int, where: str, why: str) -> TrailCorrupt:
    return TrailCorrupt(f"piece {number} ({where}) is not what was written: {why}", hint=_AGAIN)


def missing(number: int, where: str, later: int) -> TrailCorrupt:
    message = f"piece {number} is missing ({where}), piece {later} was written behind it"
    return TrailCorrupt(message, hint=_AGAIN)


def _head(text: dict[str, Any]) -> Head:
    """Return the head of what is written. Raises ValueError, KeyError, TypeError."""
    identity, held = Identity(**text.pop("identity")), text.pop("held")
    head = Head(identity=identity, held=Held.from_json(held), **text)
    texts = (head.chain, head.previous, head.writer, head.pump, identity.job, identity.job_uuid)
    numbers = (head.number, head.bytes, head.published, identity.format)
    if not all(isinstance(one, str) for one in texts) or not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("a fact of it has another type")
    if not isinstance(head.at, int | float):
        raise ValueError("it does not say when it was made")
    return head


def _body(sent: bytes, codec: str, size: int, number: int, where: str) -> bytes:
    if codec not in ("", "zstd"):
        message = f"piece {number} ({where}) is compressed by {codec!r}, which this release does not know"
        raise TrailError(message, hint="use the release that has written it, or a newer one")
    if type(size) is not int or not 0 <= size <= LARGEST:
        raise damaged(number, where, "its size is none")
    try:
        body = pa.decompress(sent, decompressed_size=size, codec="zstd", asbytes=True) if codec else sent
    except (OSError, ValueError, pa.ArrowException):
        raise damaged(number, where, "its body cannot be decompressed") from None
    if len(body) != size:
        raise damaged(number, where, f"its body has {len(body)} bytes, not {size}")
    return body
