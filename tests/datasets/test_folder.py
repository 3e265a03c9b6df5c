"""A user's own archive: readable files, with metadata from tables."""

from __future__ import annotations

import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, FormatError
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import DATASETS, Entry
from clocs.datasets.folder import FOLDER
from clocs.formats.writing import write
from tests.conftest import make_recording

HEADER = "{0} 1 500 4\n{0}.dat 16 1000/mV 16 0 0 0 0 II\n# Age: 40\n# Sex: Male\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Write two WFDB records, one of them in a subfolder, a CSV, and files that are not ECGs."""
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


def test_every_ecg_is_found_once_and_is_its_own_patient(archive: Path) -> None:
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
def test_placeholder_patient_ids_are_ignored(archive: Path, word: str) -> None:
    """Otherwise all unknown patients would be one patient. Digits are real ids."""
    with pytest.warns(UserWarning, match="2 rows have a placeholder .* the first on line 2"):
        found = entries(archive, f"file,patient_id\na,{word}\nb,{word}\nc,0\n")
    assert [found[name].patient_id for name in ("a.hea", "ward/2/b.hea", "c.csv")] == ["a", "ward/2/b", "0"]


def test_invalid_ages_and_sexes_give_a_warning(archive: Path) -> None:
    with pytest.warns(UserWarning, match="These values are ignored") as caught:
        found = entries(archive, "file,age,sex\na,61y,W\nb,300,unknown\nc,61,M\n")
    assert [str(warning.message).removeprefix("table about.csv: ") for warning in caught] == [
        "'age' of 2 rows is not a number of years up to 150, the first on line 2. These values are ignored.",
        "'sex' of 1 rows is not m, f, male or female, the first on line 2. These values are ignored.",
    ]
    assert [(found[name].age, found[name].sex) for name in ("a.hea", "c.csv")] == [(None, None), (61.0, "male")]


def test_values_missing_from_the_table_come_from_the_file(archive: Path) -> None:
    found = entries(archive, "file,patient_id\na,p9\n")
    source = open_source(archive)
    recording = FOLDER.load(source, found["a.hea"], FOLDER.parse_options({}))
    assert (recording.patient_id, recording.record_id, recording.age, recording.sex) == ("p9", "a", 40.0, "male")


