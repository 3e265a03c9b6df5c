"""SPH: float16 files in a tar that is called tar.gz, and codes with modifiers."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.sph import SPH
from clocs.store.ingest import ingest
from tests.datasets.made_up_ecg import millivolts

h5py = pytest.importorskip("h5py")

TABLE = """\
ECG_ID,AHA_Code,Patient_ID,Age,Sex,N,Date
A00001,22;23,S00001,55,M,5000,2020-03-04
A00002,1;1,S00002,32,F,5000,2019-09-03
A00003,60+310;147,S00001,56,M,6000,2020-07-16
A00004,1,S00003,60,F,5001,
A00005,1,S00004,60,F,5000,2020-07-16
"""
SECONDS = {"A00001": 10.0, "A00002": 10.0, "A00003": 12.0, "A00004": 10.0}
"""Length of the files. A00004 is listed with another one, and A00005 has no file."""


def _file(record_id: str) -> bytes:
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        file["ecg"] = millivolts(int(record_id[1:]), 500.0, SECONDS[record_id]).astype(np.float16)
    return data.getvalue()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The published form. The archive is not compressed."""
    (tmp_path / "metadata.csv").write_text(TABLE)
    with tarfile.open(tmp_path / "records.tar.gz", "w:") as archive:
        for record_id in SECONDS:
            data = _file(record_id)
            member = tarfile.TarInfo(f"records/{record_id}.h5")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return tmp_path


def entries(path: Path) -> list[Entry]:
    return list(SPH.entries(open_source(path), SPH.parse_options({})))


def unpack(tree: Path) -> None:
    with tarfile.open(tree / "records.tar.gz", "r:") as archive:
        archive.extractall(tree, filter="data")
    (tree / "records.tar.gz").unlink()


def test_statements_become_primary_codes_and_modified_statements(tree: Path) -> None:
    found = entries(tree)
    assert [entry.labels for entry in found] == [("22", "23"), ("1",), ("60", "147", "60+310"), ("1",)]
    assert [entry.patient_id for entry in found] == ["S00001", "S00002", "S00001", "S00003"]
    assert (found[0].age, found[0].sex) == (55.0, "male")
    assert [entry.extra.get("recording_order") for entry in found] == ["2", "1", "3", None]
    assert not any("2020" in text for entry in found for text in entry.extra.values())


@pytest.mark.parametrize("unpacked", [False, True])
def test_signals_are_read_from_the_archive_and_from_the_folder(tree: Path, unpacked: bool) -> None:
    if unpacked:
        unpack(tree)
    source, found = open_source(tree), entries(tree)
    recording = SPH.load(source, found[2], SPH.parse_options({}))
    expected = millivolts(3, 500.0, 12.0)
    assert (recording.num_samples, recording.sampling_rate, recording.unit) == (6000, 500.0, "mV")
    np.testing.assert_allclose(recording.signal, expected, rtol=1e-3, atol=1e-3)
    assert recording.provenance.source == ("" if unpacked else "records.tar.gz/") + "records/A00003.h5"
    assert set(recording.extra) == {"recording_order"}


def test_a_store_refuses_a_file_of_another_length_than_listed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = ingest(SPH, tree, tmp_path_factory.mktemp("store") / "store")
    assert [recording.record_id for recording in store] == ["A00001", "A00002", "A00003"]
    assert store.manifest.quarantined == {"length": 1}


def test_a_compressed_archive_must_be_unpacked(tree: Path) -> None:
    data = (tree / "records.tar.gz").read_bytes()
    (tree / "records.tar.gz").write_bytes(gzip.compress(data))
    with pytest.raises(FormatError, match=r"records\.tar\.gz: not an uncompressed tar.*Unpack it to records/"):
        entries(tree)


def test_an_archive_that_breaks_off_raises_an_error(tree: Path) -> None:
    found = entries(tree)
    data = (tree / "records.tar.gz").read_bytes()
    position = data.index(b"records/A00003.h5")
    (tree / "records.tar.gz").write_bytes(data[: position + 2000])
    with pytest.raises(FormatError, match=r"breaks off|not an uncompressed tar"):
        SPH.load(open_source(tree), found[2], SPH.parse_options({}))


def test_there_are_44_primary_statements() -> None:
    assert len(SPH.classes) == len(SPH.tasks["statements"].classes) == 44
    assert all(0 < int(code) < 200 for code in SPH.classes)  # modifiers begin at 300
