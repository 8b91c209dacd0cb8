"""Encrypted files of frames: AES-256-GCM for each frame, one random data key for each file, wrapped in its header.

Nonces are places: the frame's offset and the number of a piece in it. A file is written once, from its beginning on, by the one
object that made its data key, and never twice at a place; what is written after a failure goes to another file. Each frame is
bound to its prefix, its offset and all that the header says (job, segment, where it begins), so that a frame of another file,
or of another place, is refused. The header itself is readable, with a tag that only the data key can make.
What does not live here: master keys (`keys.py`), how a frame looks (`format.py`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from anabranch.errors import AnabranchError, ConfigError, TrailCorrupt, TrailError
from anabranch.trail import keys
from anabranch.trail.format import ENCRYPTED, Frame, decode_prefix, encode_frame, pack_prefix
from anabranch.trail.keys import KeyRing, KeyService, Wrapped
from anabranch.trail.storage import Data, Storage, read_whole

CIPHER = "AES-256-GCM"
FACTS = "encryption"  # in the header
TAG = 16  # bytes that each sealed piece is longer
PIECE = 1 << 26  # bytes of a body that are sealed at once: the cipher ends at 2 GB
KNOWN = 256  # data keys that a process remembers: a key service is asked once for each file
_NONCE = struct.Struct("<QI")  # offset of the frame, piece: 0 the head, from 1 on the body
_RANDOM = _NONCE.size
_known: OrderedDict[str, bytes] = OrderedDict()


class Tampered(Exception):
    """Raised where something else is than what was written there. `SegmentReader` says in which file and where."""


class _Cipher(Protocol):
    def encrypt(self, nonce: bytes, data: Data, associated_data: bytes | None) -> bytes: ...

    def decrypt(self, nonce: bytes, data: Data, associated_data: bytes | None) -> bytes: ...


class Seal:
    """The data key of one file: seals its frames and opens them."""

    def __init__(self, data_key: bytes, header: Mapping[str, Any], wrapped: Wrapped) -> None:
        facts = json.dumps({name: said for name, said in header.items() if name != FACTS}, sort_keys=True)
        self._about = hashlib.sha256(facts.encode()).digest()
        self.tag = _derived(data_key, b"header" + self._about).hex()[:32]
        self.key, self.wrapped = wrapped.key, wrapped
        self._frames, self._later = _cipher(_derived(data_key, b"frames")), _cipher(_derived(data_key, b"later"))
        self._stream, self._texts = _cipher(_derived(data_key, b"pieces")), _cipher(_derived(data_key, b"texts"))
        self._free = 0  # offsets before it are spent

    def facts(self) -> dict[str, str]:
        """Return what the header says of it."""
        return {"cipher": CIPHER, **self.wrapped._asdict(), "tag": self.tag}

    def has_tag(self, tag: str) -> bool:
        """Return whether a header with this tag is the one that was written. Any text may stand there."""
        return hmac.compare_digest(self.tag.encode(), tag.encode(errors="surrogatepass"))

    def frame(self, offset: int, parts: list[Data]) -> list[Data]:
        """Return a frame (prefix, head, parts of the body) sealed for its place. Raises TrailError for a spent place."""
        if offset < self._free:
            raise TrailError("a frame at a place that another one had", hint="report this: a segment has to end there")
        self._free = offset + 1
        prefix, head, *body = parts
        found = decode_prefix(bytes(prefix))
        assert found is not None, "made by format.py"
        pieces = list(_pieces(b"".join(body)))
        frame = found[0]._replace(
            head_length=len(head) + TAG, body_length=sum(len(one) + TAG for one in pieces), body_crc=0
        )
        sealed = [
            self._frames.encrypt(_NONCE.pack(offset, number), piece, self._about_body(frame))
            for number, piece in enumerate(pieces, 1)
        ]
        crc = 0
        for piece in sealed:
            crc = zlib.crc32(piece, crc)
        frame = frame._replace(body_crc=crc)
        closed = self._frames.encrypt(_NONCE.pack(offset, 0), head, self._about + pack_prefix(frame))
        return [encode_frame(frame, closed), closed, *sealed]

    def later_frame(self, parts: list[Data]) -> list[Data]:
        """Return a frame without a body for a finished file, where it may come twice to a place: its nonce is random."""
        prefix, head = parts
        found = decode_prefix(bytes(prefix))
        assert found is not None, "made by format.py"
        frame = found[0]._replace(head_length=_RANDOM + len(head) + TAG)
        nonce = os.urandom(_RANDOM)
        closed = nonce + self._later.encrypt(nonce, head, self._about + pack_prefix(frame))
        return [encode_frame(frame, closed), closed]

    def head(self, offset: int, frame: Frame, closed: bytes, *, is_later: bool = False) -> bytes:
        """Return the head of a frame. Raises Tampered."""
        cipher, nonce = self._frames, _NONCE.pack(offset, 0)
        if is_later:
            cipher, nonce, closed = self._later, closed[:_RANDOM], closed[_RANDOM:]
        return _opened(cipher, nonce, closed, self._about + pack_prefix(frame))

    def body(self, offset: int, frame: Frame, closed: bytes) -> bytes:
        """Return the body of a frame. Raises Tampered."""
        about, view = self._about_body(frame), memoryview(closed)
        pieces = [view[at : at + PIECE + TAG] for at in range(0, len(closed), PIECE + TAG)]
        opened = [_opened(self._frames, _NONCE.pack(offset, n), piece, about) for n, piece in enumerate(pieces, 1)]
        return opened[0] if len(opened) == 1 else b"".join(opened)

    def piece(self, number: int, is_last: bool, data: Data) -> bytes:
        """Return a piece of a file that is no file of frames, sealed for its place and for whether another one follows. The
        caller writes each number once."""
        return self._stream.encrypt(_NONCE.pack(number, is_last), data, self._about)

    def open_piece(self, number: int, is_last: bool, closed: Data) -> bytes:
        """Return a piece as it was. Raises Tampered, also where the file goes on, or ends, and did not."""
        return _opened(self._stream, _NONCE.pack(number, is_last), closed, self._about)

    def text(self, data: Data, about: bytes) -> str:
        """Seal a small text. `about`: where it stands, and what stands beside it; it opens with the same only."""
        nonce = os.urandom(_RANDOM)
        return base64.b64encode(nonce + self._texts.encrypt(nonce, data, self._about + about)).decode()

    def open_text(self, closed: str, about: bytes) -> bytes:
        """Return a small text as it was. Raises Tampered."""
        try:
            found = base64.b64decode(closed, validate=True)
        except (ValueError, binascii.Error):
            raise Tampered("what is sealed there is no base64") from None
        return _opened(self._texts, found[:_RANDOM], found[_RANDOM:], self._about + about)

    def _about_body(self, frame: Frame) -> bytes:
        """Bind a body to the prefix without its own checksum, which is the head's business."""
        return self._about + pack_prefix(frame._replace(body_crc=0))


