"""Withdrawn patients of a store, archive or index: hashes of their ids, which keep them out of later additions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.errors import IntegrityError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import update_bytes

WITHDRAWN: Final = "withdrawn.json"
"""File of the hashes within a folder."""


@dataclass(frozen=True)
class WithdrawnPatients:
    """Hashes of the ids of withdrawn patients, which a store, archive or index keeps instead of the ids.

    The salt makes the hashes of two folders differ. It is not secret: without a key for pseudonyms, a guessed id can be
    compared with the hashes.
    """

    salt: str = ""
    """Hash of the folder's first content."""
    hashes: frozenset[str] = frozenset()
    """Hash of each id, 32 hex digits."""

    def __contains__(self, patient_id: str) -> bool:
        return bool(self.hashes) and self._hash(patient_id) in self.hashes

    def mask(self, patient_ids: pa.Array) -> npt.NDArray[np.bool_]:
        """Return which ids (N,) are those of withdrawn patients, as a mask (N,)."""
        if not self.hashes:
            return np.zeros(len(patient_ids), bool)
        encoded = patient_ids.dictionary_encode()
        is_withdrawn = np.array([name in self for name in encoded.dictionary.to_pylist()], bool)
        return np.asarray(is_withdrawn[encoded.indices.to_numpy()])

    def add(self, patient_ids: Iterable[str]) -> WithdrawnPatients:
        """Return the patients with further ones."""
        return replace(self, hashes=self.hashes | {self._hash(name) for name in patient_ids})

    def _hash(self, patient_id: str) -> str:
        text = f"{self.salt}/{patient_id}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def read_withdrawn(folder: Path, salt: str = "") -> WithdrawnPatients:
    """Return the withdrawn patients of a store, archive or index.

    Args:
        folder: The folder.
        salt: Salt for a folder without withdrawn patients.

    Raises:
        IntegrityError: The file is damaged. Without it, an addition could bring patients back.
    """
    try:
        body = unseal((folder / WITHDRAWN).read_bytes(), WITHDRAWN)
        return WithdrawnPatients(body["salt"], frozenset(body["patients"]))
    except FileNotFoundError:
        return WithdrawnPatients(salt)
    except (OSError, KeyError, TypeError) as error:
        raise IntegrityError(f"{WITHDRAWN}: cannot be read ({error!r:.100}). Restore it from a backup.") from error


def write_withdrawn(folder: Path, patients: WithdrawnPatients) -> None:
    """Add withdrawn patients to those of a folder."""

    def joined(old: bytes | None) -> bytes:
        known = unseal(old, WITHDRAWN)["patients"] if old is not None else ()
        return seal({"salt": patients.salt, "patients": sorted(patients.hashes.union(known))})

    update_bytes(folder / WITHDRAWN, joined)
