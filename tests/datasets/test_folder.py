"""A user's own folder: every readable file, with what a table says about it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, FormatError
from clocs.core.pseudonyms import make_key, read_key
from clocs.core.recording import Recording
from clocs.core.sources import open_source
from clocs.datasets.dataset import DATASETS, Entry
from clocs.datasets.folder import FOLDER
from clocs.formats.writing import write
from tests.conftest import make_recording

HEADER = "{0} 1 500 4\n{0}.dat 16 1000/mV 16 0 0 0 0 II\n# Age: 40\n# Sex: Male\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two WFDB records, one of them in a folder, a CSV, and files that are no ECGs."""
    root = tmp_path / "archive"
    for folder, name in (("ward/2", "b"), (".", "a")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / f"{name}.hea").write_text(HEADER.format(name))
        np.arange(4, dtype="<i2").tofile(root / folder / f"{name}.dat")
    (root / "c.csv").write_text("1,2,3,4,5,6,7,8,9,10,11,12\n")
    (root / "README.md").write_text("# About\nnothing\n")
    (root / "scan.pdf").write_bytes(b"%PDF-1.7")
    return root


def entries(archive: Path, table: str | None = None) -> dict[str, Entry]:
    options = {}
    if table is not None:
        path = archive.parent / "about.csv"
        path.write_text(table)
        options = {"table": str(path)}
    found = FOLDER.entries(open_source(archive), FOLDER.parse_options(options))
    return {entry.file: entry for entry in found}


def test_every_ecg_is_found_once_and_is_a_patient_of_its_own(archive: Path) -> None:
    assert entries(archive) == {
        "a.hea": Entry("a.hea", "a", "a"),
        "c.csv": Entry("c.csv", "c", "c"),
        "ward/2/b.hea": Entry("ward/2/b.hea", "ward/2/b", "ward/2/b"),
    }


@pytest.mark.parametrize("named", ["ward/2/b.hea", "ward/2/b", "b"])
def test_a_table_may_name_files_by_path_or_by_name(archive: Path, named: str) -> None:
    table = f"file,patient_id,record_id,site,age,sex,labels\n{named},p1,r1,north,61,F,AF; STD ;;\n"
    found = entries(archive, table)
    assert found["ward/2/b.hea"] == Entry("ward/2/b.hea", "r1", "p1", "north", 61.0, "female", ("AF", "STD"))
    assert found["a.hea"] == Entry("a.hea", "a", "a")


@pytest.mark.parametrize("word", ["unknown", "N/A", "None", "-", "anonymized"])
def test_a_word_for_nobody_makes_no_patient(archive: Path, word: str) -> None:
    """Else all who are unknown would be one; digits, though, are somebody's number."""
    with pytest.warns(UserWarning, match="2 rows have a word for an unknown patient .* the first on line 2"):
        found = entries(archive, f"file,patient_id\na,{word}\nb,{word}\nc,0\n")
    assert [found[name].patient_id for name in ("a.hea", "ward/2/b.hea", "c.csv")] == ["a", "ward/2/b", "0"]


def test_ages_and_sexes_that_are_not_understood_are_told(archive: Path) -> None:
    with pytest.warns(UserWarning, match="it is left out") as said:
        found = entries(archive, "file,age,sex\na,61y,W\nb,300,unknown\nc,61,M\n")
    assert [str(warning.message).removeprefix("table about.csv: ") for warning in said] == [
        "2 rows have in 'age' what is not a number of years up to 150, the first on line 2; it is left out",
        "1 rows have in 'sex' what is not m, f, male or female, the first on line 2; it is left out",
    ]
    assert [(found[name].age, found[name].sex) for name in ("a.hea", "c.csv")] == [(None, None), (61.0, "male")]


def test_what_the_table_leaves_out_the_file_tells(archive: Path) -> None:
    found = entries(archive, "file,patient_id\na,p9\n")
    source = open_source(archive)
    recording = FOLDER.load(source, found["a.hea"], FOLDER.parse_options({}))
    assert (recording.patient_id, recording.record_id, recording.age, recording.sex) == ("p9", "a", 40.0, "male")


