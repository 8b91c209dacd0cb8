"""Seals of parcels of an encrypted trail: the key that an export uses, and the proof that a manifest is as the export wrote it.

Files of such a parcel are encrypted, as the trail's are, and whoever has not the key can neither read them nor make others.
But anybody could put files without encryption in, and write a manifest with their digests. So the manifest of each parcel is
sealed: a data key, wrapped by the trail's key, shows for which content it was made. Whoever imports with the key believes
nothing else; without the key a parcel is taken in unopened. What does not live here: signatures, which need no secret at the
other side (`signing.py`); keys of trails (`keys.py`).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from anabranch.errors import ParcelRefused, TrailCorrupt, TrailKeyMissing
from anabranch.trail import identity as identities
from anabranch.trail import keys, sealing
from anabranch.trail.format import FORMAT
from anabranch.trail.identity import Identity
from anabranch.trail.keys import KeyRing, KeyService
from anabranch.trail.parcel import Manifest
from anabranch.trail.parcel_contents import ParcelStorage
from anabranch.trail.replica_files import KEYS
from anabranch.trail.storage import LocalReadable, LocalStorage, Storage

ABOUT = b"parcel"
FACTS, PROOF = "facts", "proof"  # of a seal, as it stands in the manifest
_NAME_IT = "name the key: --trail-key FILE, or --trail-key-env NAME"
_NOTE_IT = (
    "export with the file of the job that applies this trail, whose [trail] encrypt says it; a job that captures notes it when"
    f" it starts; or {_NAME_IT}"
)
_OF_BOTH = (identities.FILE, KEYS, keys.REWRAPPED)
_CHANGED = "it was changed, or made by somebody without the trail's key: do not use it"


def exporting_key(storage: Storage, who: Identity) -> KeyService | None:
    """Return the key by which parcels of a trail are encrypted; None for a trail that never was. Where encryption was turned
    off the trail still has rows that were encrypted, so its former key is used. Raises TrailKeyMissing where none is known."""
    if who.format <= FORMAT:
        return None
    ring = keys.ring(storage)
    found = next(ring.every, None) if ring else None
    if found is None:
        message = f"the trail of job {who.job} is encrypted, and no key is known here ({keys.place(storage)})"
        raise TrailKeyMissing(message, hint=_NOTE_IT)
    return found


def sealed(manifest: Manifest, service: KeyService) -> Manifest:
    """Return the manifest with its seal. Raises TrailKeyMissing."""
    about = {"job_uuid": manifest.job_uuid, "chain": manifest.chain, "parcel": manifest.number}
    seal, facts = sealing.made(about, service)
    return replace(manifest, seal={FACTS: facts, PROOF: seal.text(_digest(manifest), ABOUT)})


def key_of(manifest: Manifest) -> str:
    """Return the id of the key by which a parcel says that it is sealed, "" for one that is not. Nothing is believed of it."""
    facts = _facts(manifest)
    named = facts.get(sealing.FACTS)
    return str(named.get("key", ""))[:500] if isinstance(named, dict) else ""


def check(manifest: Manifest, services: Sequence[KeyService]) -> None:
    """Raise ParcelRefused for a parcel that was not sealed as it is by one of these keys, or not at all; TrailKeyMissing, once
    and with the ids, where none of them is its key."""
    where = f"parcel {manifest.number}"
    if not manifest.seal:
        hint = (
            "it was made without the key: do not use it; or the trail was not encrypted yet, and no parcel before it is: then"
            " import up to it without --trail-key, into a replica beside which no .NAME.encryption.json says otherwise"
        )
        raise ParcelRefused(f"{where} is not encrypted, and the trail is to be", hint=hint)
    try:
        facts = _facts(manifest)
        found = sealing.wrapped_in(facts)
        if found is None:
            raise sealing.Tampered("its seal names no key")
        wrapped, tag = found
        seal = sealing.Seal(_unwrapped(where, wrapped, services), facts, wrapped)
        if not seal.has_tag(tag):
            raise sealing.Tampered("its seal is another's")
        if not hmac.compare_digest(seal.open_text(str(manifest.seal.get(PROOF)), ABOUT), _digest(manifest)):
            raise sealing.Tampered("its manifest is not the one that was sealed")
    except sealing.Tampered as error:
        raise ParcelRefused(f"{where}: {error}", hint=_CHANGED) from None


class ArrivingStorage(ParcelStorage):
    """Files of a parcel that has arrived beside its replica. Whose they are, and data keys that were wrapped anew, may stand
    there alone."""

    def open(self, name: str) -> LocalReadable:
        try:
            return LocalReadable(self.directory / name)
        except FileNotFoundError:
            if name not in _OF_BOTH:
                raise
            return LocalReadable(self.beside / name)


def arriving(folder: str, into: LocalStorage) -> ArrivingStorage:
    return ArrivingStorage(into.directory / folder, into.directory)


def _unwrapped(where: str, wrapped: keys.Wrapped, services: Sequence[KeyService]) -> bytes:
    try:
        return KeyRing(None, readers=tuple(services)).unwrap([wrapped], where)
    except TrailKeyMissing as error:
        raise TrailKeyMissing(error.message, hint=_NAME_IT) from None
    except TrailCorrupt as error:
        raise ParcelRefused(error.message, hint=_CHANGED) from None


def _facts(manifest: Manifest) -> Mapping[str, Any]:
    facts = (manifest.seal or {}).get(FACTS)
    return facts if isinstance(facts, dict) else {}


def _digest(manifest: Manifest) -> bytes:
    return sha256(replace(manifest, seal=None).to_bytes()).digest()
