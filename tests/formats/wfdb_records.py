"""Small WFDB records for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.wfdb.record import WFDB


def make(
    folder: Path, header: str, digital: npt.ArrayLike = ((1, 2, 3, 4),), kind: str = "<i2", file: str = "r.dat"
) -> Recording:
    """Write a record (samples frame by frame) and read it."""
    np.asarray(digital).T.astype(kind).tofile(folder / file)
    (folder / "r.hea").write_text(header, encoding="latin-1")
    return read_from(open_source(folder), "r.hea")


def assert_rejected(folder: Path, header: str, message: str, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    (folder / "r.hea").write_text(header)
    with pytest.raises(FormatError, match=message):
        WFDB.read(open_source(folder), "r.hea")