def test_byte_order_marks_and_windows_line_ends_are_accepted(archive: Path) -> None:
    found = entries(archive, "\ufefffile,labels\r\na,AF;SR\r\n")
    assert found["a.hea"].labels == ("AF", "SR")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,patient\na,1\n", r"Column 'patient' cannot be kept.*'patient_id'"),
        ("patient_id\n1\n", r"every row needs 'file'"),
        ("file,patient_id\n,1\n", r"every row needs 'file'"),
    ],
)
def test_misspelled_and_missing_columns_raise_an_error_that_lists_the_known_ones(
    archive: Path, table: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        entries(archive, table)
    assert "record_id, patient_id, site, age, sex, labels" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file;age\na;1\n", "separated by ';'. Save it with commas"),
        ("file\tage\na\t1\n", "separated by .*. Save it with commas"),
        ("file,age\na,1,surplus\n", "line 2 has more values"),
        ("file,patient_id\na,1\n,2\n", "Missing on line 3"),
        ("file,patient_id\n", "no rows"),
        ("", "no rows"),
        ('file,patient_id\na,1\nb,"2\n', "line 3 has an unclosed quote"),
        ('file,patient_id\na,"1\nb,2\nc,"3"\n', "line 2 has an unclosed quote"),
        ('"file,patient_id\na,1\n', "line 1 has an unclosed quote"),
        ("file,patient_id\na,1\0\n", "contains NUL bytes"),
    ],
)
def test_an_invalid_table_raises_an_error_with_the_line(archive: Path, table: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        entries(archive, table)


def test_blanks_and_empty_rows_are_ignored(archive: Path) -> None:
    found = entries(archive, "file, patient_id ,labels\n a ,P1 ,AF\nb, P1,\n,,\n")
    assert {found[name].patient_id for name in ("a.hea", "ward/2/b.hea")} == {"P1"}


def test_ids_that_differ_only_in_case_give_a_warning_without_ids(archive: Path) -> None:
    with pytest.warns(UserWarning, match="lines 2 and 3 differ only in case") as caught:
        entries(archive, "file,patient_id\na,Smith\nb,smith\n")
    assert not any("mith" in str(warning.message) for warning in caught)


def test_an_ambiguous_file_name_raises_an_error(archive: Path) -> None:
    (archive / "ward/2/a.csv").write_bytes((archive / "c.csv").read_bytes())
    with pytest.raises(ConfigError, match=r"line 2 names 'a', which exists in '\.' and in 'ward/2'"):
        entries(archive, "file,patient_id\na,p1\n")
    found = entries(archive, "file,patient_id\na.hea,p1\nward/2/a,p2\n")
    assert (found["a.hea"].patient_id, found["ward/2/a.csv"].patient_id) == ("p1", "p2")


def test_a_file_without_a_row_is_its_own_patient(archive: Path) -> None:
    found = entries(archive, "file,patient_id\na,c\n")
    assert (found["a.hea"].patient_id, found["c.csv"].patient_id) == ("c", "file c")


@pytest.mark.parametrize("classes", ["AF=AFIB,AF=PVC", "SR=SR+", "=SR", "AF="])
def test_invalid_classes_raise_an_error(classes: str) -> None:
    with pytest.raises(ConfigError, match="class"):
        FOLDER.parse_options({"classes": classes})


@pytest.mark.parametrize("named", ["other/a.hea", "a.dat", "scan"])
def test_a_table_that_matches_no_recording_raises_an_error(archive: Path, named: str) -> None:
    """``a.dat`` and ``scan.pdf`` exist but are not recordings."""
    found = FOLDER.entries(open_source(archive), FOLDER.parse_options({"table": table_of(archive, named)}))
    with pytest.raises(ConfigError, match=rf"about\.csv: no row matches.* Line 2 names '{named}'.* is 'a\.hea'"):
        next(iter(found))


def test_unused_rows_give_a_warning(archive: Path) -> None:
    table = table_of(archive, "a", *(f"gone {number}" for number in range(2)))
    options = FOLDER.parse_options({"table": table})
    with pytest.warns(UserWarning, match=r"about\.csv: 2 of 3 rows match no recording.*: lines 3, 4$"):
        found = list(FOLDER.entries(open_source(archive), options))
    assert len(found) == 3
    table_of(archive, "a", *(f"gone {number}" for number in range(8)))
    with pytest.warns(UserWarning, match=r"8 of 9 rows .* lines 3, 4, 5, 6, 7 and 3 more$"):
        list(FOLDER.entries(open_source(archive), options))


def table_of(archive: Path, *files: str) -> str:
    """Return a table with the same values for each file."""
    path = archive.parent / "about.csv"
    path.write_text("file,site\n" + "".join(f"{file},north\n" for file in files))
    return str(path)


def test_two_rows_of_one_file_must_agree(archive: Path) -> None:
    assert entries(archive, "file,patient_id\na,p1\nc,p2\na,p1\n")["a.hea"].patient_id == "p1"
    with pytest.raises(ConfigError, match=r"about\.csv: lines 2 and 5 have the same 'file' but different values"):
        entries(archive, "file,patient_id\na,p1\n\nc,p2\na,p3\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("patient_id,sex\n17,F\n17,M\n", "lines 2 and 3 have the same 'patient_id'"),
        ("patient_id,sex\n", "it has no rows"),
        ('patient_id,sex\n17,"F\n', "line 2 has an unclosed quote"),
        ("patient_id,sex\n17,\0F\n", "contains NUL bytes"),
    ],
)
def test_an_invalid_patient_table_raises_an_error(archive: Path, key: Path, text: str, message: str) -> None:
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text("file,patient_id\na,17\n")
    patients.write_text(text)
    with pytest.raises(ConfigError, match=rf"patients\.csv: {message}"):
        loaded(archive, table=table, patients=patients, key=key)


