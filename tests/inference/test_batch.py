"""Classification of folders and stores: complete tables, pseudonyms, and work that continues after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.core.sources.source import open_source
from clocs.core.storage import files
from clocs.inference import batch, batch_inputs
from clocs.inference.batch import classify_all
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.report import NOTICE, make_report
from clocs.training.encoder_folder import read_config
from tests.inference.conftest import LEADS, make_classifier, make_encoder


@pytest.fixture(scope="module")
def classifying(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    """An encoder with a classifier, run by torch."""
    folder = make_encoder(tmp_path_factory.mktemp("classifying") / "encoder")
    make_classifier(read_config(folder)["weights_sha256"]).save(folder / "classifiers" / "mine")
    return load_encoder(folder)


@pytest.fixture
def archive(originals: Path, tmp_path: Path) -> Path:
    """A folder with three recordings, one file that is damaged, and one without the classifier's leads."""
    folder, source = tmp_path / "ward", open_source(originals)
    copies = {f"day {n}/0000{n}_hr": f"ptbxl/records500/00000/0000{n}_hr" for n in (1, 2, 3)}
    copies |= {"A00001": "cinc2017/training2017/A00001"}
    for name, original in copies.items():
        for extension in (".hea", ".dat", ".mat"):
            if source.exists(original + extension):
                files.write_bytes(folder / f"{name}{extension}", source.read(original + extension))
    (folder / "=DOE-JANE.hea").write_text("not a header\n")
    return folder


def rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by recording."""
    read = pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table
    return {row["recording"]: row for row in read(path).to_pylist()}


@pytest.mark.parametrize("name", ["classes.csv", "classes.parquet"])
def test_every_file_has_a_row(classifying: PretrainedEncoder, archive: Path, tmp_path: Path, name: str) -> None:
    made = classify_all(archive, tmp_path / name, encoder=classifying)
    found = rows(made.path)
    assert made.recordings == len(found) == 5
    assert sorted(made.withheld) == ["=DOE-JANE.hea", "A00001.hea"]
    row = found["day 2/00002_hr.hea"]
    file = archive / "day 2" / "00002_hr.hea"
    expected = classifying.classify(file)
    for item in expected.classes:
        assert row[f"probability_{item.name}"] == pytest.approx(item.probability)
    measured = clocs.measure(clocs.read(file))
    assert row["heart_rate"] == pytest.approx(measured.heart_rate.value)
    assert row["qrs_duration"] == pytest.approx(measured.qrs_duration.value)
    assert (row["gate"], row["classifier"], row["leads"]) == ("passed", "mine", " ".join(LEADS))
    assert found["A00001.hea"]["gate"] == "withheld"
    assert "needs leads II, V2, aVL, aVR or lead II" in found["A00001.hea"]["reason"]
    assert found["A00001.hea"]["probability_SR"] is None
    damaged = found["'=DOE-JANE.hea" if name.endswith("csv") else "=DOE-JANE.hea"]
    assert damaged["gate"] == "unreadable"
    for one in found.values():
        assert one["notice"] == NOTICE
        assert one["clocs_version"] == clocs.__version__
        assert one["encoder_sha256"] == classifying.about["weights_sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "ward"])


def test_with_a_key_no_path_is_written(classifying: PretrainedEncoder, archive: Path, tmp_path: Path) -> None:
    key = clocs.make_key(tmp_path / "ward.key")
    made = classify_all(archive, tmp_path / "classes.csv", encoder=classifying, key=tmp_path / "ward.key")
    written = made.path.read_text()
    for word in ("DOE", "JANE", "00001_hr", "A00001", "day 2", str(tmp_path)):
        assert word not in written
    assert key.record("day 2/00002_hr.hea") in rows(made.path)
    assert key.record("=DOE-JANE.hea") in made.withheld


def test_a_store_has_the_rows_of_its_folder(classifying: PretrainedEncoder, archive: Path, tmp_path: Path) -> None:
    key = clocs.make_key(tmp_path / "ward.key")
    store = clocs.ingest("folder", archive, tmp_path / "store", options={"key": tmp_path / "ward.key"})
    by_key = rows(classify_all(archive, tmp_path / "folder.csv", encoder=classifying, key=tmp_path / "ward.key").path)
    found = rows(classify_all(store, tmp_path / "store.csv", encoder=classifying, key=tmp_path / "ward.key").path)
    assert len(found) == len(store) == 4
    name = key.record("day 2/00002_hr.hea")
    assert found[name]["probability_SR"] == pytest.approx(by_key[name]["probability_SR"])
    clocs.make_key(tmp_path / "other.key")
    with pytest.raises(ConfigError, match="another key"):
        classify_all(store, tmp_path / "store.csv", encoder=classifying, key=tmp_path / "other.key")
    plain = clocs.ingest("folder", archive, tmp_path / "plain")
    named = rows(classify_all(plain, tmp_path / "plain.csv", encoder=classifying, key=tmp_path / "ward.key").path)
    assert key.record("day 2/00002_hr") in named
    assert "day 2/00002_hr" in rows(classify_all(plain, tmp_path / "plain.csv", encoder=classifying).path)


@pytest.fixture
def single_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One recording a task."""
    monkeypatch.setattr(batch_inputs, "RECORDS_PER_CHUNK", 1)


