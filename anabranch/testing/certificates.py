"""Certificates for private servers: an authority, a server's certificate that it signed, an authority that did not.

Made on the spot, valid for a day. Keys are of an elliptic curve: a session costs half the processor time that it does with RSA,
which old servers know alone.
What does not live here: switching TLS on in a server (the test says its options).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from anabranch.testing.processes import give_away

_CURVE = ec.SECP256R1()
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: who signed, the server's own pair, and somebody who signed nothing."""

    authority: Path
    certificate: Path
    key: Path
    stranger: Path


def make_certificates(directory: Path, name: str, is_old: bool = False) -> Certificates:
    """Make a certificate for a server that is called `name` and nothing else. `is_old`: for a server that knows RSA alone.

    Its key is readable for the account servers run as."""
    found = Certificates(*(directory / file for file in ("ca.pem", "server.pem", "server-key.pem", "stranger.pem")))
    authority, own, stranger = (_key(is_old) for _ in range(3))
    issuer, other = _name("authority of a test"), _name("stranger of a test")
    found.authority.write_bytes(_signed(issuer, issuer, authority, authority))
    found.stranger.write_bytes(_signed(other, other, stranger, stranger))
    found.certificate.write_bytes(_signed(_name(name), issuer, own, authority, name))
    found.key.touch(mode=0o600)
    found.key.write_bytes(
        own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    give_away(found.key)
    return found


def _key(is_old: bool) -> Key:
    return rsa.generate_private_key(65537, 2048) if is_old else ec.generate_private_key(_CURVE)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    signer: Key,
    host: str = "",
) -> bytes:
    """A certificate; an authority's where there is no host."""
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
    )
    if host:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