def test_empty_columns_are_ignored_and_repeated_ones_raise_an_error(archive: Path) -> None:
    assert entries(archive, "file,patient_id,,\na,p1,,\n")["a.hea"].patient_id == "p1"
    with pytest.raises(ConfigError, match="Expected a column name"):
        entries(archive, "file,patient_id,\na,p1,x\n")
    with pytest.raises(ConfigError, match="two columns are named 'patient_id'"):
        entries(archive, "file,patient_id,patient_id\na,p1,p2\n")


def test_rows_of_patients_that_differ_only_in_case_must_agree(archive: Path, key: Path) -> None:
    """With a key they are one patient."""
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text("file,patient_id\na,x17\n")
    patients.write_text("patient_id,sex\nX17,F\nx17,M\n")
    with (
        pytest.warns(UserWarning, match="differ only in case"),
        pytest.raises(ConfigError, match=r"lines 2 and 3 have the same patient_id"),
    ):
        loaded(archive, table=table, patients=patients, key=key)


def test_a_missing_table_raises_an_error(archive: Path) -> None:
    options = FOLDER.parse_options({"table": str(archive / "absent.csv")})
    with pytest.raises(ConfigError, match=r"absent\.csv: no such file"):
        list(FOLDER.entries(open_source(archive), options))


def test_a_damaged_header_is_listed(archive: Path) -> None:
    (archive / "bad.hea").write_bytes(b"\0\0\0")
    assert "bad.hea" in entries(archive)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def loaded(archive: Path, **options: object) -> dict[str, Recording]:
    """Return the recordings that an ingest would store, by file."""
    source, chosen = open_source(archive), FOLDER.parse_options(options)
    return {entry.file: FOLDER.load(source, entry, chosen) for entry in FOLDER.entries(source, chosen)}


def test_with_a_key_tables_are_joined_by_original_ids(archive: Path, key: Path) -> None:
    """The patient of one file is in the table, of another in the file itself, of a third unknown."""
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


def test_times_in_files_are_used_with_a_key_and_those_of_a_table_always(hospital_files: Path, key: Path) -> None:
    """The time in the file is 2002-11-22 09:10, the patient SBJ-123."""
    name, secret, archive = "hl7_example_aecg.xml", read_key(key), hospital_files / "aecg"
    table = key.parent / "files.csv"
    table.write_text(f"file,acquired\n{name},2003-01-02 10:11:12\n")
    stated, listed = datetime(2002, 11, 22, 9, 10), datetime(2003, 1, 2, 10, 11, 12)
    assert loaded(archive)[name].acquired is None
    assert loaded(archive, key=key)[name].acquired == secret.shift_time(stated, "SBJ-123")
    assert loaded(archive, table=table)[name].acquired == listed
    assert loaded(archive, table=table, key=key)[name].acquired == secret.shift_time(listed, "SBJ-123")


def test_other_columns_of_a_table_are_kept(archive: Path) -> None:
    found = entries(archive, "file,fold,Device,target\na,1,AT-6,\nb, 2 ,CS 12,0.5\n")
    assert found["a.hea"].extra == {"fold": "1", "Device": "AT-6"}
    assert found["ward/2/b.hea"].extra == {"fold": "2", "Device": "CS 12", "target": "0.5"}
    assert found["c.csv"].extra == {}
    recording = FOLDER.load(open_source(archive), found["a.hea"], FOLDER.parse_options({}))
    assert recording.extra == {"fold": "1", "Device": "AT-6"}


@pytest.mark.parametrize("name", ["leads", "Patient ID", "AGE", "gender", "patient_code", "values", "extra", "x" * 101])
def test_names_that_stand_for_known_columns_raise_an_error(archive: Path, name: str) -> None:
    """A patient column that is not used would let a split leak."""
    with pytest.raises(ConfigError, match=r"about\.csv: (Column .* cannot be kept|Expected a column name)"):
        entries(archive, f"file,{name}\na,1\n")


