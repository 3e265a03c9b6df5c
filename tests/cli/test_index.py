"""``clocs embed STORE``, ``clocs index`` and ``clocs similar``, from a store to a picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from clocs.cli.main import main
from clocs.store.ingest import ingest
from clocs.store.splits import make_split
from clocs.store.store import open_store
from tests.cli.conftest import Command
from tests.inference.conftest import make_encoder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, an encoder, and an index that no test changes."""
    folder = tmp_path_factory.mktemp("similar")
    make_split(ingest("synthetic", None, folder / "store", options={"num_records": 24, "leads": 4}))
    make_encoder(folder / "encoder")
    for arguments in (
        ("embed", folder / "store", "--encoder", folder / "encoder", "--out", folder / "archive"),
        ("index", "build", folder / "archive", folder / "index"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["clocs", *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
        assert not ended.value.code
    return folder


def test_a_store_becomes_an_archive(command: Command, place: Path) -> None:
    out, _ = command("embed", place / "store", "--encoder", place / "encoder", "--out", "archive", "--json")
    assert json.loads(out) | {"sha256": ""} == {
        "archive": "archive",
        "version": 1,
        "sha256": "",
        "in": 24,
        "embedded": 24,
        "refused": {},
        "withdrawn": 0,
    }
    out, _ = command("embed", place / "store", "--encoder", place / "encoder", "--out", "archive")
    assert "personal data" in out
    assert "--out" in command("embed", place / "store", code=1)[1]


def test_neighbours_as_json_and_as_a_picture(command: Command, place: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra 'plot'")
    record = open_store(place / "store").recording(3).record_id
    out, _ = command("similar", record, "--index", place / "index", "-k", "4", "--json", "--plot", "out.png")
    found = json.loads(out)
    assert len(found["neighbours"]) == 4
    assert found["query"]["record_id"] == record
    assert found["query"]["patient_id"] not in [item["patient_id"] for item in found["neighbours"]]
    assert (tmp_path / "out.png").stat().st_size > 10_000
    own, _ = command("similar", record, "--index", place / "index", "-k", "1", "--json", "--include-own-patient")
    assert json.loads(own)["neighbours"][0]["patient_id"] == found["query"]["patient_id"]
    table, _ = command("similar", record, "--index", place / "index", "-k", "2")
    assert found["neighbours"][0]["patient_id"] in table
    assert "not a diagnosis" in table


def test_filters_and_mistakes(command: Command, place: Path) -> None:
    recording = open_store(place / "store").recording(0)
    base = ("similar", recording.record_id, "--index", place / "index", "--json")
    label = recording.labels[0]
    found = json.loads(command(*base, "--label", label, "--sex", "female", "--age", "0-120")[0])
    assert all(label in item["labels"] and item["sex"] == "female" for item in found["neighbours"])
    assert "age range" in command(*base, "--age", "sixty", code=1)[1]
    assert "No patient of the index has the label" in command(*base, "--label", "nonsense", code=1)[1]
    assert "Unknown column 'ward'. Extra columns of this index: none" in command(*base, "--where", "ward=3", code=1)[1]
    assert "such as device=CS-12" in command(*base, "--where", "ward", code=1)[1]
    assert "neither a record id" in command("similar", "nobody", "--index", place / "index", code=1)[1]
    assert "is not an index" in command("similar", "nobody", "--index", place / "store", code=1)[1]


def test_an_index_is_changed(command: Command, place: Path, tmp_path: Path) -> None:
    out, _ = command("index", "build", place / "archive", "index", "--json")
    assert json.loads(out) == {"index": "index", "kind": "exact", "patients": 12, "recordings": 24}
    for inside in ("archive", "archive/index", "store"):
        assert "Choose another folder" in command("index", "build", place / "archive", place / inside, code=1)[1]
    assert "is not an index" in command("index", "rebuild", "indx", code=1)[1]
    assert not (tmp_path / "indx").exists()
    ids = [open_store(place / "store").recording(number).patient_id for number in (0, 23)]
    (tmp_path / "ids.txt").write_text(f"{ids[0]}\n{ids[1]}\n\n")
    assert json.loads(command("index", "withdraw", "index", "--from", "ids.txt", "--json")[0])["patients"] == 2
    (tmp_path / "ids.txt").write_text(f"{ids[0]}\nstranger\n")
    assert "Nothing was changed" in command("index", "withdraw", "index", "--from", "ids.txt", code=1)[1]
    said, _ = command("index", "withdraw", "index", "--from", "ids.txt", "--allow-unknown")
    assert [line.split("│")[2].strip() for line in said.splitlines()[-5:-1]] == ["0", "0", "1", "1"]
    added = json.loads(command("index", "add", "index", place / "archive", "--json")[0])
    assert (added["recordings"], added["known"], added["withdrawn"]) == (0, 20, 4)
    assert "recordings of withdrawn patients" in command("index", "add", "index", place / "archive")[0]
    assert json.loads(command("index", "rebuild", "index", "--json")[0])["patients"] == 10
    assert "all files match" in command("index", "verify", "index")[0]
    assert "Expected at least 99 recordings" in command("index", "limit", "index", "--part", "test", code=1)[1]
    assert json.loads(command("index", "verify", place / "archive", "--json")[0])["faults"] == []
    victim = next((tmp_path / "index" / "volumes").rglob("vectors.npy"))
    victim.write_bytes(victim.read_bytes()[:-1])
    assert "vectors.npy" in command("index", "verify", "index", code=1)[0]
    assert "vectors.npy" in command("similar", "x", "--index", "index", code=1)[1]


def test_a_patient_list_from_a_spreadsheet_is_read(command: Command, place: Path, tmp_path: Path) -> None:
    """Such files begin with a mark of their encoding, end lines in two signs, and pad."""
    command("index", "build", place / "archive", "index")
    ids = [open_store(place / "store").recording(number).patient_id for number in (0, 23)]
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbf" + " \r\n\r\n".join(ids).encode())
    said = json.loads(command("index", "withdraw", "index", "--from", "ids.txt", "--allow-unknown", "--json")[0])
    counts = {"patients": 2, "already_withdrawn": 0, "unknown": 0, "recordings": 4}
    assert said == {"index": "index", **counts}


def test_patients_with_pseudonyms_are_withdrawn_by_original_ids(command: Command, place: Path, tmp_path: Path) -> None:
    number = open_store(place / "store").recording(0).patient_id
    command("data", "make-key", "safe.key")
    command("data", "deidentify", place / "store", "hidden", "--key", "safe.key")
    command("embed", "hidden", "--encoder", place / "encoder", "--out", "archive")
    command("index", "build", "archive", "index")
    (tmp_path / "ids.txt").write_text(number)
    for kind in ("index", "archive"):
        named = (kind, "withdraw", kind, "--from", "ids.txt")
        assert "--key" in command(*named, "--allow-unknown", code=1)[1]
        assert json.loads(command(*named, "--key", "safe.key", "--json")[0])["patients"] == 1