def test_a_spreadsheets_mark_and_line_ends_do_not_matter(archive: Path) -> None:
    found = entries(archive, "\ufefffile,labels\r\na,AF;SR\r\n")
    assert found["a.hea"].labels == ("AF", "SR")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("file,patient\na,1\n", r"unknown here: 'patient'"),
        ("patient_id\n1\n", r"every row needs 'file'"),
        ("file,patient_id\n,1\n", r"every row needs 'file'"),
    ],
)
def test_a_table_with_other_columns_is_refused_with_those_allowed(archive: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        entries(archive, table)
    assert "record_id, patient_id, site, age, sex, labels" in str(refusal.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("file;age\na;1\n", "separated by ';'; save it with commas"),
        ("file\tage\na\t1\n", "separated by .*; save it with commas"),
        ("file,age\na,1,surplus\n", "line 2 has more values"),
        ("file,patient_id\na,1\n,2\n", "missing on line 3"),
        ("file,patient_id\n", "no rows"),
        ("", "no rows"),
        ('file,patient_id\na,1\nb,"2\n', "line 3 has a quote that is not closed"),
        ('file,patient_id\na,"1\nb,2\nc,"3"\n', "line 2 has a quote that is not closed"),
        ('"file,patient_id\na,1\n', "line 1 has a quote that is not closed"),
        ("file,patient_id\na,1\0\n", "holds NUL bytes"),
    ],
)
def test_a_line_that_fits_no_column_or_no_file_is_named(archive: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        entries(archive, table)


def test_blanks_and_empty_rows_of_a_spreadsheet_do_not_matter(archive: Path) -> None:
    found = entries(archive, "file, patient_id ,labels\n a ,P1 ,AF\nb, P1,\n,,\n")
    assert {found[name].patient_id for name in ("a.hea", "ward/2/b.hea")} == {"P1"}


def test_ids_that_differ_in_case_alone_are_told_without_naming_anyone(archive: Path) -> None:
    with pytest.warns(UserWarning, match="lines 2 and 3 differ in case alone") as said:
        entries(archive, "file,patient_id\na,Smith\nb,smith\n")
    assert not any("mith" in str(warning.message) for warning in said)


def test_a_name_that_several_folders_have_is_refused(archive: Path) -> None:
    (archive / "ward/2/a.csv").write_bytes((archive / "c.csv").read_bytes())
    with pytest.raises(ConfigError, match=r"line 2 says 'a', which is in '\.' and in 'ward/2'"):
        entries(archive, "file,patient_id\na,p1\n")
    found = entries(archive, "file,patient_id\na.hea,p1\nward/2/a,p2\n")
    assert (found["a.hea"].patient_id, found["ward/2/a.csv"].patient_id) == ("p1", "p2")


def test_a_file_without_a_row_is_nobody_of_the_table(archive: Path) -> None:
    found = entries(archive, "file,patient_id\na,c\n")
    assert (found["a.hea"].patient_id, found["c.csv"].patient_id) == ("c", "file c")


@pytest.mark.parametrize("classes", ["AF=AFIB,AF=PVC", "SR=SR+", "=SR", "AF="])
def test_classes_that_are_mistaken_are_refused(classes: str) -> None:
    with pytest.raises(ConfigError, match="class"):
        FOLDER.parse_options({"classes": classes})


@pytest.mark.parametrize("named", ["other/a.hea", "a.dat", "scan"])
def test_a_table_about_none_of_the_recordings_is_refused_before_any_is_read(archive: Path, named: str) -> None:
    """``a.dat`` and ``scan.pdf`` are there, but no recordings."""
    found = FOLDER.entries(open_source(archive), FOLDER.parse_options({"table": table_of(archive, named)}))
    with pytest.raises(ConfigError, match=rf"about\.csv: no row is about.* Line 2 says '{named}'.* is 'a\.hea'"):
        next(iter(found))


def test_rows_about_no_recording_are_told(archive: Path) -> None:
    table = table_of(archive, "a", *(f"gone {number}" for number in range(2)))
    options = FOLDER.parse_options({"table": table})
    with pytest.warns(UserWarning, match=r"about\.csv: 2 of 3 rows are about no recording.*, on lines 3, 4$"):
        found = list(FOLDER.entries(open_source(archive), options))
    assert len(found) == 3
    table_of(archive, "a", *(f"gone {number}" for number in range(8)))
    with pytest.warns(UserWarning, match=r"8 of 9 rows .* lines 3, 4, 5, 6, 7 and 3 more$"):
        list(FOLDER.entries(open_source(archive), options))


def table_of(archive: Path, *files: str) -> str:
    """A table that says the same of each of these files."""
    path = archive.parent / "about.csv"
    path.write_text("file,site\n" + "".join(f"{file},north\n" for file in files))
    return str(path)


def test_two_rows_about_one_file_must_say_the_same(archive: Path) -> None:
    assert entries(archive, "file,patient_id\na,p1\nc,p2\na,p1\n")["a.hea"].patient_id == "p1"
    with pytest.raises(ConfigError, match=r"about\.csv: lines 2 and 5 have the same 'file' and say different things"):
        entries(archive, "file,patient_id\na,p1\n\nc,p2\na,p3\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("patient_id,sex\n17,F\n17,M\n", "lines 2 and 3 have the same 'patient_id'"),
        ("patient_id,sex\n", "it has no rows"),
        ('patient_id,sex\n17,"F\n', "line 2 has a quote that is not closed"),
        ("patient_id,sex\n17,\0F\n", "holds NUL bytes"),
    ],
)
def test_a_wrong_table_of_patients_is_refused(archive: Path, key: Path, text: str, said: str) -> None:
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text("file,patient_id\na,17\n")
    patients.write_text(text)
    with pytest.raises(ConfigError, match=rf"patients\.csv: {said}"):
        loaded(archive, table=table, patients=patients, key=key)


