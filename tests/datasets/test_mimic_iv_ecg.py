"""MIMIC-IV-ECG: its lead order, sentinels, reports, patients and diagnoses."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.mimic_iv_ecg import MIMIC_IV_ECG, REPORT
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.ingest import ingest
from clocs.store.task_targets import task_targets
from tests.datasets.made_up_ecg import millivolts

ORDER = (*STANDARD_LEADS[:4], "aVF", "aVL", *STANDARD_LEADS[6:])
"""Order of the leads in the files."""
PATHS = {
    "40000001": "files/p1000/p10000032/s40000001/40000001",
    "40000002": "files/p1000/p10000032/s40000002/40000002",
    "40000003": "files/p1001/p10010000/s40000003/40000003",
    "40000004": "files/p1001/p10010000/s40000004/40000004",
}
TIMES_OF_STUDIES = ("2180-07-23 08:44:00", "2178-01-02 10:00:00", "2100-05-05 00:00:00", "2101-05-05 00:00:00")
TIMES = "rr_interval,p_onset,p_end,qrs_onset,qrs_end,t_end,p_axis,qrs_axis,t_axis"
EXT = "study_id,subject_id,all_diag_all,ed_diag_ed,gender,age,strat_fold,ecg_no_within_stay,ecg_taken_in_ed_or_hosp\n"


def write(folder: Path, missing: str = "40000004") -> Path:
    """Write the published tree without the signal of one study."""
    rows = ["subject_id,study_id,file_name,ecg_time,path"]
    for (study, path), time in zip(PATHS.items(), TIMES_OF_STUDIES, strict=True):
        rows.append(f"{path.split('/')[2][1:]},{study},{study},{time},{path}")
    (folder / "record_list.csv").write_text("\n".join(rows) + "\n")
    for number, (study, path) in enumerate(PATHS.items()):
        if study != missing:
            write_wfdb(folder / path, millivolts(number, 500.0, 10.0))
    return folder


def write_wfdb(path: Path, signal: np.ndarray) -> None:
    """Write format 16 at 200 steps per mV in the order of this dataset."""
    path.parent.mkdir(parents=True)
    rows = [signal[STANDARD_LEADS.index(lead)] for lead in ORDER]
    np.rint(np.array(rows) * 200).astype("<i2").T.tofile(path.with_suffix(".dat"))
    lines = [f"{path.name} 12 500 {signal.shape[1]} 08:44:00 23/07/2180"]
    lines += [f"{path.name}.dat 16 200.0(0)/mV 16 0 0 0 0 {lead}" for lead in ORDER]
    path.with_suffix(".hea").write_text("\n".join(lines) + "\n")


def write_measurements(folder: Path, **reports: dict[int, str]) -> None:
    """Write the machine's table, sorted in another order than the list of records."""
    values = {
        "40000001": "800,40,150,200,294,600,32767,45,-32768",
        "40000002": "65535,29999,29999,200,180,29999,50,-32767,200",
    }
    header = f"subject_id,study_id,cart_id,ecg_time,{','.join(REPORT)},bandwidth,filtering,{TIMES}\n"
    rows = []
    for study, text in reversed(values.items()):
        lines = reports.get(f"s{study}", {})
        rows.append(f"1,{study},99,2180-07-23,{','.join(lines.get(line, '') for line in range(18))},x,y,{text}\n")
    (folder / "machine_measurements.csv").write_text(header + "".join(rows))


def entries(path: Path, **options: str) -> list[Entry]:
    return list(MIMIC_IV_ECG.entries(open_source(path), MIMIC_IV_ECG.parse_options(options)))


def test_leads_are_named_by_the_header(tmp_path: Path) -> None:
    source, found = open_source(write(tmp_path)), entries(tmp_path)
    recording = MIMIC_IV_ECG.load(source, found[0], MIMIC_IV_ECG.parse_options({}))
    assert recording.leads == ORDER
    np.testing.assert_allclose(recording.select(STANDARD_LEADS).signal, millivolts(0, 500.0, 10.0), atol=3e-3)


def test_studies_without_a_header_are_skipped_and_order_replaces_dates(tmp_path: Path) -> None:
    found = entries(write(tmp_path))
    assert [(entry.record_id, entry.patient_id) for entry in found] == [
        ("40000001", "10000032"),
        ("40000002", "10000032"),
        ("40000003", "10010000"),
    ]
    assert [dict(entry.extra) for entry in found] == [{"recording_order": text} for text in ("2", "1", "1")]
    assert {(entry.age, entry.sex, entry.labels) for entry in found} == {(None, None, ())}