def test_with_a_key_columns_that_may_identify_are_left_out_with_a_count(archive: Path, key: Path) -> None:
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"
    table.write_text(
        "file,patient_id,fold,seen,ward,nurse,copy,score,clock,date_order\n"
        "a,4711,1,8.5.1953,Smith; John,x,no 4711,0.123456789,09:30,2\n"
        'b,4712,2,soon,"Smith, John",y,none,1.5,10:30,1\n'
    )
    patients.write_text("patient_id,group,born on date\n4711,treated,1953\n4712,control,1954\n")
    with pytest.warns(UserWarning, match="is left out") as caught:
        found = loaded(archive, table=table, patients=patients, key=key)
    assert found["a.hea"].extra == {"fold": "1", "score": "0.123456789", "date_order": "2", "group": "treated"}
    assert found["ward/2/b.hea"].extra == {"fold": "2", "score": "1.5", "date_order": "1", "group": "control"}
    messages = " ".join(str(warning.message) for warning in caught)
    for part in (
        "'seen' is left out, because 1 values look like a date",
        "'ward' is left out, because 1 values look like a name",
        "'nurse' is left out, because its name may stand for a person",
        "'copy' is left out, because 1 values repeat an id",
        "'clock' is left out, because 2 values look like a date",
        "'born on date' is left out",
    ):
        assert part in messages
    assert not any(value in messages for value in ("1953", "Smith", "4711"))


def test_stored_options_contain_no_paths(archive: Path, key: Path) -> None:
    table = archive.parent / "files.csv"
    table.write_text("file,patient_id\na,17\n")
    kept = FOLDER.parse_options({"key": key, "table": table, "keep": "notes, labels"}).model_dump(mode="json")
    assert str(archive.parent) not in str(kept)
    assert kept["key"] == read_key(key).fingerprint
    assert (kept["keep"], len(kept["table"]), kept["patients"]) == (["labels", "notes"], 64, None)
    assert FOLDER.parse_options({}).model_dump(mode="json") == {"table": None}, "as before there were keys"


def test_a_recording_depends_only_on_its_own_row(archive: Path, key: Path) -> None:
    """An entry holds its row. Patient tables are joined by ids in files, so a recording depends on them."""
    table, patients = archive.parent / "files.csv", archive.parent / "patients.csv"

    def depends(rows: str, people: str) -> tuple[object, object]:
        table.write_text("file,patient_id\na,17\n" + rows)
        patients.write_text("patient_id,sex\n17,F\n" + people)
        options = FOLDER.parse_options({"key": key, "table": table, "patients": patients})
        return options.recording_options(), options.model_dump(mode="json")["table"]

    (before, old), (after, new), (other, _) = depends("", ""), depends("b,18\n", ""), depends("", "18,M\n")
    assert (before == after, old == new, before == other) == (True, False, False)
    moved = FOLDER.parse_options({"table": str(table)})
    assert moved.recording_options() == FOLDER.parse_options({}).recording_options() == {"table": None}
    sampling_rate = DATASETS.get("ptbxl").parse_options({"sampling_rate": "100"})
    assert sampling_rate.recording_options() == {"sampling_rate": "100"}


@pytest.mark.parametrize("options", [{"patients": "p.csv"}, {"keep": "labels"}])
def test_patient_options_need_a_key(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="need 'key'"):
        FOLDER.parse_options(options)


def test_one_ecg_in_two_formats_is_two_recordings(archive: Path) -> None:
    (archive / "a.csv").write_text("1,2,3,4,5,6,7,8,9,10,11,12\n")
    found = entries(archive)
    assert (found["a.csv"].record_id, found["a.hea"].record_id) == ("a", "a.hea")


def test_dicom_uids_as_file_names_are_kept_as_ids(archive: Path) -> None:
    """The last number of a UID is not an extension. A table may use the UID."""
    uids = ("ward/1.2.840.113619.1", "ward/1.2.840.113619.2")
    for number, uid in enumerate(uids):
        write(make_recording(seed=number), archive / "made.dcm", overwrite=True)
        (archive / "made.dcm").rename(archive / uid)
    found = entries(archive, "file,patient_id\n1.2.840.113619.2,p2\n")
    assert [found[uid].record_id for uid in uids] == list(uids)
    assert found[uids[1]].patient_id == "p2"


