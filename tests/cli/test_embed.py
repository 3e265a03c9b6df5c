"""``clocs embed`` and ``clocs classify``: tables, JSON and messages."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.sources.source import open_source
from clocs.core.storage.files import write_bytes
from clocs.inference.pretrained import load_encoder
from clocs.training.shipped import DEFAULT_ENCODER
from tests.cli.conftest import Command
from tests.inference.conftest import make_classifier, make_encoder

RECORDS = "ptbxl/records500/00000"
CHAPMAN_FILE = "chapman/ECGDataDenoised/MUSE_20180111_155115_19000.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with a classifier."""
    made = make_encoder(tmp_path_factory.mktemp("cli") / "best")
    make_classifier(load_encoder(made).about["weights_sha256"]).save(made / "classifiers" / "mine")
    return made


def test_files_become_a_table(command: Command, originals: Path, folder: Path, tmp_path: Path) -> None:
    files = [originals / RECORDS / f"0000{number}_hr.hea" for number in (1, 2)]
    out, err = command("embed", *files, "--encoder", folder)
    assert out.endswith("embeddings.npz\n")
    assert "leads I, III, aVF, V1, V3, V4, V5, V6 not used" in out
    assert err == ""
    with np.load(tmp_path / "embeddings.npz") as held:
        assert held["values"].shape == (16, 32)
    command("embed", files[0], "--encoder", folder, "--out", "e.csv")
    assert len((tmp_path / "e.csv").read_text().splitlines()) == 9


def test_json_is_one_object_and_writes_nothing_else(
    command: Command, originals: Path, folder: Path, tmp_path: Path
) -> None:
    file = originals / RECORDS / "00001_hr.hea"
    strip = originals / "cinc2017" / "training2017" / "A00001.hea"
    out, err = command("embed", file, strip, "--encoder", folder, "--json", code=1)
    result = json.loads(out)
    (made,) = result["files"]
    expected = load_encoder(folder).embed(file)
    assert made["file"] == str(file)
    assert made["leads"] == list(expected.lead)
    assert made["starts"] == expected.start.tolist()
    assert made["notes"] == list(expected.notes)
    np.testing.assert_allclose(made["pooled"], expected.pooled(), rtol=1e-6)
    assert list(result["refused"]) == [str(strip)]
    assert result["out"] is None
    assert str(strip) in err
    assert list(tmp_path.iterdir()) == []
    out, _ = command("embed", strip, "--encoder", folder, "--json", "--any-lead", "--out", "e.parquet")
    assert json.loads(out)["out"] == "e.parquet"
    assert (tmp_path / "e.parquet").exists()


def test_classes_are_printed_with_their_track_record(command: Command, originals: Path, folder: Path) -> None:
    file = originals / CHAPMAN_FILE
    out, _ = command("classify", file, "--encoder", folder)
    best = load_encoder(folder).classify(file).classes[0]
    line = next(line for line in out.splitlines() if f" {best.name} " in line)
    for word in (f"meaning of {best.name}", f"{best.probability:.1%}", best.track_record, f"{best.prevalence:.1%}"):
        assert word in line
    assert "classifier: mine, from leads II, V2, aVL, aVR" in out
    assert "It has seen no paced rhythm." in out
    assert out.endswith("Research use only, not a diagnosis.\n")
    (result,) = json.loads(command("classify", file, "--encoder", folder, "--json")[0])["classifications"]
    assert result["classes"][0]["probability"] == pytest.approx(best.probability)
    assert result["classes"][0]["validation"]["count"] in (10, 40)


def test_a_folder_becomes_a_table(command: Command, originals: Path, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "ward"
    write_bytes(source / "19000.csv", open_source(originals).read(CHAPMAN_FILE))
    out, _ = command("classify", source, "--encoder", folder, "--out", "classes.csv")
    assert out.endswith("For research use only. Not a medical device.\n")
    (row,) = csv.DictReader((tmp_path / "classes.csv").read_text().splitlines())
    best = load_encoder(folder).classify(originals / CHAPMAN_FILE).classes[0]
    assert float(row[f"probability_{best.name}"]) == pytest.approx(best.probability)
    result = json.loads(command("classify", source, "--encoder", folder, "--out", "classes.csv", "--json")[0])
    assert result == {"out": "classes.csv", "recordings": 1, "without_classes": 0}
    assert "--out" in command("classify", source, "--encoder", folder, code=1)[1]
    file = source / "19000.csv"
    assert "not a folder" in command("classify", file, "--encoder", folder, "--out", "classes.csv", code=1)[1]


@pytest.mark.parametrize("sampling_rate", [500, 250])
def test_a_file_is_classified_without_slow_imports(originals: Path, tmp_path: Path, sampling_rate: int) -> None:
    """Importing torch takes seconds, SciPy half a second or more."""
    recording = clocs.read(originals / CHAPMAN_FILE)
    rows = "\n".join(",".join(map(str, row)) for row in recording.signal.T[:: 500 // sampling_rate])
    file = tmp_path / "ecg.csv"
    file.write_text(f"# clocs ECG 2\n# sampling_rate: {sampling_rate}\n{','.join(recording.leads)}\n{rows}\n")
    code = (
        "import sys, clocs.cli.main\n"
        f"clocs.cli.main.app(['classify', {str(file)!r}, '--json'], standalone_mode=False)\n"
        "assert not {'torch', 'scipy', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [found["classifier"] for found in json.loads(done.stdout)["classifications"]] == ["physionet2020", "chapman"]


def test_classes_of_noise_are_withheld(command: Command, folder: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{value:.3f}" for value in np.random.default_rng(0).normal(0, 0.3, 5000))
    (tmp_path / "noise.csv").write_text(f"# clocs ECG 2\n# sampling_rate: 500\nII\n{rows}\n")
    out, _ = command("classify", tmp_path / "noise.csv", "--encoder", folder)
    assert out.splitlines()[:2] == ["No classes are given:", "heartbeats cannot be measured: no clear beats"]
    assert "%" not in out
    (result,) = json.loads(command("classify", tmp_path / "noise.csv", "--encoder", folder, "--json")[0])[
        "classifications"
    ]
    assert (result["classes"], len(result["withheld"])) == ([], 1)


def test_mistakes_are_messages(command: Command, originals: Path, folder: Path) -> None:
    file = originals / RECORDS / "00001_hr.hea"
    assert "neither a folder nor a shipped encoder" in command("embed", file, "--encoder", "nowhere", code=1)[1]
    assert "no such file" in command("embed", "nowhere.hea", "--encoder", folder, code=1)[1]
    assert ".parquet" in command("embed", file, "--encoder", folder, "--out", "x.xlsx", code=1)[1]
    strip = originals / "cinc2017" / "training2017" / "A00001.hea"
    assert (
        "'mine' needs leads II, V2, aVL, aVR or lead II" in command("classify", strip, "--encoder", folder, code=1)[1]
    )


def test_help_names_the_default_encoder(command: Command) -> None:
    assert f"[default: {DEFAULT_ENCODER}]" in command("embed", "--help")[0]
