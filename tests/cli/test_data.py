"""The ``clocs data`` commands on real files."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clocs.formats.writing import write
from clocs.signals.leads import STANDARD_LEADS
from tests import forked
from tests.cli.conftest import Clocs, Command
from tests.conftest import make_recording

COMMAND = [sys.executable, "-m", "clocs"]


def in_a_process(*arguments: object) -> str:
    """Standard output of a command that succeeds, in a process of its own."""
    done = forked.run("-m", "clocs", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


BARE = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
"""The smallest command there is: what any other has to import."""


def test_help_imports_no_more_than_a_bare_command() -> None:
    """It answers at once: numpy takes longer to import than everything else here, torch takes seconds."""
    ours, bare = imported("-m", "clocs", "--help"), imported("-c", BARE)
    assert {"typer", "rich"} <= bare
    assert ours - bare == {"clocs"}


def imported(*arguments: str) -> set[str]:
    """The packages that a command imports, without the standard library's."""
    command = [sys.executable, "-X", "importtime", *arguments]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    names = {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines if line.startswith("import time:")}
    return {name for name in names if not name.startswith("_")} - sys.stdlib_module_names - {"imported package"}


def test_version_and_list() -> None:
    from clocs import __version__

    assert in_a_process("--version").strip() == __version__
    names = {row["name"] for row in json.loads(in_a_process("data", "list", "--json"))}
    assert {"chapman", "physionet2020", "physionet2017", "cardiology", "ptbxl", "ludb", "folder", "synthetic"} <= names