@pytest.mark.usefixtures("single_recordings")
def test_finished_tasks_do_not_run_again(
    classifying: PretrainedEncoder, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "classes.csv", tmp_path / "whole.csv"
    classify_all(archive, whole, encoder=classifying)
    classified: list[str] = []

    def counting(encoder: PretrainedEncoder, recording: clocs.Recording, **options: Any) -> Any:
        classified.append(recording.record_id)
        return make_report(encoder, recording, **options)

    monkeypatch.setattr(batch, "make_report", counting)
    written: list[Path] = []

    def stop(step: str, path: Path) -> None:
        written.extend([path] if step == "after write" else [])
        if len(written) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "on_write_step", stop)
    with pytest.raises(KeyboardInterrupt):
        classify_all(archive, out, encoder=classifying)
    assert not out.exists()
    assert classified == ["A00001", "day 1/00001_hr", "day 2/00002_hr"]  # the third was stopped before its record
    monkeypatch.setattr(files, "on_write_step", lambda step, path: None)
    os.utime(archive / "day 1" / "00001_hr.hea", ns=(0, 0))  # a changed file is classified again
    classified.clear()
    assert classify_all(archive, out, encoder=classifying).recordings == 5
    assert classified == ["day 1/00001_hr", "day 2/00002_hr", "day 3/00003_hr"]
    assert out.read_bytes() == whole.read_bytes()


def test_unusable_arguments_are_refused_before_work(
    classifying: PretrainedEncoder, archive: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"\.csv, \.parquet, \.arrow"):
        classify_all(archive, tmp_path / "classes.xlsx", encoder=classifying)
    with pytest.raises(ConfigError, match="no classifier 'yours'"):
        classify_all(archive, tmp_path / "classes.csv", encoder=classifying, classifier="yours")
    with pytest.raises(ConfigError, match="only read"):
        classify_all(archive, archive / "classes.csv", encoder=classifying)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no ECG file"):
        classify_all(tmp_path / "empty", tmp_path / "classes.csv", encoder=classifying)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "ward"]


KILLED = """
import os, signal, sys
import clocs

def stop(done, refused):
    if done >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

clocs.classify_all(sys.argv[1], sys.argv[2], workers=2, progress=stop)
"""


@pytest.mark.slow
def test_a_thousand_files_killed_and_continued(originals: Path, tmp_path: Path) -> None:
    source, folder, out = open_source(originals), tmp_path / "ward", tmp_path / "classes.csv"
    records = sorted(name[:-4] for name in source.names() if name.startswith("ptbxl/records500") and ".hea" in name)
    for number in range(1000):
        record = records[number % len(records)]
        copy = folder / f"{number % 7}" / f"{number:04d}" / record.rpartition("/")[2]
        for extension in (".hea", ".dat"):
            files.write_bytes(copy.with_suffix(extension), source.read(record + extension))
    for limit in (200, 600):
        ended = subprocess.run([sys.executable, "-c", KILLED, folder, out, str(limit)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert not out.exists()
    finished = {path.name for path in (tmp_path / "classes.csv.tasks").glob("*.json")}
    assert len(finished) * batch_inputs.RECORDS_PER_CHUNK >= 600
    command = ("from clocs.cli.main import main; main()", "classify", folder, "--out", out, "--workers", "2", "--json")
    printed = subprocess.run([sys.executable, "-c", *command], check=True, capture_output=True, text=True)
    assert json.loads(printed.stdout)["recordings"] == 1000
    found = rows(out)
    assert len(found) == 1000
    assert {name.rpartition("/")[2] for name in found} == {f"{record.rpartition('/')[2]}.hea" for record in records}
    by_copy: dict[str, set[float | None]] = {}
    for name, row in found.items():
        by_copy.setdefault(name.rpartition("/")[2], set()).add(row["heart_rate"])
    assert all(len(rates) == 1 for rates in by_copy.values())