def test_spreadsheets_leave_empty_columns_and_repeat_none(archive: Path) -> None:
    assert entries(archive, "file,patient_id,,\na,p1,,\n")["a.hea"].patient_id == "p1"
    with pytest.raises(ConfigError, match="unknown here: ''"):
        entries(archive, "file,patient_id,\na,p1,x\n")
    with pytest.raises(ConfigError, match="two columns are called 'patient_id'"):
        entries(archive, "file,patient_id,patient_id\na,p1,p2\n")


def test_two_rows_about_a_patient_in_another_case_must_say_the_same(archive: Path, key: Path) -> None:
    """With a key, they are one."""
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text("file,patient_id\na,x17\n")
    patients.write_text("patient_id,sex\nX17,F\nx17,M\n")
    with (
        pytest.warns(UserWarning, match="differ in case alone"),
        pytest.raises(ConfigError, match=r"lines 2 and 3 are about one patient"),
    ):
        loaded(archive, table=table, patients=patients, key=key)


def test_an_absent_table_is_refused(archive: Path) -> None:
    options = FOLDER.parse_options({"table": str(archive / "absent.csv")})
    with pytest.raises(ConfigError, match=r"absent\.csv: no such file"):
        list(FOLDER.entries(open_source(archive), options))


def test_a_damaged_header_is_listed_so_that_its_refusal_is_recorded(archive: Path) -> None:
    (archive / "bad.hea").write_bytes(b"\0\0\0")
    assert "bad.hea" in entries(archive)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def loaded(archive: Path, **options: object) -> dict[str, Recording]:
    """By file, what an ingest would store."""
    source, chosen = open_source(archive), FOLDER.parse_options(options)
    return {entry.file: FOLDER.load(source, entry, chosen) for entry in FOLDER.entries(source, chosen)}


def test_with_a_key_tables_are_joined_by_the_ids_as_they_were(archive: Path, key: Path) -> None:
    """One file's patient stands in the table of files, another's in the file itself, a third's nowhere."""
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text("file,patient_id,age\na,17,99\n")
    patients.write_text("patient_id,sex,site,age,labels\n17,F,north,30,AF;SR\nNr 5,F,south,91,\n")
    write(make_recording(patient_id="Nr 5"), archive / "d.csv", "csv", patient_ids=True)
    found = loaded(archive, table=table, patients=patients, key=key)
    secret = read_key(key)
    first, last, own = found["a.hea"], found["d.csv"], found["ward/2/b.hea"]
    assert (first.patient_id, first.sex, first.site, first.age) == (secret.patient("17"), "female", "north", 90.0)
    assert first.labels == ("AF", "SR"), "what the user's own table says stays"
    assert (last.patient_id, last.site, last.age) == (secret.patient("Nr 5"), "south", 90.0)
    assert own.patient_id == own.record_id == secret.record("ward/2/b.hea")
    assert own.age == 40.0


def test_what_a_store_keeps_of_the_options_names_no_place(archive: Path, key: Path) -> None:
    table = archive.parent / "files.csv"
    table.write_text("file,patient_id\na,17\n")
    kept = FOLDER.parse_options({"key": key, "table": table, "keep": "notes, labels"}).model_dump(mode="json")
    assert str(archive.parent) not in str(kept)
    assert kept["key"] == read_key(key).fingerprint
    assert (kept["keep"], len(kept["table"]), kept["patients"]) == (["labels", "notes"], 64, None)
    assert FOLDER.parse_options({}).model_dump(mode="json") == {"table": None}, "as before there were keys"


def test_a_recording_depends_on_its_own_row_and_not_on_the_table(archive: Path, key: Path) -> None:
    """Its entry holds the row; rows of patients are joined by ids in files, so those tables do count."""
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"

    def depends(rows: str, people: str) -> tuple[object, object]:
        table.write_text("file,patient_id\na,17\n" + rows)
        patients.write_text("patient_id,sex\n17,F\n" + people)
        options = FOLDER.parse_options({"key": key, "table": table, "patients": patients})
        return options.of_recordings(), options.model_dump(mode="json")["table"]

    (before, old), (after, new), (other, _) = depends("", ""), depends("b,18\n", ""), depends("", "18,M\n")
    assert (before == after, old == new, before == other) == (True, False, False)
    moved = FOLDER.parse_options({"table": str(table)})
    assert moved.of_recordings() == FOLDER.parse_options({}).of_recordings() == {"table": None}
    sampling_rate = DATASETS.get("ptbxl").parse_options({"sampling_rate": "100"})
    assert sampling_rate.of_recordings() == {"sampling_rate": "100"}


