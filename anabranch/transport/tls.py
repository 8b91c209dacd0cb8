"""TLS of a hop: both sides show a certificate, and what it says is the peer's name."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from anabranch.errors import ConfigError
from anabranch.transport.link import LinkLost, reason

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SECONDS = 10.0  # for a connection and its handshake


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files (PEM): the authority that has to have signed the other side's certificate, ours, and the key of ours."""

    ca: Path
    cert: Path
    key: Path


def context(files: Certificates, *, serves: bool) -> ssl.SSLContext:
    """Return what both sides of a hop use: TLS 1.2 at least, certificates in both directions. Raises ConfigError that names the
    file that cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_verify_locations(files.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate authority {files.ca} cannot be used: {reason(error)}", hint=_PEM) from None
    try:
        made.load_cert_chain(files.cert, files.key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        what = f"the certificate {files.cert} with the key {files.key} cannot be used: {reason(error)}"
        raise ConfigError(what, hint=_PEM) from None
    return made


_PEM = "give files in PEM format that this user may read, and the key that belongs to the certificate, without a passphrase"


def _no_password() -> str:
    raise ValueError("the key has a passphrase")


def names_of(sock: socket.socket) -> tuple[str, ...]:
    """Return what the other side's certificate calls it: common name, DNS names, addresses. Nothing without TLS."""
    if not isinstance(sock, ssl.SSLSocket):
        return ()
    found: dict[str, Any] = sock.getpeercert() or {}
    common = [str(value) for part in found.get("subject", ()) for key, value in part if key == "commonName"]
    others = [str(value) for _, value in found.get("subjectAltName", ())]
    return tuple(dict.fromkeys([*common, *others]))


def connected(host: str, port: int, tls: ssl.SSLContext | None, seconds: float = SECONDS) -> socket.socket:
    """Open a connection. Raises LinkLost with the reason; a certificate that is refused is one, too: it may be renewed."""
    where = f"{host}:{port}"
    try:
        sock = socket.create_connection((host, port), seconds)
    except OSError as error:
        raise LinkLost(f"{where} cannot be reached: {reason(error)}") from None
    if tls is None:
        return sock
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise LinkLost(f"the certificate of {where} is refused: {error.verify_message}") from None
    except OSError as error:
        sock.close()
        raise LinkLost(f"no TLS with {where}: {reason(error)}") from None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Globs: a peer of which one name fits `peer` may write the trails that fit `trail`."""

    trail: str
    peer: str = "*"

    def fits(self, names: tuple[str, ...], trail: str) -> bool:
        return fnmatchcase(trail, self.trail) and any(fnmatchcase(one, self.peer) for one in names or ("",))
