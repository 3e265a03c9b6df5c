"""EchoNext: 100,000 12-lead recordings of 10 s at 250 Hz, each with the findings of an echocardiogram."""

from __future__ import annotations

from collections.abc import Iterator

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets.array_rows import open_npy, recording_from_array
from clocs.datasets.csv_tables import need_table, parse_flag, read_csv
from clocs.datasets.dataset import Dataset, Entry, Options, apply_entry
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GatePolicy

SAMPLING_RATE = 250.0
TABLE_NAMES = ("echonext_metadata_100k.csv", "EchoNext_metadata_100k.csv")
SPLITS = ("train", "val", "test")
"""Published parts. The fourth, ``no_split``, shares patients with val and test and is left out."""
MEASURED = {
    "lvef_lte_45": ("Ejection fraction of 45 % or less", ("lvef_value",)),
    "lvwt_gte_13": ("Left ventricular wall of 13 mm or more", ("ivs_measurement", "lvpw_measurement")),
    "aortic_stenosis_moderate_or_greater": ("Aortic stenosis", ("aortic_stenosis_value",)),
    "aortic_regurgitation_moderate_or_greater": ("Aortic regurgitation", ("aortic_regurgitation_value",)),
    "mitral_regurgitation_moderate_or_greater": ("Mitral regurgitation", ("mitral_regurgitation_value",)),
    "tricuspid_regurgitation_moderate_or_greater": ("Tricuspid regurgitation", ("tricuspid_regurgitation_value",)),
    "pulmonary_regurgitation_moderate_or_greater": ("Pulmonary regurgitation", ("pulmonary_regurgitation_value",)),
    "rv_systolic_dysfunction_moderate_or_greater": (
        "Right ventricular systolic dysfunction",
        ("rv_systolic_function_value",),
    ),
    "pericardial_effusion_moderate_large": ("Pericardial effusion", ("pericardial_effusion_value",)),
    "pasp_gte_45": ("Pulmonary artery pressure of 45 mmHg or more", ("pasp_value",)),
    "tr_max_gte_32": ("Tricuspid regurgitation of 3.2 m/s or more", ("tr_max_velocity_value",)),
}
"""Title of each finding, and the measurements that its flag was derived from."""
COMPOSITE = "shd_moderate_or_greater"
"""Any of the findings. It has no measurement of its own."""
FINDINGS = (*MEASURED, COMPOSITE)
KEPT_COLUMNS = ("location_setting", "race_ethnicity", "pr_interval", "qrs_duration", "qt_corrected", "ventricular_rate")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the rows of the table in the published parts.

    Row i of a part's signals is the i-th row of the table after those of other parts are removed.
    """
    table = need_table(source, *TABLE_NAMES)
    folder = table[: table.rfind("/") + 1]
    needed = ("ecg_key", "patient_key", "age_at_ecg", "sex", "split", *(f"{name}_flag" for name in FINDINGS))
    values = tuple(column for _, columns in MEASURED.values() for column in columns)
    rows: dict[str, list[dict[str, str]]] = {split: [] for split in SPLITS}
    for row in read_csv(source, table, needed=(*needed, *values)):
        rows.get(row["split"], []).append(row)
    for split in SPLITS:
        file = f"{folder}EchoNext_{split}_waveforms.npy"
        if not source.exists(file):
            continue
        num_signals = len(open_npy(source, file))
        if num_signals != len(rows[split]):
            raise FormatError(
                f"{file} has {num_signals} rows and {table} {len(rows[split])} of {split}, so they cannot be joined by "
                "their order. Download both again."
            )
        for position, row in enumerate(rows[split]):
            yield _entry(row, file, position)


def _entry(row: dict[str, str], file: str, position: int) -> Entry:
    findings = {name: _finding(row, name) for name in FINDINGS}
    kept = {name: row.get(name, "").strip().removesuffix(".0") for name in KEPT_COLUMNS}
    extra = {"split": row["split"], "amplitude_calibrated": "false", **kept, **findings}
    return Entry(
        file,
        row["ecg_key"],
        row["patient_key"],
        age=parse_age(row["age_at_ecg"]),
        sex=parse_sex(row["sex"]),
        labels=tuple(name for name, text in findings.items() if text == "true"),
        extra={name: text for name, text in extra.items() if text and text.lower() != "nan"},
        row=position,
    )


def _finding(row: dict[str, str], name: str) -> str:
    """Return ``true`` or ``false``; empty if it was not measured, which the publisher's flag writes as 0."""
    flag = parse_flag(row[f"{name}_flag"])
    measurements = MEASURED[name][1] if name in MEASURED else ()
    is_measured = all(row[column].strip().lower() not in ("", "nan") for column in measurements)
    return flag if flag == "true" or is_measured else ""


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read one row of a part: (1, 2500, 12) without a unit, because the publisher standardized the values."""
    assert entry.row is not None
    signals = open_npy(source, entry.file)
    if not entry.row < len(signals):
        raise FormatError(f"{entry.file}: has no row {entry.row}, only {len(signals)} rows")
    values = signals[entry.row]
    values = values[0] if values.ndim == 3 and len(values) == 1 else values
    recording = recording_from_array(values.T, entry.file, STANDARD_LEADS, SAMPLING_RATE, unit="adu", row=entry.row)
    return apply_entry(recording, entry)


def _task(title: str, name: str) -> Task:
    return Task(title=title, kind="binary", column=name, classes={name: ("true",)}, keep_others=True)


ECHONEXT = Dataset(
    name="echonext",
    calibrated=False,
    title="EchoNext, ECGs with structural heart disease found by echocardiography",
    licence="PhysioNet Restricted Health Data License 1.5.0",
    citation="Poterucha et al., Detecting structural heart disease from electrocardiograms using AI, Nature 644, 2025",
    homepage="https://physionet.org/content/echonext/1.1.0/",
    entries=_entries,
    load=_load,
    classes={name: (name,) for name in FINDINGS},
    tasks={
        COMPOSITE: _task("Any structural heart disease; parts that were not measured count as absent", COMPOSITE),
        **{
            name: _task(f"{title}, among recordings with the measurement", name)
            for name, (title, _) in MEASURED.items()
        },
        "findings": Task(
            title="All twelve as published; what was not measured counts as absent",
            kind="multi-label",
            classes={name: (name,) for name in FINDINGS},
            keep_others=True,
        ),
        "age": AGE,
        "sex": SEX,
    },
    splits={
        "published": PublishedSplit(
            "Parts of the publisher", column="split", train=("train",), validation=("val",), test=("test",)
        )
    },
    meanings={COMPOSITE: "any structural heart disease"} | {name: title for name, (title, _) in MEASURED.items()},
    limitations=(
        "The publisher standardised the signals with constants that are not published, so amplitudes have no unit.",
        "A finding that was not measured is published as absent. In its own task such a recording is left out.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500, normalization="typical"),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500, normalization="typical"),
    },
    # The constants of the standardization are unknown, so the lead equations need not hold.
    gate=GatePolicy(max_lead_equation_error=None),
    expected={"in": 82543},
)
