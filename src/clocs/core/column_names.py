"""Names of the columns that a store has, and checks of the names that a table adds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from clocs.core.errors import ConfigError

KNOWN_COLUMNS: Final = (
    *("record_id", "patient_id", "site", "age", "sex", "labels", "episodes", "sampling_rate", "num_samples", "leads"),
    *("unit", "gain", "baseline", "missing", "signal_hash", "lead_hashes", "source", "source_sha256", "format"),
    *("num_declared_samples", "notes", "extra", "acquired", "values"),
)
"""Columns of a shard."""
_OTHER_TAKEN: Final = ("patient_code", "file", "seconds", "part")
"""Names that tables and lists of recordings use beside the columns of a shard."""
_MEANT: Final = {
    "patient": "patient_id",
    "patientnumber": "patient_id",
    "patientno": "patient_id",
    "subject": "patient_id",
    "subjectid": "patient_id",
    "gender": "sex",
    "label": "labels",
    "filename": "file",
}
"""Names that stand for a known column. Kept under these names, the values would not be used."""
MAX_NAME_LENGTH: Final = 100


def check_column_names(names: Iterable[str]) -> None:
    """Check the names of extra columns.

    Args:
        names: Names of columns beside the known ones.

    Raises:
        ConfigError: A name is empty, too long, or stands for a known column.
    """
    known = {_plain(name): name for name in (*KNOWN_COLUMNS, *_OTHER_TAKEN)} | _MEANT
    for name in names:
        if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise ConfigError(f"Expected a column name of 1 to {MAX_NAME_LENGTH} printable characters, got {name!r}.")
        if meant := known.get(_plain(name)):
            raise ConfigError(
                f"Column '{name}' cannot be kept, because the name stands for the column '{meant}' of a store. Write "
                f"'{meant}' if that is meant and your table may have it, or choose another name."
            )


def _plain(name: str) -> str:
    """Return a name in lower case, without blanks and signs."""
    return re.sub(r"[\W_]+", "", name.lower())
