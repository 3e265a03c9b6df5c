"""Rows of arrays: recordings in HDF5 and NPY files, which hold many recordings and state no leads, rate or unit.

A dataset lists each recording as an :class:`~clocs.datasets.dataset.Entry` with the name of the file and the row. Its
``load`` reads the row and calls :func:`recording_from_array` with the leads, sampling rate and unit.
"""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError, MissingExtraError
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording, Unit, quantize
from clocs.core.sources.source import Source, local_path
from clocs.datasets.dataset import Entry, Options, apply_entry

if TYPE_CHECKING:
    import h5py

Values = npt.NDArray[Any]

BLOCK_BYTES: Final = 64 << 20
"""Bytes of adjacent rows that are read at once. Compressed chunks span many rows, and each is unpacked only once."""
STEPS_PER_UNIT: Final = MICROVOLT_GAIN
"""Integer steps per unit of the values: 1 uV for values in mV."""


def read_hdf5_column(source: Source, name: str, dataset: str) -> Values:
    """Read a whole HDF5 dataset of one dimension, such as the ids of the rows.

    Args:
        source: Source that holds the file.
        name: Name of the file within the source. It must not be in an archive.
        dataset: Name of the dataset within the file.

    Returns:
        Values of shape (N,).

    Raises:
        FormatError: The file is damaged or lacks the dataset, or the dataset has more dimensions.
        MissingExtraError: h5py is not installed.
    """
    with _reading(name), _h5py().File(local_path(source, name), "r", locking=False) as file:
        values = _dataset(file, name, dataset)
        if values.ndim != 1:
            raise FormatError(f"{name}: expected dataset '{dataset}' of shape (rows,), got {values.shape}")
        return np.asarray(values[:])


def count_hdf5_rows(source: Source, name: str, dataset: str) -> int:
    """Return the number of rows of an HDF5 dataset; see :func:`read_hdf5_column` for the arguments."""
    with _reading(name), _h5py().File(local_path(source, name), "r", locking=False) as file:
        return int(_dataset(file, name, dataset).shape[0])


def read_hdf5_row(source: Source, name: str, dataset: str, row: int) -> Values:
    """Read one row of an HDF5 dataset of shape (records, ...). Rows are read in blocks of at most 64 MiB.

    Args:
        source: Source that holds the file.
        name: Name of the file within the source. It must not be in an archive.
        dataset: Name of the dataset within the file.
        row: Position of the row, from 0. Reading rows in order is fastest.

    Returns:
        Values of the row, without its first dimension.

    Raises:
        FormatError: The file is damaged, or lacks the dataset or the row.
        MissingExtraError: h5py is not installed.
    """
    path = local_path(source, name)
    with _reading(name):
        return _open_hdf5(path, path.stat().st_mtime_ns, name, dataset).read(row)


def read_hdf5_file(data: bytes, name: str, dataset: str) -> Values:
    """Read a whole HDF5 dataset from the bytes of a small file of one recording.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.
        dataset: Name of the dataset within the file.

    Returns:
        Values of the dataset.

    Raises:
        FormatError: The file is damaged or lacks the dataset.
        MissingExtraError: h5py is not installed.
    """
    with _reading(name), _h5py().File(io.BytesIO(data), "r") as file:
        return np.asarray(_dataset(file, name, dataset)[()])


def open_npy(source: Source, name: str) -> Values:
    """Open an NPY file as a memory-mapped array. Pickled objects are refused.

    Args:
        source: Source that holds the file.
        name: Name of the file within the source. It must not be in an archive.

    Returns:
        The array, of which only the rows that are used are read.

    Raises:
        FormatError: The file is damaged or holds no numbers.
    """
    path = local_path(source, name)
    return _open_npy(path, path.stat().st_mtime_ns, name)


def strip_zero_padding(values: Values) -> Values:
    """Return samples (samples, leads) without the samples at both ends at which all leads are zero."""
    used = np.flatnonzero((values != 0).any(axis=1))
    return values[used[0] : used[-1] + 1] if len(used) else values[:0]


