"""The command ``clocs convert``."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pydicom
import pytest
from typer.testing import CliRunner

import clocs
from clocs.cli.main import app
from clocs.core.recording import missing_value
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.store import Store
from tests.cli.conftest import Command
from tests.conftest import ROOT, make_recording


@pytest.fixture
def convert(command: Command) -> Command:
    """Standard output and standard error of ``clocs convert``."""
    return lambda *arguments, code=0: command("convert", *arguments, code=code)


def test_a_file_a_folder_and_what_is_refused(originals: Path, convert: Command, tmp_path: Path) -> None:
    record = originals / "cpsc2018" / "Training_WFDB" / "A0001.hea"
    out, _ = convert(record, tmp_path / "a.dcm")
    assert "converted to dicom" in out
    dataset = pydicom.dcmread(tmp_path / "a.dcm")
    assert (dataset.PatientAge, dataset.PatientSex, dataset.PatientName) == ("074Y", "M", "")
    expected = clocs.read(record).signal
    np.testing.assert_allclose(dataset.waveform_array(0).T / 1000, expected, rtol=1e-6, atol=1e-9)
    _, said = convert(record, tmp_path / "a.dcm", code=1)
    assert "exists; have it replaced (--overwrite)" in said.replace("\n", " ")
    out, said = convert(originals / "chapman", tmp_path / "edf", "--to", "edf")
    assert len(list((tmp_path / "edf").rglob("*.edf"))) == 13
    assert said.count("refused ECGDataDenoised/MUSE_") == 3
    assert "7 samples are missing" in said
    assert "not an ECG: Diagnostics.xlsx" in out


def test_a_store_as_json_with_all_options(convert: Command, tmp_path: Path) -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(size=(2, 2, 5000)), axis=2) / 100
    walk[1, 0, 7] = np.nan
    table = {"record_id": ["r0", "r1"], "patient_id": ["Smith", "Jones"]}
    Store.from_arrays(tmp_path / "store", list(walk), sampling_rate=500, leads=["I", "II"], table=table, gate=GATE_OFF)
    options = ("--to", "bdf", "--derived-leads", "--patient-ids", "--fill-missing", "--workers", "1", "--json")
    summary = json.loads(convert(tmp_path / "store", tmp_path / "out", *options)[0])
    assert (summary["format"], summary["written"], summary["kept"], summary["refused"]) == ("bdf", 2, 0, {})
    assert summary["notes"] == {"missing samples are written as 0, because the format cannot mark them": 1}
    assert summary["size"] == sum(file.stat().st_size for file in (tmp_path / "out").iterdir())
    assert (tmp_path / "out" / "r0.bdf").read_bytes()[8:88].decode().split() == ["Smith", "X", "X", "X"]
    assert clocs.read(tmp_path / "out" / "r1.bdf", derive_leads=False).leads == ("I", "II", "III", "aVR", "aVL", "aVF")
    again = json.loads(convert(tmp_path / "store", tmp_path / "out", *options)[0])
    assert (again["written"], again["kept"]) == (0, 2)


def test_nothing_written_is_a_failure(convert: Command, tmp_path: Path) -> None:
    gappy = make_recording()
    gappy.digital[:] = missing_value(np.int16)
    clocs.write(gappy, tmp_path / "in" / "r.hea")
    out, _ = convert(tmp_path / "in", tmp_path / "out", "--to", "edf", "--json", code=1)
    assert list(json.loads(out)["refused"]) == ["r.hea"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.hea", "a.edf"), "no such file"),
        (("{in}", "out"), "Pass the format: wfdb, dicom, edf"),
        (("{in}/r.hea", "r.doc"), "no format has this extension"),
        (("{in}/r.hea", "r.doc", "--to", "ecg"), "Unknown writer 'ecg'"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    arguments: tuple[str, ...], message: str, convert: Command, tmp_path: Path
) -> None:
    clocs.write(make_recording(num_samples=10), tmp_path / "in" / "r.hea")
    folder = tmp_path / "in"
    given = [str(word).format(**{"in": folder}) if "{" in word else word for word in arguments]
    given[1] = str(tmp_path / given[1])
    _, said = convert(*given, code=1)
    assert message in said.replace("\n", " ")


@pytest.fixture
def files(originals: Path, tmp_path: Path) -> Path:
    """Return the files that the docs page uses: a record, an archive as folder and as zip, and a store."""
    with zipfile.ZipFile(originals) as packed, zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for name in packed.namelist():
            if Path(name).stem == "00001_hr":
                (tmp_path / Path(name).name).write_bytes(packed.read(name))
            if Path(name).stem in ("A0001", "A0002"):
                (tmp_path / "archive" / "ward").mkdir(parents=True, exist_ok=True)
                (tmp_path / "archive" / "ward" / Path(name).name).write_bytes(packed.read(name))
                archive.writestr(f"ward/{Path(name).name}", packed.read(name))
    ingest("synthetic", None, tmp_path / "store", options={"num_records": "3"})
    return tmp_path


def test_the_commands_and_the_python_of_the_docs_run(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "converting.md").read_text()
    monkeypatch.chdir(files)
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert len(lines) == 7
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}{done.exception}"
    made = {path.relative_to(files).as_posix() for path in files.rglob("*")}
    assert {"ecg.dcm", "ecg.edf", "ecg.csv", "edf-files/ward/A0001.edf", "wfdb-files/ward/A0002.hea"} <= made
    assert len(list((files / "dicom-files").rglob("*.dcm"))) == 3
    for script in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(script, {})
    assert "more-files" in {path.name for path in files.iterdir()}
    (sample,) = re.findall(r"```text\n(.*?)```", page, re.S)
    (files / "sample.csv").write_text(sample)
    assert clocs.read("sample.csv", derive_leads=False).signal.shape == (2, 2)
