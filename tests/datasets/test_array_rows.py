"""Rows of HDF5 and NPY files become recordings, without reading the rest of the file."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import FormatError, MissingExtraError
from clocs.core.sources.folder_source import FolderSource
from clocs.core.sources.source import open_source
from clocs.datasets import array_rows
from clocs.datasets.array_rows import (
    BLOCK_BYTES,
    count_hdf5_rows,
    open_npy,
    read_hdf5_column,
    read_hdf5_file,
    read_hdf5_row,
    recording_from_array,
    strip_zero_padding,
)

h5py = pytest.importorskip("h5py")
ROWS = np.arange(7 * 5 * 3, dtype=np.float32).reshape(7, 5, 3)


def write(folder: Path, **datasets: Any) -> FolderSource:
    with h5py.File(folder / "a.hdf5", "w") as file:
        for dataset, values in datasets.items():
            file[dataset] = values
    return FolderSource(folder)


@pytest.mark.parametrize("options", [{}, {"chunks": (4, 2, 1), "compression": "gzip"}])
@pytest.mark.parametrize("block_rows", [1, 3, 100])
def test_each_row_is_that_of_the_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], block_rows: int
) -> None:
    monkeypatch.setattr(array_rows, "BLOCK_BYTES", block_rows * ROWS[0].nbytes)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("tracings", data=ROWS, **options)
    source = FolderSource(tmp_path)
    assert count_hdf5_rows(source, "a.hdf5", "tracings") == 7
    for row in (0, 6, 2, 3, 5, 1, 4, 4):
        np.testing.assert_array_equal(read_hdf5_row(source, "a.hdf5", "tracings", row), ROWS[row])


def test_a_row_of_a_large_file_needs_the_memory_of_a_block(tmp_path: Path) -> None:
    """A part of CODE-15 % holds 3.9 GB; chunks that were never written take no space here."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        tracings = file.create_dataset("tracings", (20_001, 4096, 12), "f4", chunks=(64, 4096, 12))
        tracings[20_000] = 1
    source = FolderSource(tmp_path)
    tracemalloc.start()
    values = read_hdf5_row(source, "a.hdf5", "tracings", 20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (values == 1).all()
    assert values.base is None  # a view would keep the block
    assert peak < 2 * BLOCK_BYTES


def test_a_column_of_ids_is_read_whole(tmp_path: Path) -> None:
    source = write(tmp_path, exam_id=np.array([5, 3, 0]), tracings=ROWS)
    assert read_hdf5_column(source, "a.hdf5", "exam_id").tolist() == [5, 3, 0]
    with pytest.raises(FormatError, match=r"expected dataset 'tracings' of shape \(rows,\), got \(7, 5, 3\)"):
        read_hdf5_column(source, "a.hdf5", "tracings")


def test_a_missing_row_or_dataset_raises_an_error(tmp_path: Path) -> None:
    source = write(tmp_path, tracings=ROWS, **{"group/other": ROWS, "number": 5})
    with pytest.raises(FormatError, match="has no row 7, only 7 rows"):
        read_hdf5_row(source, "a.hdf5", "tracings", 7)
    for dataset in ("signals", "group", "number"):
        with pytest.raises(FormatError, match=f"has no array '{dataset}', only group, number, tracings"):
            read_hdf5_row(source, "a.hdf5", dataset, 0)
    with pytest.raises(FormatError, match=r"b\.hdf5: no such file"):
        read_hdf5_row(source, "b.hdf5", "tracings", 0)


@pytest.mark.parametrize("data", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_a_damaged_file_raises_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.hdf5").write_bytes(data)
    with pytest.raises(FormatError, match=r"a\.hdf5: not a readable HDF5 file"):
        count_hdf5_rows(FolderSource(tmp_path), "a.hdf5", "tracings")
    with pytest.raises(FormatError, match=r"a\.hdf5: not a readable HDF5 file"):
        read_hdf5_file(data, "a.hdf5", "ecg")


def test_a_truncated_file_raises_an_error(tmp_path: Path) -> None:
    source = write(tmp_path, tracings=np.ones((100, 50, 12)))
    data = (tmp_path / "a.hdf5").read_bytes()
    (tmp_path / "a.hdf5").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match=r"a\.hdf5: not a readable HDF5 file"):
        read_hdf5_row(source, "a.hdf5", "tracings", 0)


def test_a_file_in_an_archive_must_be_unpacked(tmp_path: Path) -> None:
    write(tmp_path, tracings=ROWS)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.hdf5", "a.hdf5")
    for source, name in ((FolderSource(tmp_path), "a.zip/a.hdf5"), (open_source(tmp_path / "a.zip"), "a.hdf5")):
        with pytest.raises(FormatError, match=r"Unpack the archive\."):
            read_hdf5_row(source, name, "tracings", 0)


def test_without_h5py_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path, tracings=ROWS)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clocs\[hdf5\]'"):
        count_hdf5_rows(source, "a.hdf5", "tracings")


def test_a_small_file_is_read_from_its_bytes(tmp_path: Path) -> None:
    write(tmp_path, ecg=ROWS[0].astype(np.float16))
    values = read_hdf5_file((tmp_path / "a.hdf5").read_bytes(), "a.hdf5", "ecg")
    assert values.dtype == np.float16
    np.testing.assert_array_equal(values, ROWS[0])


def test_npy_rows_are_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    found = open_npy(FolderSource(tmp_path), "a.npy")
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found[4], ROWS[4])


def test_npy_with_pickled_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(ROWS))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "cut.npy", ROWS)
    data = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(data[:-100])
    for name in ("objects.npy", "plain.npy", "text.npy", "cut.npy"):
        with pytest.raises(FormatError, match=name):
            open_npy(FolderSource(tmp_path), name)


def test_values_become_microvolts_and_missing_samples() -> None:
    values = np.array([[0.001, -1.5, np.nan], [0.0, np.inf, 2.0]], np.float32)
    recording = recording_from_array(values, "a.hdf5", ("I", "II"), 400.0, row=3)
    assert recording.digital.tolist() == [[1, -1500, -32768], [0, -32768, 2000]]
    assert (recording.unit, recording.sampling_rate, recording.leads) == ("mV", 400.0, ("I", "II"))
    assert (recording.provenance.source, recording.provenance.format) == ("a.hdf5:3", "hdf5")
    other = recording_from_array(values + 1, "a.npy", ("I", "II"), 400.0, unit="adu")
    assert (other.unit, other.provenance.source, other.provenance.format) == ("adu", "a.npy", "npy")
    assert len({recording.provenance.sha256, other.provenance.sha256}) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 5)), r"expected values of shape \(2 leads, samples\), got \(3, 5\)"),
        (np.zeros((2, 0)), "row 1 holds no sample"),
        (np.zeros((2, 5), complex), "expected numbers"),
        (np.full((2, 5), 1e9), "do not fit 32 bits"),
    ],
)
def test_values_that_are_no_recording_raise_an_error(values: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        recording_from_array(values, "a.hdf5", ("I", "II"), 400.0, row=1)


def test_only_zeros_at_both_ends_are_padding() -> None:
    values = np.array([[0, 0], [0, 1], [0, 0], [2, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(strip_zero_padding(values), values[1:4])
    assert strip_zero_padding(np.zeros((4, 2))).shape == (0, 2)