def load_tracing(
    source: Source, entry: Entry, options: Options, *, leads: tuple[str, ...], sampling_rate: float
) -> Recording:
    """Read the row of an entry from the HDF5 dataset ``tracings``, in mV, without its zero padding."""
    assert entry.row is not None
    values = strip_zero_padding(read_hdf5_row(source, entry.file, "tracings", entry.row))
    return apply_entry(recording_from_array(values.T, entry.file, leads, sampling_rate, row=entry.row), entry)


def recording_from_array(
    values: Values,
    name: str,
    leads: tuple[str, ...],
    sampling_rate: float,
    *,
    unit: Unit = "mV",
    row: int | None = None,
    num_declared_samples: int | None = None,
) -> Recording:
    """Build a recording from physical values.

    Args:
        values: Values in ``unit`` of shape (leads, samples). NaN and infinity are missing samples.
        name: Name of the file.
        leads: Names of the leads in the order of the rows.
        sampling_rate: Sampling rate in Hz.
        unit: ``mV``, or ``adu`` if the publisher removed the scale.
        row: Position of the recording in its file; None for a file of one recording.
        num_declared_samples: Number of samples that a table declares.

    Returns:
        The recording, rounded to 0.001 units. Its ``sha256`` is that of the values, not of the whole file.

    Raises:
        FormatError: The shape differs from the leads, there is no sample, or values do not fit 32 bits.
    """
    if values.ndim != 2 or len(values) != len(leads):
        raise FormatError(f"{name}: expected values of shape ({len(leads)} leads, samples), got {values.shape}")
    if not values.shape[1]:
        raise FormatError(f"{name}: row {row} holds no sample" if row is not None else f"{name}: holds no sample")
    if values.dtype.kind not in "iuf":
        raise FormatError(f"{name}: expected numbers, got values of type {values.dtype}")
    try:
        digital = quantize(values, STEPS_PER_UNIT)
    except ValueError as error:
        raise FormatError(f"{name}: {error}") from error
    return Recording(
        digital=digital,
        gain=np.full(len(leads), STEPS_PER_UNIT),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        unit=unit,
        provenance=Provenance(
            name if row is None else f"{name}:{row}",
            "npy" if name.endswith(".npy") else "hdf5",
            hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
            num_declared_samples=num_declared_samples,
        ),
    )


class _Hdf5Rows:
    """An open HDF5 dataset and the block of rows that was read last."""

    def __init__(self, values: h5py.Dataset, name: str) -> None:
        self._values = values
        self._name = name
        row_bytes = max(1, values.dtype.itemsize * int(np.prod(values.shape[1:])))
        self._num_rows = max(1, BLOCK_BYTES // row_bytes)
        self._block: tuple[int, Values] = (-1, np.empty(0))

    def read(self, row: int) -> Values:
        if not 0 <= row < self._values.shape[0]:
            raise FormatError(f"{self._name}: has no row {row}, only {self._values.shape[0]} rows")
        start = row - row % self._num_rows
        if self._block[0] != start:
            self._block = (start, np.asarray(self._values[start : start + self._num_rows]))
        return np.array(self._block[1][row - start])


@functools.lru_cache(maxsize=2)
def _open_hdf5(path: Path, _modified: int, name: str, dataset: str) -> _Hdf5Rows:
    return _Hdf5Rows(_dataset(_h5py().File(path, "r", locking=False), name, dataset), name)


@functools.lru_cache(maxsize=4)
def _open_npy(path: Path, _modified: int, name: str) -> Values:
    try:
        values = np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise FormatError(f"{name}: not a readable NPY file of numbers: {error}") from error
    if values.dtype.kind not in "iuf" or not values.ndim:
        raise FormatError(f"{name}: expected an array of numbers, got {values.dtype} of shape {values.shape}")
    return values


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("hdf5", "reading HDF5 files") from error
    return h5py


def _dataset(file: h5py.File, name: str, dataset: str) -> h5py.Dataset:
    values = file.get(dataset)
    if not hasattr(values, "dtype") or not values.shape:
        raise FormatError(f"{name}: has no array '{dataset}', only {', '.join(sorted(file)[:10]) or 'nothing'}")
    return values


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Raise a ``FormatError`` for damaged HDF5, which h5py reports as an ``OSError`` without an error code."""
    try:
        yield
    except (KeyError, RuntimeError, ValueError) as error:
        raise FormatError(f"{name}: not a readable HDF5 file: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise FormatError(f"{name}: not a readable HDF5 file: {error}") from error
