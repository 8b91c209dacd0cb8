"""Signatures of parcels: Ed25519, in the files and with the bytes that `openssl` makes and checks, too.

What does not live here: what is signed (`parcel.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LENGTH = 64  # bytes of a signature
_MAKE = "openssl genpkey -algorithm ed25519 -out FILE makes one"
_MAKE_PUBLIC = "openssl pkey -in FILE -pubout makes it of the private one"
_NAMED = 16  # hexadecimal digits: enough to tell keys apart, none is chosen by them


class Signer:
    """A private key. `name` is that of its public key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.name = _name(key.public_key())

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


class Verifier:
    """Public keys, any of which may have signed."""

    def __init__(self, keys: Sequence[Ed25519PublicKey]) -> None:
        self._keys = {_name(key): key for key in keys}

    @property
    def names(self) -> list[str]:
        return sorted(self._keys)

    def accepts(self, data: bytes, signature: bytes) -> bool:
        """Return whether one of the keys has signed the data."""
        from cryptography.exceptions import InvalidSignature

        for key in self._keys.values():
            try:
                key.verify(signature, data)
            except InvalidSignature:
                continue
            return True
        return False


def signer_of_file(path: str | Path) -> Signer:
    """Read a private key (PEM). Raises ConfigError for anything else, and for a file that others may read."""
    signer = _signer(_read(path, _MAKE), str(path))
    if os.stat(path).st_mode & 0o077:
        what = f"{path} has a private key, and others than its owner may read it"
        raise ConfigError(what, hint=f"chmod 600 {quote(str(path))}")
    return signer


def signer_of_environment(name: str) -> Signer:
    """Read a private key (PEM) out of a variable of the environment. Raises ConfigError."""
    if not (text := os.environ.get(name)):
        raise ConfigError(f"there is no key in the environment: ${name} is not set", hint=_MAKE)
    return _signer(text.encode(), f"${name}")


def verifier(paths: Sequence[str | Path]) -> Verifier:
    """Read public keys (PEM), one a file. Raises ConfigError."""
    return Verifier([_public(_read(path, _MAKE_PUBLIC), str(path)) for path in paths])


def _read(path: str | Path, hint: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"key {path} cannot be read: {error.strerror}", hint=hint) from None


def _signer(data: bytes, where: str) -> Signer:
    with _library():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        raise ConfigError(f"the key in {where} needs a passphrase, which nobody can be asked for", hint=_MAKE) from None
    except ValueError:
        raise ConfigError(f"{where} has no private key in PEM form", hint=_MAKE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"the key in {where} is none of Ed25519", hint=_MAKE)
    return Signer(key)


def _public(data: bytes, where: str) -> Ed25519PublicKey:
    with _library():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    try:
        key = load_pem_public_key(data)
    except ValueError:
        raise ConfigError(f"{where} has no public key in PEM form", hint=_MAKE_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"the key in {where} is none of Ed25519", hint=_MAKE)
    return key


@contextmanager
def _library() -> Iterator[None]:
    try:
        yield
    except ImportError:
        message = "signatures need the package cryptography, which is not installed"
        raise ConfigError(message, hint=install_hint("signatures")) from None


def _name(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes_raw()).hexdigest()[:_NAMED]
