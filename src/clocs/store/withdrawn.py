"""Withdrawn patients of a store: hashes of their ids, which keep them out of later ingests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from clocs.core.errors import IntegrityError
from clocs.core.files import seal, unseal, write_bytes

WITHDRAWN: Final = "withdrawn.json"
"""File of the hashes within a store."""


@dataclass(frozen=True)
class WithdrawnPatients:
    """Hashes of the ids of withdrawn patients, which the store keeps instead of the ids.

    The salt makes the hashes of two stores differ. It is not secret: without a key for pseudonyms, a guessed id can be
    compared with the hashes.
    """

    salt: str = ""
    """Content hash of the store's first version."""
    hashes: frozenset[str] = frozenset()
    """Hash of each id, 32 hex digits."""

    def __contains__(self, patient_id: str) -> bool:
        return bool(self.hashes) and self._hash(patient_id) in self.hashes

    def add(self, patient_ids: Iterable[str]) -> WithdrawnPatients:
        """Return the patients with further ones."""
        return replace(self, hashes=self.hashes | {self._hash(name) for name in patient_ids})

    def _hash(self, patient_id: str) -> str:
        text = f"{self.salt}/{patient_id}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def read_withdrawn(folder: Path, salt: str = "") -> WithdrawnPatients:
    """Return the withdrawn patients of a store.

    Args:
        folder: Folder of the store.
        salt: Salt for a store without withdrawn patients.

    Raises:
        IntegrityError: The file is damaged. Without it, an ingest could bring patients back.
    """
    try:
        body = unseal((folder / WITHDRAWN).read_bytes(), WITHDRAWN)
        return WithdrawnPatients(body["salt"], frozenset(body["patients"]))
    except FileNotFoundError:
        return WithdrawnPatients(salt)
    except (OSError, KeyError, TypeError) as error:
        raise IntegrityError(f"{WITHDRAWN}: cannot be read ({error!r:.100}). Restore it from a backup.") from error


def write_withdrawn(folder: Path, patients: WithdrawnPatients) -> None:
    """Write the withdrawn patients of a store."""
    write_bytes(folder / WITHDRAWN, seal({"salt": patients.salt, "patients": sorted(patients.hashes)}))
