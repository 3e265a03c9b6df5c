"""A store: immutable, versioned recordings, with their frames and splits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.signals.quality import GatePolicy
from clocs.store.arrays import write_arrays
from clocs.store.frames import Frames
from clocs.store.reader import StoreLike, StoreReader
from clocs.store.splits import Split, load_split


class Store(StoreReader):
    """Recordings numbered from 0, in shards.

    Bytes are compared with the shards' checksums the first time they are used; damage raises ``IntegrityError``.

    Args:
        folder: Folder of the store.
        version: Version to open; the newest by default.
        check: False skips the checksums, for a store that has none and cannot be written to. By default the
            environment decides: ``CLOCS_SKIP_CHECKSUMS=1`` skips them.
    """

    def frames(self, purpose: str = "evaluation", **options: Any) -> Frames:
        """Frames by the policy this dataset has for a purpose."""
        return Frames(self, self.frame_policy(purpose), **options)

    def split(self, name: str = "default") -> Split:
        """A saved split, refused if it leaks."""
        return load_split(self, name)

    @classmethod
    def from_arrays(
        cls,
        folder: str | os.PathLike[str],
        signals: Sequence[npt.NDArray[np.floating]] | npt.NDArray[np.floating],
        *,
        sampling_rate: float,
        leads: Sequence[str],
        table: Any = None,
        gate: GatePolicy | None = None,
    ) -> Store:
        """Make a store from arrays (leads, samples) in millivolt, NaN where a sample is missing.

        ``table``: a data frame or mapping with a row per recording and any of the columns ``record_id``,
        ``patient_id``, ``site``, ``age``, ``sex``, ``labels``. The gate judges arrays as it judges files.
        """
        written = write_arrays(folder, signals, sampling_rate, leads, table, gate)
        return cls(written.folder, written.manifest.version)


def open_store(folder: StoreLike, version: int | None = None, *, check: bool | None = None) -> Store:
    """Open a store; arguments as for ``Store``. An open store is returned as it is."""
    return folder if isinstance(folder, Store) and version is None else Store(folder, version, check=check)
