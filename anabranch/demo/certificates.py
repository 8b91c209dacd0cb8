"""Certificates of the demo's hops: an authority for a day, and a certificate for each process, for this machine alone."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.transport.tls import Certificates

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

HOST = "127.0.0.1"
VALID = timedelta(days=1)
SKEW = timedelta(minutes=5)  # a clock that is set back a little makes no certificate one of the future


class Authority:
    """Signs certificates. Its own key stays in memory, so nobody signs another one after the demo."""

    def __init__(self, name: str) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(name, self._key, is_authority=True)

    def issue(self, directory: Path, name: str) -> Certificates:
        """Write what a process of this name needs into its directory: the authority, its certificate, its key."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        files = Certificates(directory / "ca.pem", directory / f"{name}.pem", directory / f"{name}.key")
        form = serialization.PrivateFormat.PKCS8
        secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        files.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        files.cert.write_bytes(self._signed(name, key).public_bytes(serialization.Encoding.PEM))
        with os.fdopen(os.open(files.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        return files

    def _signed(self, name: str, key: EllipticCurvePrivateKey, *, is_authority: bool = False) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
            made = made.add_extension(address, critical=False)
        return made.sign(self._key, hashes.SHA256())