def test_an_archive_from_ingest_to_picture(originals: Path, clocs: Clocs, tmp_path: Path) -> None:
    store = tmp_path / "store"
    numbers = json.loads(in_a_process("data", "ingest", "chapman", originals / "chapman", store, "--json"))
    assert numbers["in"] == 16
    assert numbers["stored"] == 12
    assert numbers["quarantined"] == {"short": 1, "missing": 2, "flat": 1}
    assert numbers["duplicates"] == {"groups": 1, "records": 2, "redundant": 1}
    assert (numbers["frames"], numbers["instances"]) == (12, 48)
    assert json.loads(clocs("data", "info", store, "--json")) | {"left_out": 0, "unused_identities": 0} == numbers
    assert "all files match" in in_a_process("data", "verify", store)
    split = json.loads(clocs("data", "split", store, "--json"))
    assert sum(split["patients"].values()) == 12
    assert "no patient and no signal" in clocs("data", "check-leaks", store)
    assert json.loads(clocs("data", "check-leaks", store, "--json"))["patients"] == 12
    picture = tmp_path / "ecg.png"
    in_a_process("data", "plot", store, "--record", "MUSE_20180111_155115_19000", "--out", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_recordings_and_refusals_are_listed(command: Command, originals: Path) -> None:
    said = command("data", "ingest", "chapman", originals / "chapman", "store")[0]
    assert "For the reasons run: clocs data records store --refused" in said
    assert re.search(r"lead order: as declared +│ 15 of 15 measured", said)
    assert re.search(r"amplitude, R wave of lead II +│ 0\.\d+ mV", said)
    command("data", "split", "store")
    table = list(csv.DictReader(command("data", "records", "store", "--split", "default")[0].splitlines()))
    one = next(row for row in table if row["record_id"] == "MUSE_20180111_155115_19000")
    assert (one["leads"].split(";"), one["sampling_rate"], one["seconds"]) == (list(STANDARD_LEADS), "500.0", "10.0")
    assert len(table) == 12
    assert {row["part"] for row in table} <= {"train", "validation", "test", "unused"}
    listed = json.loads(command("data", "records", "store", "--refused", "--json")[0])["records"]
    assert Counter(row["reason"] for row in listed) == {"short": 1, "missing": 2, "flat": 1}
    assert all(any(text.startswith(f"{row['reason']}: ") for text in row["findings"]) for row in listed)
    both = ("--refused", "--split", "default")
    assert "Omit --refused or --split" in command("data", "records", "store", *both, code=1)[1]


def test_an_ingest_that_stores_nothing_fails(command: Command, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.hea").write_text("no header")
    out, err = command("data", "ingest", "folder", "files", "store", code=1)
    assert "clocs data records store --refused" in out
    assert "no recording was stored: all were refused" in err
    assert json.loads(command("data", "ingest", "folder", "files", "store", "--json", code=1)[0])["stored"] == 0


def test_nothing_is_written_into_a_store(command: Command) -> None:
    command("data", "ingest", "synthetic", "-", "store", "-o", "num_records=2")
    ingest, embed = ("data", "ingest", "synthetic", "-", "store/shards/more"), ("embed", "store", "--out", "store/a")
    for told in (ingest, embed):
        assert "which holds only its own files" in " ".join(command(*told, code=1)[1].split())
    assert "must be a folder" in command("embed", "store", "--out", "a.npz", code=1)[1]


def test_a_full_disk_is_a_message() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "data", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_after_a_store_has_grown_the_advice_leads_to_a_split_that_is_taken(command: Command) -> None:
    command("data", "ingest", "synthetic", "-", "store", "-o", "num_records=20")
    command("data", "split", "store")
    command("data", "ingest", "synthetic", "-", "store", "-o", "num_records=30")
    advice = " ".join(command("data", "check-leaks", "store", code=1)[1].split())
    (advised,) = re.findall(r"\(clocs (data split .* --name NEW --like default)\)", advice)
    command(*advised.split())
    assert "split=NEW" in advice
    for option in ("--split", "--name"):
        assert "split 'NEW': no patient" in command("data", "check-leaks", "store", option, "NEW")[0]


def test_columns_of_a_table_are_listed_and_split_by(command: Command, tmp_path: Path) -> None:
    for number in range(6):
        write(make_recording(seed=number, num_samples=5000), tmp_path / "archive" / f"f{number}.hea")
    rows = "".join(f"f{number},{1 + number},site-{number % 2},=1+1\n" for number in range(6))
    (tmp_path / "table.csv").write_text(f"file,fold,group,formula\n{rows}")
    command("data", "ingest", "folder", "archive", "store", "-o", "table=table.csv")
    listed = {row["name"]: row for row in json.loads(command("data", "columns", "store", "--json")[0])["columns"]}
    assert (listed["fold"]["type"], listed["fold"]["num_values"]) == ("integer", 6)
    assert listed["group"]["examples"][0].startswith("si***")
    assert "fold" in command("data", "columns", "store")[0]
    (first, *_) = csv.DictReader(command("data", "records", "store")[0].splitlines())
    assert (first["fold"], first["group"], first["formula"]) == ("1", "site-0", "'=1+1")
    split = ("data", "split", "store", "--by", "fold", "--train", "1-4", "--validation", "5", "--test", "6")
    assert json.loads(command(*split, "--json")[0])["records"] == {"train": 4, "validation": 1, "test": 1, "unused": 0}
    assert "no patient and no signal" in command("data", "check-leaks", "store")[0]
    assert "Unknown column" in command("data", "split", "store", "--by", "folds", "--train", "1", code=1)[1]
    for words in (("--by", "fold"), ("--train", "1"), ("--by", "fold", "--train", "1", "--like", "default")):
        assert "--by" in command("data", "split", "store", *words, code=1)[1]


def test_recordings_that_a_new_version_leaves_out_are_counted(command: Command, tmp_path: Path) -> None:
    for seed, place in enumerate(("one/a", "one/b", "other/c")):
        write(make_recording(seed=seed), tmp_path / f"{place}.hea")
    said = "of version 1 are not in this one"
    assert said not in command("data", "ingest", "folder", "one", "store")[0]
    assert said not in command("data", "ingest", "folder", "one", "store")[0]
    assert f"2 recordings {said}" in command("data", "ingest", "folder", "other", "store")[0]
    assert "1 recordings of version 2 are" in command("data", "ingest", "folder", "one", "store")[0]


def test_the_gate_can_be_switched_off(originals: Path, clocs: Clocs, tmp_path: Path) -> None:
    numbers = json.loads(
        clocs("data", "ingest", "chapman", originals / "chapman", tmp_path / "s", "--gate", "off", "--json")
    )
    assert (numbers["in"], numbers["stored"], numbers["quarantined"]) == (16, 15, {"flat": 1}), "one is zero throughout"
    assert numbers["instances"] == 15 * 4 - 2 - 1, "V2 is missing twice, and cut off once"


def test_verify_names_the_damaged_file_and_exits_1(clocs: Clocs, tmp_path: Path) -> None:
    store = tmp_path / "store"
    clocs("data", "ingest", "synthetic", "-", store, "-o", "num_records=5")
    (shard,) = (store / "shards").glob("*.arrow")
    raw = bytearray(shard.read_bytes())
    raw[len(raw) // 2] ^= 4
    shard.write_bytes(raw)
    assert shard.name in clocs("data", "verify", store, code=1)
    assert json.loads(clocs("data", "verify", store, "--json", code=1).splitlines()[0])["faults"]


def test_checksums_that_a_store_lacks_are_written_or_skipped(clocs: Clocs, tmp_path: Path) -> None:
    store = tmp_path / "store"
    clocs("data", "ingest", "synthetic", "-", store, "-o", "num_records=5")
    (checksums,) = (store / "shards").glob("*.checksums.json")
    whole = checksums.read_bytes()
    checksums.unlink()
    assert f"clocs data checksums {store}" in clocs("convert", store, tmp_path / "refused", "--to", "csv", code=1)
    assert clocs("--skip-checksums", "convert", store, tmp_path / "unchecked", "--to", "csv")
    assert "1 checksum files written" in clocs("data", "checksums", store)
    assert checksums.read_bytes() == whole
    assert clocs("convert", store, tmp_path / "checked", "--to", "csv")


def test_a_dataset_lists_its_options_with_meanings(clocs: Clocs) -> None:
    told = json.loads(clocs("data", "info", "folder", "--json"))["options"]
    assert told["keep"]["default"] == []
    shown = " ".join(clocs("data", "info", "folder").replace("│", " ").split())
    assert "keep none Typed fields that stay in spite of a key" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "ingest", "chapmann", ".", "x"), "Did you mean 'chapman'?"),
        (("data", "ingest", "chapman", "nowhere", "x"), "no such folder or zip"),
        (("data", "ingest", "synthetic", "-", "x", "-o", "colour=red"), "colour"),
        (("data", "info", "nowhere"), "neither the folder of a store"),
        (("data", "verify", "nowhere"), "not a finished store"),
        (("data", "plot", "."), "--record"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(arguments: tuple[str, ...], message: str, clocs: Clocs) -> None:
    assert message in clocs(*arguments, code=1).replace("\n", " ")


def test_a_warning_is_a_line_without_pythons_prefix(tmp_path: Path) -> None:
    write(make_recording(), tmp_path / "files" / "a.csv")
    (tmp_path / "table.csv").write_text("file,patient_id\na.csv,1\nnosuch.csv,2\n")
    told = ("data", "ingest", "folder", tmp_path / "files", tmp_path / "store", "-o", f"table={tmp_path}/table.csv")
    said = forked.run("-m", "clocs", *told).stderr
    assert "\nwarning: table " in f"\n{said}"
    assert "UserWarning" not in said
