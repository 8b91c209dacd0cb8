"""Keys of a manager's secrets: 32 bytes each, from an environment variable, from the system's keyring and from a file.

The first one seals, all of them open; two are there while a key is replaced by another. What does not live here: what is sealed
(`secrets.py`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from anabranch.errors import ConfigError
from anabranch.manager import keyring_asked

VARIABLE, FILE_VARIABLE = "ANABRANCH_SECRET_KEY", "ANABRANCH_SECRET_KEY_FILE"
RING_VARIABLE, RING_USER = "ANABRANCH_SECRET_KEY_KEYRING", "secret-key"  # the service, and whose password it is there
FILE = "secret.key"  # beside the manager's store
SIZE, NONCE = 32, 12  # bytes. https://cryptography.io/en/latest/hazmat/primitives/aead/
_FORM = "32 bytes in base64, as `openssl rand -base64 32` prints them"


@dataclass(frozen=True)
class Key:
    """A key. `id` tells it from others, and says nothing of it."""

    value: bytes = field(repr=False)

    @classmethod
    def made(cls) -> Key:
        """Return a new one."""
        return cls(secrets.token_bytes(SIZE))

    @property
    def id(self) -> str:
        """Return what it is called: 12 letters and digits."""
        return hashlib.sha256(b"anabranch secret key\0" + self.value).hexdigest()[:12]

    def seal(self, value: bytes, place: str) -> bytes:
        """Encrypt a value. `place`: where it stands; it opens nowhere else."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + AESGCM(self.value).encrypt(nonce, value, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes | None:
        """Decrypt what was sealed with this key for this place; None where it was not, or was changed since."""
        try:
            return AESGCM(self.value).decrypt(sealed[:NONCE], sealed[NONCE:], place.encode())
        except (InvalidTag, ValueError):  # ValueError: it is too short to be anything
            return None


@dataclass(frozen=True)
class Keys:
    """The keys of one manager. `directory`: that of its store."""

    directory: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def file(self) -> Path:
        """Return the path of the file, which need not be there."""
        named = self.environment.get(FILE_VARIABLE)
        return Path(named).absolute() if named else self.directory / FILE

    @property
    def are_given(self) -> bool:
        """Return whether the environment has keys, or says that the keyring has them: the file's seal nothing then."""
        return bool(self.environment.get(VARIABLE, "").split()) or bool(self.ring)

    @property
    def place(self) -> str:
        """Return where the key is that seals, for people."""
        if self.environment.get(VARIABLE, "").split():
            return f"the variable {VARIABLE}"
        return f"the keyring ({self.ring}, {RING_USER})" if self.ring else f"the file {self.file}"

    @property
    def ring(self) -> str:
        """Return the service under which the keyring has keys; "" where it is not asked."""
        return self.environment.get(RING_VARIABLE, "").strip()

    def all(self, ring: Sequence[Key] | None = None) -> list[Key]:
        """Return all keys, that which seals first; none where there is no file yet. `ring`: those of the keyring, of who has
        asked it before a transaction that nobody else should wait for. Raises ConfigError for what is none."""
        of_ring = self.of_ring() if ring is None else ring
        return [*_read(self.environment.get(VARIABLE, ""), f"${VARIABLE}"), *of_ring, *self.of_file()]

    def of_ring(self, is_anew: bool = False) -> list[Key]:
        """Return the keys of the keyring, as of some seconds ago unless `is_anew`; none where it is not asked. Raises
        ConfigError where it cannot be read, or has none: a key that was to be there is never made elsewhere."""
        if not self.ring:
            return []
        place = f"the keyring ({self.ring}, {RING_USER})"
        hint = f"unlock it for the user of the manager, or give the key as ${VARIABLE}"
        found = keyring_asked.password(self.ring, RING_USER, hint, is_anew)
        if not found.split():
            raise ConfigError(
                f"{place} has no key of this manager's secrets",
                hint=f"openssl rand -base64 32 | keyring set {self.ring} {RING_USER}",
            )
        return _read(found, place)

    def of_file(self) -> list[Key]:
        """Return the keys of the file alone. Raises ConfigError for a file that cannot be read, or others may read."""
        try:
            with open(self.file, encoding="ascii") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXO | stat.S_IWGRP):
                    raise ConfigError(
                        f"others may read the key file {self.file}", hint=f"chmod 600 {quote(str(self.file))}"
                    )
                return _read(file.read(), str(self.file))
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConfigError(
                f"the key file {self.file} cannot be read: {said}", hint="secrets need the key that sealed them"
            ) from None

    def write(self, keys: Sequence[Key]) -> None:
        """Let these be the keys of the file, for this user alone; durable when this returns. Raises ConfigError."""
        text = "".join(f"{base64.b64encode(key.value).decode()}\n" for key in keys)
        try:
            handle, beside = tempfile.mkstemp(".tmp", f".{self.file.name}.", self.file.parent)  # with mode 0600
            with open(handle, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.file)
            _sync(self.file.parent)
        except OSError as error:
            raise ConfigError(
                f"the key file {self.file} cannot be written: {error.strerror}", hint=f"or give the key as ${VARIABLE}"
            ) from None


def _read(text: str, place: str) -> list[Key]:
    found = []
    for word in text.split():
        try:
            value = base64.b64decode(word.translate(str.maketrans("-_", "+/")) + "=" * (-len(word) % 4), validate=True)
        except (binascii.Error, ValueError):
            value = b""
        if len(value) != SIZE:
            raise ConfigError(f"{place} has what is no key", hint=f"a key is {_FORM}")
        found.append(Key(value))
    return found


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
