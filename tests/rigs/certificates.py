"""Certificates for tests of TLS: an authority, and who it has signed."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anabranch.transport.tls import Certificates


class Authority:
    """Signs certificates for 127.0.0.1 and localhost, and for further addresses; the files stand below `folder`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._cert = self._signed(name, self._key, is_authority=True)
        self.ca = folder / f"{name}.ca.pem"
        self.ca.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))

    def files(self, name: str, *addresses: str) -> Certificates:
        """Return what somebody with this common name needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert, place = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(self._signed(name, key, addresses=addresses).public_bytes(serialization.Encoding.PEM))
        place.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Certificates(self.ca, cert, place)

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        is_authority: bool = False,
        addresses: tuple[str, ...] = (),
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._cert.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            known = [x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", *addresses)]
            names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *known])
            made = made.add_extension(names, critical=False)
        return made.sign(self._key, hashes.SHA256())
