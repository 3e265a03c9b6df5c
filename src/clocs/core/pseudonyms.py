"""Keyed hashes in place of patients' numbers and file names: stable for who has the key, unguessable for others."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import re
import secrets
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clocs.core import files
from clocs.core.errors import ConfigError

KEY_BYTES: Final = 32
NUM_HEX_DIGITS: Final = 20
"""Of a pseudonym: 80 bits, so that ten million patients meet by chance once in 24 billion archives."""
PSEUDONYM: Final = re.compile(rf"[kpr][0-9a-f]{{{NUM_HEX_DIGITS}}}")
"""Of a key, a patient or a record."""
_MAKE = "make one: clocs data make-key"
_NOBODY = re.compile(r"anon(ymous|ymi[sz]ed)?|none|null|nan|n/?a|unknown|missing|removed|deleted|[-?.]+", re.IGNORECASE)
"""Not ``0`` or ``1``: in tables those are somebody."""


@dataclass(frozen=True)
class PatientKey:
    """A secret of the user's. Without it nobody can go from a number to its pseudonym, or back by trying numbers."""

    secret: bytes = field(repr=False)

    def patient(self, patient_id: str) -> str:
        """``p`` and 20 hex signs; the same for a number however it is padded with blanks or cased."""
        return "p" + self._digest("patient", normalize_patient_id(patient_id).upper())[:NUM_HEX_DIGITS]

    def record(self, name: str) -> str:
        """``r`` and 20 hex signs, for a file's name or a record id: names of files often hold a patient's number."""
        return "r" + self._digest("record", name)[:NUM_HEX_DIGITS]

    def file(self, sha256: str) -> str:
        """In place of a file's hash, by which whoever has the file would find it again; 64 hex signs."""
        return self._digest("file", sha256) if sha256 else ""

    def content(self, sha256: str) -> str:
        """In place of a hash of names or of a table, which could be found by trying; 64 hex signs."""
        return self._digest("content", sha256)

    @property
    def fingerprint(self) -> str:
        """``k`` and 20 hex signs: tells keys apart and gives nothing away; a store keeps it."""
        return "k" + self._digest("fingerprint", "")[:NUM_HEX_DIGITS]

    def _digest(self, label: str, text: str) -> str:
        message = f"clocs/{label}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def normalize_patient_id(patient_id: str) -> str:
    """A patient's id in one way of writing letters, without blanks around it and signs that nobody sees."""
    seen = (sign for sign in unicodedata.normalize("NFKC", patient_id) if unicodedata.category(sign) != "Cf")
    return "".join(seen).strip()


def is_unknown_patient(patient_id: str) -> bool:
    """Whether it is what people write for a patient whom they do not know: all of those are not one."""
    return _NOBODY.fullmatch(patient_id) is not None


def make_key(file: str | os.PathLike[str]) -> PatientKey:
    """A new key in a new file that only its owner may read; a file that is there is never touched."""
    path = Path(file)
    secret = secrets.token_bytes(KEY_BYTES)
    try:
        files.make_folders(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists; a key is never overwritten. Choose another name") from None
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error.strerror}") from error
    with os.fdopen(handle, "w") as made:
        made.write(secret.hex() + "\n")
        made.flush()
        os.fsync(made.fileno())
    files.disk.sync_folder(path.parent)
    return PatientKey(secret)


def read_key(path: str | os.PathLike[str]) -> PatientKey:
    """The key in a file; refused if others may read it."""
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        raise ConfigError(f"no key in {path}; {_MAKE} {path}") from None
    return _read_key(os.fspath(path), changed)


@functools.lru_cache(maxsize=4)
def _read_key(path: str, _changed: int) -> PatientKey:
    if os.stat(path).st_mode & 0o077:
        raise ConfigError(f"the key in {path} can be read by others; make it yours alone: chmod 600 {path}")
    try:
        with open(path, "rb") as file:
            secret = bytes.fromhex(file.read(4 * KEY_BYTES).decode("ascii").strip())
    except (OSError, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ConfigError(f"{path} holds no key: it must be {2 * KEY_BYTES} hex signs; {_MAKE} FILE")
    return PatientKey(secret)
