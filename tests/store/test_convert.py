"""Conversion of files, folders, zips and stores, verified by reading the result."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clocs
from clocs.core.errors import ConfigError, FormatError, SignalError, StoreError
from clocs.core.recording import Recording, missing_value
from clocs.core.sources.source import Source
from clocs.formats import read_from
from clocs.formats.writing import WRITERS
from clocs.store.convert import convert
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.faults.failing_disk import Disk, use_disk

TEXT = "not an ECG\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Write three recordings in two formats, one with missing samples, a damaged file and a text."""
    folder = tmp_path / "archive"
    clocs.write(make_recording(seed=1, labels=("SR",)), folder / "a.hea")
    clocs.write(make_recording(seed=2), folder / "ward 7" / "b.dcm")
    gappy = make_recording(seed=3)
    gappy.digital[0, 5:9] = missing_value(np.int16)
    clocs.write(gappy, folder / "ward 7" / "c.hea")
    (folder / "ward 7" / "d.dcm").write_bytes((folder / "ward 7" / "b.dcm").read_bytes()[:400])
    (folder / "README.txt").write_text(TEXT)
    return folder


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_file_becomes_a_file(archive: Path, tmp_path: Path) -> None:
    done = clocs.convert(archive / "a.hea", tmp_path / "a.dcm")
    assert (done.format, done.written, done.refused) == ("dicom", 1, {})
    assert done.size == (tmp_path / "a.dcm").stat().st_size
    one, other = clocs.read(archive / "a.hea"), clocs.read(tmp_path / "a.dcm")
    assert one.leads == other.leads
    np.testing.assert_array_equal(one.signal, other.signal)


@pytest.mark.parametrize("to", WRITERS.names())
def test_extra_columns_are_not_written(to: str, tmp_path: Path) -> None:
    signal = make_recording(("I", "II"), num_samples=5000).signal
    table = {"ward": ["Zorro"], "quux": ["seen"]}
    store = Store.from_arrays(tmp_path / "store", [signal], sampling_rate=500, leads=("I", "II"), table=table)
    assert store.recording(0).extra == {"ward": "Zorro", "quux": "seen"}
    convert(store, tmp_path / "out", to, patient_ids=True)
    written = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    assert not any(word in data for word in (b"Zorro", b"quux") for data in written)


