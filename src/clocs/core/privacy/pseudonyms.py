"""Pseudonyms for patient ids and file names: keyed hashes, which cannot be guessed or reversed without the key."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import re
import secrets
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.core.storage import files

KEY_BYTES: Final = 32
NUM_HEX_DIGITS: Final = 20
"""Hexadecimal digits of a pseudonym: 80 bits. Of 24 billion archives of ten million patients, one has a collision."""
MAX_SHIFT_WEEKS: Final = 520
"""Maximum number of weeks by which times of recordings are shifted."""
PSEUDONYM: Final = re.compile(rf"[kpr][0-9a-f]{{{NUM_HEX_DIGITS}}}")
"""Pattern of the pseudonym of a key, a patient or a record."""
_MAKE_KEY = "Create one: clocs data make-key"
_UNKNOWN_PATIENT = re.compile(
    r"anon(ymous|ymi[sz]ed)?|none|null|nan|n/?a|unknown|missing|removed|deleted|[-?.]+", re.IGNORECASE
)
"""Placeholders for an unknown patient. ``0`` and ``1`` are not among them: in tables they are patient ids."""


@dataclass(frozen=True)
class PatientKey:
    """A secret key for pseudonyms.

    Without the key, a pseudonym cannot be computed from an id, and trying all ids does not reveal the patient.
    """

    secret: bytes = field(repr=False)
    """The 32 bytes of the key."""

    def patient(self, patient_id: str) -> str:
        """Return the pseudonym of a patient: ``p`` and 20 hex digits. Case and surrounding blanks are ignored."""
        return "p" + self._digest("patient", normalize_patient_id(patient_id).upper())[:NUM_HEX_DIGITS]

    def record(self, name: str) -> str:
        """Return the pseudonym of a file name or record id, which may contain a patient id: ``r`` and 20 hex digits."""
        return "r" + self._digest("record", name)[:NUM_HEX_DIGITS]

    def shift_time(self, acquired: datetime, patient_id: str) -> datetime:
        """Return the time of a recording shifted to 1 to 520 weeks earlier.

        The key determines the weeks of each patient, so intervals between recordings of a patient, the day of the week
        and the time of day stay as they are.
        """
        digest = self._digest("weeks", normalize_patient_id(patient_id).upper())
        return acquired - timedelta(weeks=1 + int(digest, 16) % MAX_SHIFT_WEEKS)

    def file(self, sha256: str) -> str:
        """Return a keyed hash of a file hash, in 64 hex digits. The plain hash would identify the file to its owner."""
        return self._digest("file", sha256) if sha256 else ""

    def content(self, sha256: str) -> str:
        """Return a keyed hash, in 64 hex digits, of the hash of names or of a table, which could be guessed."""
        return self._digest("content", sha256)

    @property
    def fingerprint(self) -> str:
        """Return the public identifier of the key, which a store keeps: ``k`` and 20 hex digits."""
        return "k" + self._digest("fingerprint", "")[:NUM_HEX_DIGITS]

    def _digest(self, label: str, text: str) -> str:
        message = f"clocs/{label}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def normalize_patient_id(patient_id: str) -> str:
    """Return a patient id in Unicode form NFKC, without surrounding blanks and invisible characters."""
    characters = unicodedata.normalize("NFKC", patient_id)
    return "".join(character for character in characters if unicodedata.category(character) != "Cf").strip()


def is_unknown_patient(patient_id: str) -> bool:
    """Return whether an id is a placeholder for an unknown patient, for example "n/a"."""
    return _UNKNOWN_PATIENT.fullmatch(patient_id) is not None


def make_key(file: str | os.PathLike[str]) -> PatientKey:
    """Create a key for pseudonyms in a new file that only its owner can read.

    Keep the file. A patient has the same pseudonym in two stores only if both were made with the same key.

    Args:
        file: File of the key. Missing folders are created. An existing file is never overwritten.

    Returns:
        The key.

    Raises:
        ConfigError: The file exists or cannot be written.

    Example:
        >>> key = clocs.make_key("patients.key")
        >>> len(key.patient("SBJ-123"))
        21
        >>> key.patient("SBJ-123") == key.patient(" sbj-123")
        True
    """
    path = Path(file)
    secret = secrets.token_bytes(KEY_BYTES)
    try:
        files.make_folders(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists, and a key is never overwritten. Choose another file name.") from None
    except OSError as error:
        raise ConfigError(f"Cannot create a key in {path}: {error.strerror}") from error
    with os.fdopen(handle, "w") as key_file:
        key_file.write(secret.hex() + "\n")
        key_file.flush()
        os.fsync(key_file.fileno())
    files.disk.sync_folder(path.parent)
    return PatientKey(secret)


def read_key(path: str | os.PathLike[str]) -> PatientKey:
    """Read a key from a file.

    Args:
        path: File that :func:`make_key` created.

    Returns:
        The key.

    Raises:
        ConfigError: The file does not exist, contains no key, or can be read by other users.
    """
    try:
        modified = os.stat(path).st_mtime_ns
    except OSError:
        raise ConfigError(f"There is no key in {path}. {_MAKE_KEY} {path}") from None
    return _read_key(os.fspath(path), modified)


@functools.lru_cache(maxsize=4)
def _read_key(path: str, _modified: int) -> PatientKey:
    if os.stat(path).st_mode & 0o077:
        raise ConfigError(f"The key in {path} can be read by other users. Restrict it: chmod 600 {path}")
    try:
        with open(path, "rb") as file:
            secret = bytes.fromhex(file.read(4 * KEY_BYTES).decode("ascii").strip())
    except (OSError, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ConfigError(f"{path} contains no key. Expected {2 * KEY_BYTES} hex digits. {_MAKE_KEY} FILE")
    return PatientKey(secret)