def test_the_machines_statements_are_labels(tmp_path: Path) -> None:
    write_measurements(
        write(tmp_path),
        s40000001={0: "Sinus  rhythm.", 3: "Left axis deviation", 4: "SINUS RHYTHM", 17: "Abnormal ECG."},
    )
    found = entries(tmp_path)
    assert found[0].labels == ("sinus rhythm", "left axis deviation", "abnormal ecg")
    assert found[1].labels == ()


def test_values_that_could_not_be_measured_are_absent(tmp_path: Path) -> None:
    write_measurements(write(tmp_path))
    first, second, third = (dict(entry.extra) for entry in entries(tmp_path))
    assert {name: text for name, text in first.items() if name != "recording_order"} == {
        "rr_interval": "800",
        "pr_interval": "160",
        "qrs_duration": "94",
        "qt_interval": "400",
        "qrs_axis": "45",
    }
    assert second == {"recording_order": "1", "p_axis": "50"}
    assert third == {"recording_order": "1"}


@pytest.mark.parametrize("name", ["patients.csv", "hosp/patients.csv.gz"])
def test_age_and_sex_come_from_mimic_iv(tmp_path: Path, name: str) -> None:
    text = "subject_id,gender,anchor_age,anchor_year\n10000032,F,52,2180\n10010000,M,91,2100\n"
    path = write(tmp_path) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    people = [(entry.age, entry.sex) for entry in entries(tmp_path)]
    assert people == [(52.0, "female"), (50.0, "female"), (90.0, "male")]  # 91 stands for all ages over 89


def write_diagnoses(folder: Path) -> None:
    (folder / "records_w_diag_icd10.csv").write_text(
        EXT
        + '40000003,10010000,"[]","[]",missing,,19,-1,False\n'
        + "40000001,10000032,\"['I48.91', 'E1165', 'I10']\",\"['R079']\",F,52.0,3,0,True\n"
    )


def test_diagnoses_are_cut_to_five_characters_and_bring_their_groups(tmp_path: Path) -> None:
    write_diagnoses(write(tmp_path))
    first, second, third = entries(tmp_path)
    assert first.labels == ("I48", "I489", "I4891", "E11", "E116", "E1165", "I10")
    assert (first.age, first.sex) == (52.0, "female")
    assert (first.extra["strat_fold"], first.extra["ecg_no_within_stay"]) == ("3", "0")
    assert (first.extra["icd10_I48"], first.extra["icd10_I10"], first.extra["icd10_I50"]) == ("true", "true", "false")
    assert second.labels == ()
    assert "strat_fold" not in second.extra
    assert (third.sex, third.labels) == (None, ())  # "missing" is no sex
    assert dict(third.extra) == {"recording_order": "1", "strat_fold": "19", "in_ed_or_hospital": "false"}
    assert entries(tmp_path, diagnoses="ed_diag_ed")[0].labels == ("R07", "R079")


def test_a_task_leaves_out_studies_without_linked_diagnoses(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_diagnoses(write(tmp_path))
    store = ingest("mimic-iv-ecg", tmp_path, tmp_path_factory.mktemp("store") / "store")
    targets = task_targets(store, "icd10_I50")
    assert targets.included.tolist() == [True, False, False]
    assert targets.positives() == {"I50": 0}
    assert task_targets(store, "icd10_I48").positives() == {"I48": 1}


def test_a_store_has_leads_columns_and_no_dates(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_measurements(write(tmp_path))
    write_diagnoses(tmp_path)
    store = ingest("mimic-iv-ecg", tmp_path, tmp_path_factory.mktemp("store") / "store")
    assert [recording.record_id for recording in store] == ["40000001", "40000002", "40000003"]
    assert store.manifest.quarantined == {}
    assert store.table(["qrs_duration"]).column(0).to_pylist() == [94, None, None]
    assert "2180" not in str(store.table(["record_id", "source", "notes", "extra"]).to_pylist())


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("record_list.csv", "2180-07-23", "yesterday"),
        ("record_list.csv", "10000032,", "patient,"),
        ("records_w_diag_icd10.csv", '"[]"', '"none"'),
    ],
)
def test_a_table_that_differs_from_the_published_one_raises_an_error(
    tmp_path: Path, name: str, old: str, new: str
) -> None:
    write_diagnoses(write(tmp_path))
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    with pytest.raises(FormatError, match="differs from the published table"):
        entries(tmp_path)