def begin(
    storage: Storage,
    header: Mapping[str, Any],
    *,
    is_readers: bool = False,
    service: KeyService | None = None,
) -> tuple[Seal | None, dict[str, Any]]:
    """Return the seal of a new file, and the header that it begins with; no seal where the trail is not encrypted.

    A file that is written anew, and was encrypted, stays so when encryption was turned off. `is_readers`: of a job
    that reads the trail, by whose key it is where no other one is noted. `service`: the key that it is by in any case. Raises
    TrailKeyMissing."""
    plain = {name: said for name, said in header.items() if name != FACTS}
    if service is not None:
        return made(plain | {"format": ENCRYPTED}, service)
    ring = keys.ring(storage)
    if ring is None:
        return None, plain
    service = ring.current or (next(iter(ring.readers), None) if is_readers else None)
    if service is None:
        former = wrapped_in(header)
        if former is None:
            return None, plain
        _unwrapped(storage, ring, former, "a file")
        service = next((one for one in ring.every if one.id() in ("", former[0].key)), None)
        assert service is not None, "it has just unwrapped the former one"
    return made(plain | {"format": ENCRYPTED}, service)


def made(about: Mapping[str, Any], service: KeyService) -> tuple[Seal, dict[str, Any]]:
    """Return a new seal that is bound to these facts, and the facts with what opens it. Raises TrailKeyMissing."""
    data_key = os.urandom(keys.LENGTH)
    seal = Seal(data_key, about, service.wrap(data_key))
    return seal, {**about, FACTS: seal.facts()}