def test_a_file_keeps_its_name_in_a_folder(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert(archive / "ward 7" / "b.dcm", tmp_path / "out", "edf")
    assert tree(tmp_path / "out") == ["b.edf"]


@pytest.mark.parametrize("name", ["cpsc2018/Training_WFDB/A0001.mat", "cpsc2018/Training_WFDB/A0001"])
def test_a_file_in_a_zip_is_converted_by_its_path(originals: Path, tmp_path: Path, name: str) -> None:
    convert(originals / name, tmp_path / "a.edf")
    assert clocs.read(tmp_path / "a.edf").num_samples == 7500


def test_a_folder_becomes_a_folder_and_rejections_have_reasons(archive: Path, tmp_path: Path) -> None:
    done = convert(archive, tmp_path / "out", "edf")
    assert tree(tmp_path / "out") == ["a.edf", "ward 7/b.edf"]
    assert (done.written, done.kept, done.ignored) == (2, 0, ["README.txt"])
    assert set(done.refused) == {"ward 7/c.hea", "ward 7/d.dcm"}
    assert "4 samples are missing" in done.refused["ward 7/c.hea"]
    assert "d.dcm" in done.refused["ward 7/d.dcm"]
    np.testing.assert_array_equal(
        clocs.read(tmp_path / "out" / "ward 7" / "b.edf").signal, clocs.read(archive / "ward 7" / "b.dcm").signal
    )
    filled = convert(archive, tmp_path / "out", "edf", fill_missing=True)
    assert (filled.written, filled.kept) == (1, 2)
    assert filled.notes.total() == 1


def test_a_zip_is_converted_like_its_folder(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as packed:
        for name in tree(archive):
            packed.write(archive / name, f"in/{name}")
    convert(archive, tmp_path / "one", "csv")
    done = convert(tmp_path / "set.zip", tmp_path / "two", "csv")
    assert done.written == 3
    assert convert(tmp_path / "set.zip" / "in" / "ward 7", tmp_path / "three", "csv").written == 2
    for name in tree(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / "in" / name).read_bytes()


def test_existing_files_are_kept_by_default(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(archive, out, "wfdb")
    (out / "a.hea").write_text("mine")
    again = convert(archive, out, "wfdb")
    assert (again.written, again.kept) == (0, 3)
    assert (out / "a.hea").read_text() == "mine"
    assert convert(archive, out, "wfdb", overwrite=True).written == 3
    assert clocs.read(out / "a.hea").labels == ("SR",)
    with pytest.raises(ConfigError, match=r"a\.dat exists"):
        convert(archive / "a.hea", out / "a.hea")


def test_a_different_signal_file_is_not_overwritten(archive: Path, tmp_path: Path) -> None:
    """After an interrupted conversion the signal file is equal, and the header is added."""
    convert(archive, tmp_path / "out", "wfdb")
    (tmp_path / "out" / "a.hea").unlink()
    assert convert(archive, tmp_path / "out", "wfdb").written == 1
    (tmp_path / "out" / "a.hea").unlink()
    (tmp_path / "out" / "a.dat").write_text("precious")
    again = convert(archive, tmp_path / "out", "wfdb")
    assert (again.written, again.kept) == (0, 2)
    assert "a.dat exists with other content" in again.refused["a.hea"]
    assert (tmp_path / "out" / "a.dat").read_text() == "precious"
    assert convert(archive, tmp_path / "out", "wfdb", overwrite=True).written == 3


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_a_defect_of_a_reader_affects_one_file(
    to: str, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(source: Source, name: str) -> Recording:
        if name == "a.hea":
            raise ValueError("operands of a patient named Smith")
        return read_from(source, name)

    monkeypatch.setattr("clocs.store.convert.read_from", broken)
    done = convert(archive, tmp_path / ("out.parquet" if to == "parquet" else "out"), to)
    assert done.written == 2
    assert done.refused["a.hea"] == "a.hea: unexpected ValueError. Please report it."


def test_two_files_with_the_same_stem_become_two_files(archive: Path, tmp_path: Path) -> None:
    """This holds if the second file is added after the first was converted."""
    convert(archive, tmp_path / "out", "csv")
    clocs.write(make_recording(seed=9), archive / "a.edf")
    assert (convert(archive, tmp_path / "out", "csv").written, convert(archive, tmp_path / "out", "csv").kept) == (2, 4)
    for ending in ("edf", "hea"):
        made, source = clocs.read(tmp_path / "out" / f"a.{ending}.csv"), clocs.read(archive / f"a.{ending}")
        np.testing.assert_allclose(made.signal, source.signal, atol=1e-3)


def test_a_sanitized_name_does_not_replace_another_file(tmp_path: Path) -> None:
    """WFDB allows no blanks: the later ``a b`` must not replace ``a_b``."""
    for seed, name in enumerate(("a_b", "a b")):
        clocs.write(make_recording(seed=seed), tmp_path / "in" / f"{name}.csv")
        convert(tmp_path / "in", tmp_path / "out", "wfdb")
    made = [clocs.read(path).signal for path in (tmp_path / "out").glob("*.hea")]
    for name in ("a_b", "a b"):
        source = clocs.read(tmp_path / "in" / f"{name}.csv").signal
        assert any(np.allclose(signal, source, atol=2e-3) for signal in made), name


def test_workers_write_the_same_files(archive: Path, tmp_path: Path) -> None:
    one, two = convert(archive, tmp_path / "one", "dicom"), convert(archive, tmp_path / "two", "dicom", workers=2)
    assert dataclasses.asdict(one) == dataclasses.asdict(two)
    for name in tree(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return three recordings of two patients, one with an id that points outside of a folder."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(3, 2, 5000)), axis=2) / 100
    about = {
        "record_id": ["r0", "ward/r1", "../r2"],
        "patient_id": ["Smith-42", "Smith-42", "Jones"],
        "age": [70, 71, 3],
    }
    return Store.from_arrays(tmp_path / "store", list(walk), sampling_rate=500, leads=["I", "II"], table=about)


def test_a_store_becomes_a_folder(store: Store, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None, int]] = []
    done = convert(store.folder, tmp_path / "out", "wfdb", progress=lambda *now: seen.append(now))
    assert done.written == len(store) == 3
    assert seen == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    assert [name for name in tree(tmp_path / "out") if name.endswith("hea")] == ["_/r2.hea", "r0.hea", "ward/r1.hea"]
    for name, record in (("r0", "r0"), ("ward/r1", "ward/r1"), ("_/r2", "../r2")):
        ours = clocs.read(tmp_path / "out" / f"{name}.hea", derive_leads=False)
        assert ours.leads == ("I", "II")
        np.testing.assert_array_equal(ours.signal, store.recording(record).select(("I", "II")).signal)
    assert not any(b"Smith" in path.read_bytes() for path in (tmp_path / "out").rglob("*.*"))


def test_a_store_becomes_one_parquet_file(store: Store, tmp_path: Path) -> None:
    done = convert(store.folder, tmp_path / "all.parquet")
    assert (done.written, done.size) == (3, (tmp_path / "all.parquet").stat().st_size)
    table = pd.read_parquet(tmp_path / "all.parquet")
    assert table["record_id"].tolist() == ["r0", "ward/r1", "../r2"]
    assert table["age"].tolist() == [70, 71, 3]
    assert table["patient_id"].isna().all()
    for signal, recording in zip(table["signal"], store, strict=True):
        np.testing.assert_array_equal(np.stack(signal), recording.select(("I", "II")).signal)
    with pytest.raises(ConfigError, match=r"exists\. Pass overwrite=True"):
        convert(store.folder, tmp_path / "all.parquet")
    convert(store.folder, tmp_path / "all.parquet", patient_ids=True, derived=True, overwrite=True)
    table = pd.read_parquet(tmp_path / "all.parquet")
    assert table["patient_id"].tolist() == ["Smith-42", "Smith-42", "Jones"]
    assert table["leads"][0].tolist() == ["I", "II", "III", "aVR", "aVL", "aVF"]
    assert table["derived"][0].tolist() == ["III", "aVR", "aVL", "aVF"]


def test_a_folder_becomes_one_parquet_file_in_row_groups(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clocs.formats.writers.parquet.GROUP_VALUES", 1)
    done = convert(archive, tmp_path / "all.parquet")
    assert (done.written, len(done.refused)) == (3, 1)
    table = pd.read_parquet(tmp_path / "all.parquet")
    assert table["record_id"].tolist() == ["a", "b", "c"]
    assert np.isnan(table["signal"][2][0][5:9]).all()


def test_a_conversion_without_recordings_writes_no_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.txt").write_text(TEXT)
    assert convert(tmp_path / "in", tmp_path / "all.parquet").written == 0
    assert convert(tmp_path / "in", tmp_path / "out", "edf").written == 0
    assert sorted(os.listdir(tmp_path)) == ["in"]


def test_patient_ids_are_written_only_on_request(archive: Path, tmp_path: Path) -> None:
    clocs.write(make_recording(patient_id="Smith-42"), archive / "p.dcm", patient_ids=True)
    convert(archive / "p.dcm", tmp_path / "p.csv")
    assert "Smith" not in (tmp_path / "p.csv").read_text()
    convert(archive / "p.dcm", tmp_path / "q.csv", patient_ids=True)
    assert '# patient: "Smith-42"' in (tmp_path / "q.csv").read_text()


def test_the_written_id_is_the_patient_id(hospital_files: Path, tmp_path: Path) -> None:
    """An aECG has the issuer's object identifier first. Placeholders are left out."""
    convert(hospital_files / "aecg" / "hl7_example_aecg.xml", tmp_path / "p.csv", patient_ids=True)
    assert '# patient: "SBJ-123"' in (tmp_path / "p.csv").read_text()
    convert(hospital_files / "dicom" / "ecgprocess_example-DICOM1.dcm", tmp_path / "q.csv", patient_ids=True)
    assert "# patient" not in (tmp_path / "q.csv").read_text()


def test_invalid_arguments_raise_errors(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Pass the format: wfdb, dicom, edf, bdf, csv, parquet"):
        convert(archive, tmp_path / "out")
    with pytest.raises(ConfigError, match="is inside"):
        convert(archive, archive / "out", "edf")
    with pytest.raises(ConfigError, match="must be Parquet, not edf"):
        convert(archive, tmp_path / "all.parquet", "edf")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file, but each recording"):
        convert(archive, tmp_path / "file", "edf")
    with pytest.raises(FormatError, match="no such file"):
        convert(tmp_path / "nowhere", tmp_path / "out", "edf")
    with pytest.raises(FormatError, match="not a format clocs knows"):
        convert(archive / "README.txt", tmp_path / "a.edf")
    with pytest.raises(SignalError, match="4 samples are missing"):
        convert(archive / "ward 7" / "c.hea", tmp_path / "c.edf")
    with pytest.raises(ConfigError, match="Pass the format"):
        convert(archive / "a.hea", tmp_path)


def test_a_full_disk_ends_a_conversion_and_another_call_continues(archive: Path, tmp_path: Path) -> None:
    """An error of the disk is not a rejection. Files written before are kept."""
    convert(archive, tmp_path / "whole", "wfdb")
    with use_disk(disk := Disk()):
        convert(archive, tmp_path / "counted", "wfdb")
    for call in range(1, disk.calls + 1, 7):
        out = tmp_path / "out"
        with use_disk(Disk(call, errno.ENOSPC)), pytest.raises(StoreError, match="No space left on device"):
            convert(archive, out, "wfdb")
        assert not list(out.rglob("*.partial"))
        assert convert(archive, out, "wfdb").written >= 1
        assert tree(out) == tree(tmp_path / "whole")
        assert all((out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes() for name in tree(out))
        shutil.rmtree(out)


def test_one_parquet_file_is_complete_or_absent(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "sub" / "all.parquet"
    out.parent.mkdir()
    with use_disk(disk := Disk()):
        convert(store.folder, out)
    out.unlink()
    for call in range(1, disk.calls + 1):
        with use_disk(Disk(call, errno.ENOSPC)), pytest.raises(StoreError, match="No space left on device") as caught:
            convert(store.folder, out)
        assert ("Nothing was committed" in str(caught.value)) is not out.exists()
        out.unlink(missing_ok=True)
        assert list(out.parent.iterdir()) == []