@pytest.mark.parametrize("options", [{"patients": "p.csv"}, {"keep": "labels"}])
def test_ids_are_read_only_to_be_hashed(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="need 'key'"):
        FOLDER.parse_options(options)


def test_one_ecg_in_two_formats_beside_each_other_is_two_recordings(archive: Path) -> None:
    (archive / "a.csv").write_text("1,2,3,4,5,6,7,8,9,10,11,12\n")
    found = entries(archive)
    assert (found["a.csv"].record_id, found["a.hea"].record_id) == ("a", "a.hea")


def test_dicom_files_named_by_their_uids_keep_them_as_ids(archive: Path) -> None:
    """Their last number is no ending; a table may name them so."""
    uids = ("ward/1.2.840.113619.1", "ward/1.2.840.113619.2")
    for number, uid in enumerate(uids):
        write(make_recording(seed=number), archive / "made.dcm", overwrite=True)
        (archive / "made.dcm").rename(archive / uid)
    found = entries(archive, "file,patient_id\n1.2.840.113619.2,p2\n")
    assert [found[uid].record_id for uid in uids] == list(uids)
    assert found[uids[1]].patient_id == "p2"


def test_archives_that_cannot_be_opened_are_listed_and_refused(archive: Path, key: Path) -> None:
    (archive / "ward" / "Smith.zip").write_bytes(b"PK\3\4 broken")
    with zipfile.ZipFile(archive / "outer.zip", "w") as outer:
        outer.write(archive / "c.csv", "in/c.csv")
        outer.writestr("Smith.zip", b"PK")
    source = open_source(archive)
    found = entries(archive)
    assert {"ward/Smith.zip", "outer.zip/Smith.zip", "outer.zip/in/c.csv"} <= set(found)
    for options, told in ({}, True), ({"key": key}, False):
        chosen = FOLDER.parse_options(options)
        for name, reason in (("ward/Smith.zip", "not a readable zip"), ("outer.zip/Smith.zip", "in a zip archive is")):
            with pytest.raises(FormatError, match=reason) as refusal:
                FOLDER.load(source, found[name], chosen)
            assert ("Smith" in str(refusal.value)) == told
            assert ("Smith" in str(FOLDER.redact(found[name], chosen))) == told


def test_damage_within_an_archive_is_one_files_refusal(archive: Path) -> None:
    with zipfile.ZipFile(archive / "more.zip", "w") as more:
        more.write(archive / "c.csv", "c.csv")
        more.writestr("d.csv", "1,2,3,4,5,6,7,8,9,10,11,13\n")
    raw = (archive / "more.zip").read_bytes()
    (archive / "more.zip").write_bytes(raw.replace(b"11,13\n", b"99,99\n"))
    found = entries(archive)
    source, options = open_source(archive), FOLDER.parse_options({})
    assert FOLDER.load(source, found["more.zip/c.csv"], options).num_samples == 1
    with pytest.raises(FormatError, match="damaged in its archive"):
        FOLDER.load(source, found["more.zip/d.csv"], options)


def test_labels_make_the_classes_that_are_told(tmp_path: Path) -> None:
    """Told other ones, the store has another version of the very same shards."""
    made = clocs.ingest("synthetic", None, tmp_path / "made", options={"num_records": 10, "leads": 1})
    (tmp_path / "archive").mkdir()
    lines = ["file,labels"]
    for number in range(len(made)):
        recording = made.recording(number)
        write(recording, tmp_path / "archive" / f"{number}.csv")
        lines.append(f"{number},{';'.join(recording.labels)}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    told = {"table": str(tmp_path / "table.csv")}
    stores = [
        clocs.ingest("folder", tmp_path / "archive", tmp_path / "store", options={**told, **classes})
        for classes in ({}, {"classes": "SR, fast=ST+PVC"})
    ]
    assert stores[0].manifest.dataset["classes"] == {}
    assert stores[1].manifest.dataset["classes"] == {"SR": ["SR"], "fast": ["ST", "PVC"]}
    assert stores[0].manifest.shards == stores[1].manifest.shards
    frames = stores[1].frames()
    records = frames.locate(np.arange(len(frames)))[0]
    labels = [set(stores[1].recording(int(record)).labels) for record in records]
    expected = [["SR" in each, bool(each & {"ST", "PVC"})] for each in labels]
    assert frames.targets(np.arange(len(frames))).tolist() == expected