def test_unreadable_zip_archives_are_listed_and_raise_an_error(archive: Path, key: Path) -> None:
    (archive / "ward" / "Smith.zip").write_bytes(b"PK\3\4 broken")
    with zipfile.ZipFile(archive / "outer.zip", "w") as outer:
        outer.write(archive / "c.csv", "in/c.csv")
        outer.writestr("Smith.zip", b"PK")
    source = open_source(archive)
    found = entries(archive)
    assert {"ward/Smith.zip", "outer.zip/Smith.zip", "outer.zip/in/c.csv"} <= set(found)
    for options, shows_name in ({}, True), ({"key": key}, False):
        chosen = FOLDER.parse_options(options)
        for name, reason in (("ward/Smith.zip", "not a readable zip"), ("outer.zip/Smith.zip", "a zip within a zip")):
            with pytest.raises(FormatError, match=reason) as caught:
                FOLDER.load(source, found[name], chosen)
            assert ("Smith" in str(caught.value)) == shows_name
            assert ("Smith" in str(FOLDER.redact(found[name], chosen))) == shows_name


def test_damage_within_a_zip_affects_one_file(archive: Path) -> None:
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


def test_classes_are_groups_of_labels(tmp_path: Path) -> None:
    """Other classes make another version with the same shards."""
    made = clocs.ingest("synthetic", None, tmp_path / "made", options={"num_records": 10, "leads": 1})
    (tmp_path / "archive").mkdir()
    lines = ["file,labels"]
    for number in range(len(made)):
        recording = made.recording(number)
        write(recording, tmp_path / "archive" / f"{number}.csv")
        lines.append(f"{number},{';'.join(recording.labels)}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    options = {"table": str(tmp_path / "table.csv")}
    stores = [
        clocs.ingest("folder", tmp_path / "archive", tmp_path / "store", options={**options, **classes})
        for classes in ({}, {"classes": "SR, fast=ST+PVC"})
    ]
    assert stores[0].manifest.dataset["classes"] == {}
    assert stores[1].manifest.dataset["classes"] == {"SR": ["SR"], "fast": ["ST", "PVC"]}
    assert list(stores[0].shards) == list(stores[1].shards)
    frames = stores[1].frames()
    records = frames.locate(np.arange(len(frames)))[0]
    labels = [set(stores[1].recording(int(record)).labels) for record in records]
    expected = [["SR" in each, bool(each & {"ST", "PVC"})] for each in labels]
    assert frames.targets(np.arange(len(frames))).tolist() == expected


def test_tasks_come_from_a_file_and_are_kept_by_the_store(tmp_path: Path) -> None:
    for number in range(3):
        write(make_recording(seed=number), tmp_path / "archive" / f"f{number}.hea")
    (tmp_path / "table.csv").write_text("file,labels,lvef\nf0,AFIB,55\nf1,SR,\nf2,,30\n")
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text(
        "lvef: {title: Ejection fraction, kind: regression, column: lvef}\n"
        "rhythm: {title: Rhythm, kind: multi-class, classes: {AF: [AFIB], SR: [SR]}}\n"
    )
    options = {"table": str(tmp_path / "table.csv"), "tasks": str(tasks), "classes": "AF=AFIB"}
    store = clocs.ingest("folder", tmp_path / "archive", tmp_path / "store", options=options)
    assert list(store.manifest.dataset["tasks"]) == ["classes", "lvef", "rhythm"]
    assert clocs.task_targets(store, "lvef").included.tolist() == [True, False, True]
    assert clocs.task_targets(store, "rhythm").included.tolist() == [True, True, False]
    assert clocs.task_targets(store, "classes").truth[:, 0].tolist() == [True, False, False]
    assert "tasks" not in store.manifest.options
    del options["tasks"]
    with pytest.warns(UserWarning, match="-o tasks="):
        clocs.ingest("folder", tmp_path / "archive", tmp_path / "store", options=options)
    tasks.write_text("lvef: {kind: regression}\n")
    with pytest.raises(ConfigError, match=r"lvef.title"):
        FOLDER.parse_options({"tasks": str(tasks)})
    with pytest.raises(ConfigError, match="cannot be read as tasks"):
        FOLDER.parse_options({"tasks": str(tmp_path / "absent.yaml")})
