"""Stores of immutable, versioned recordings, with frames and splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.datasets.task import Task
from clocs.signals.quality import GatePolicy
from clocs.store.arrays import write_arrays
from clocs.store.frames import Frames
from clocs.store.reader import StoreLike, StoreReader
from clocs.store.splits import Split, load_split


class Store(StoreReader):
    """Recordings in a folder of Arrow files, indexed from 0.

    A version of a store never changes: an ingest adds a version. Bytes are compared with their checksums on first use,
    and damage raises ``IntegrityError``.

    Args:
        folder: Folder of the store.
        version: Version to open; by default the newest.
        check: False to skip checksums, for a read-only store without them. By default they are skipped if the
            environment variable ``CLOCS_SKIP_CHECKSUMS`` is 1.

    Example:
        >>> signals = np.random.default_rng(0).normal(size=(4, 1, 5000))
        >>> store = clocs.Store.from_arrays("store", signals, sampling_rate=500, leads=["II"])
        >>> len(store)
        4
        >>> store.recording(0).leads
        ('II',)
        >>> store.frames("evaluation").gather([0, 1]).shape
        (2, 1, 2500)
    """

    def frames(self, frame_policy: str = "evaluation", **options: Any) -> Frames:
        """Return the frames of the store under a frame policy of its dataset.

        Args:
            frame_policy: ``evaluation`` or ``segments``.
            **options: ``records`` (a mask of recordings) and ``all_leads`` (True for items of all leads).

        Returns:
            The frames, which are read when they are indexed.
        """
        return Frames(self, self.frame_policy(frame_policy), **options)

    def split(self, name: str = "default") -> Split:
        """Read a saved split and check it for leaks.

        Args:
            name: Name of the split.

        Returns:
            The split.

        Raises:
            StoreError: The split does not exist or is of another version.
            LeakError: The split leaks.
        """
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
        classes: Mapping[str, Sequence[str]] | None = None,
        tasks: Mapping[str, Task | Mapping[str, Any]] | None = None,
        append: bool = False,
    ) -> Store:
        """Make a store from arrays, or append arrays to a store.

        Without ``append``, a new version of an existing store has only these arrays.

        Args:
            folder: Folder of the store.
            signals: Arrays of shape (leads, samples) in millivolt, with NaN for missing samples.
            sampling_rate: Sampling rate in Hz.
            leads: Names of the leads.
            table: Data frame or mapping with one row per recording and any of the columns ``record_id``,
                ``patient_id``, ``site``, ``age``, ``sex``, ``labels``. Other columns are kept as extra columns.
            gate: Quality checks; by default those of the dataset ``folder``.
            classes: Labels of each class. They make a task ``classes``, in which recordings without any are negatives.
            tasks: Tasks by name, see :class:`clocs.datasets.Task`.
            append: True to keep the recordings of the newest version. Then the table needs ``record_id``, sampling rate
                and leads may differ, and classes and tasks stay unless others are passed. Arrays that are in the store
                already are not appended again.

        Returns:
            The store.

        Raises:
            ConfigError: The arrays or the table have other shapes, a name stands for a known column, or a record id is
                in the store already.
        """
        written = write_arrays(
            folder, signals, sampling_rate, leads, table, gate, classes=classes, tasks=tasks, append=append
        )
        return cls(written.folder, written.manifest.version)


def open_store(folder: StoreLike, version: int | None = None, *, check: bool | None = None) -> Store:
    """Open a store.

    Args:
        folder: Folder of the store. An open store is returned unchanged.
        version: Version to open; by default the newest.
        check: False to skip checksums, see :class:`Store`.

    Returns:
        The store.

    Raises:
        StoreError: The folder is not a store, or lacks the version.
        IntegrityError: The manifest is damaged.

    Example:
        >>> made = clocs.ingest("synthetic", None, "store", options={"num_records": 3})
        >>> clocs.open_store("store")
        <Store store version 1: 3 recordings of synthetic>
    """
    return folder if isinstance(folder, Store) and version is None else Store(folder, version, check=check)