def opened(storage: Storage, header: Mapping[str, Any], what: str) -> Seal | None:
    """Return the seal of a file with this header; None for one that is not encrypted. Raises TrailKeyMissing, Tampered."""
    found = wrapped_in(header)
    if found is None:
        return None
    wrapped, tag = found
    ring = keys.ring(storage) or KeyRing(None)
    seal = Seal(_unwrapped(storage, ring, found, what), header, rewrapped(storage).get(tag, wrapped))
    if not seal.has_tag(tag):
        raise Tampered("the header is not what was written: its tag is wrong")
    return seal


def is_former(storage: Storage, seal: Seal) -> bool:
    """Return whether the trail has another present key than the one that wraps this file's data key. One that cannot be read at
    this moment is no other: the file's own key is in memory, and the next file says what is wrong."""
    try:
        ring = keys.ring(storage)
        return bool(ring and ring.current and ring.current.id() not in ("", seal.key))
    except AnabranchError:
        return False


def refuse_plain(storage: Storage, file: str, header: Mapping[str, Any]) -> None:
    """Raise Tampered for a file that is not encrypted and has to be."""
    if FACTS in header:
        return
    ring = keys.ring(storage)
    if ring and ring.requires(file):
        raise Tampered("it is not encrypted, and was to be: it is not the file that was written")


def refuse_plain_content(storage: Storage, file: str, content: bytes) -> None:
    """Raise Tampered for a small file that is not encrypted, has to be, and is not what stood there when it had not to."""
    ring = keys.ring(storage)
    if ring and ring.is_on and keys.as_it_is(file, content) not in ring.plain:
        raise Tampered("it is not encrypted, and was to be: it is not the file that was written")


def rewrapped(storage: Storage) -> dict[str, Wrapped]:
    """Return data keys that were wrapped anew since their files were written, by the tags of these: as the trail was told that
    this one is a copy of, or here, which comes first. Raises TrailCorrupt."""
    told = keys.rewrapped_there(storage)
    try:
        found = json.loads(read_whole(storage, keys.REWRAPPED))
        return told | {str(tag): Wrapped(*map(str, one)) for tag, one in found.items()}
    except FileNotFoundError:
        return told
    except (ValueError, TypeError, AttributeError):
        hint = "restore the file from a backup of the trail, or name the former keys and run anabranch trail rekey JOB"
        raise TrailCorrupt(f"{storage.path(keys.REWRAPPED)} cannot be read", hint=hint) from None


def wrapped_in(header: Mapping[str, Any]) -> tuple[Wrapped, str] | None:
    """Return how the data key is wrapped, and the header's tag. None: not encrypted. Raises Tampered."""
    if FACTS not in header:
        return None
    said = header[FACTS]
    names = (*Wrapped._fields, "tag", "cipher")
    if not isinstance(said, dict) or not all(isinstance(said.get(name), str) for name in names):
        raise Tampered("the header says nothing usable of its encryption")
    if said["cipher"] != CIPHER:
        raise Tampered(f"it is encrypted by {said['cipher']}, this release knows {CIPHER}")
    return Wrapped(*(said[name] for name in Wrapped._fields)), said["tag"]


def _unwrapped(storage: Storage, ring: KeyRing, found: tuple[Wrapped, str], what: str) -> bytes:
    wrapped, tag = found
    name = hashlib.sha256(repr((tag, wrapped)).encode()).hexdigest()
    if name not in _known:
        again = [rewrapped(storage).get(tag), keys.rewrapped_there(storage).get(tag)]
        _known[name] = ring.unwrap([one for one in (*again, wrapped) if one], what)
        if len(_known) > KNOWN:
            _known.popitem(last=False)
    _known.move_to_end(name)
    return _known[name]


def forget() -> None:
    """Forget the data keys that this process has seen."""
    _known.clear()


def _pieces(body: bytes) -> Iterator[Data]:
    view = memoryview(body)
    return (view[at : at + PIECE] for at in range(0, len(body), PIECE))


def _opened(cipher: _Cipher, nonce: bytes, closed: Data, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(nonce, closed, about)
    except (InvalidTag, ValueError):
        message = "it is not what was written here: changed, or put here from another place"
        raise Tampered(message) from None


def _derived(data_key: bytes, label: bytes) -> bytes:
    return hmac.new(data_key, b"anabranch-" + label, "sha256").digest()


def _cipher(key: bytes) -> _Cipher:
    """Import the library late, as keys.py does."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"the trail is encrypted, and a library for it is not installed ({missing.name})",
            hint="pip install 'anabranch[encryption]'",
        ) from None
    return AESGCM(key)
