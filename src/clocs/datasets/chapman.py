"""Chapman-Shaoxing 12-lead arrhythmia set: 10,646 patients, one 10 s recording each at 500 Hz."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table
from clocs.datasets.dataset import Dataset, Download, Entry, Options, SplitPolicy
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

LEADS = ("II", "V2", "aVL", "aVR")
GROUPS = {
    "AFIB": ("AFIB", "AF"),
    "GSVT": ("SVT", "AT", "SAAWR", "ST", "AVNRT", "AVRT"),
    "SB": ("SB",),
    "SR": ("SR", "SA"),
}
RHYTHMS = ("SB", "SR", "AFIB", "ST", "SVT", "AF", "SA", "AT", "AVNRT")
"""Rhythms with at least ten recordings, the most frequent first. AVRT has 8, SAAWR 7."""
FINDINGS = (
    *("TWC", "LVHV", "STTC", "RBBB", "STDD", "ALS", "VPB", "APB", "1AVB", "AQW", "ARS", "STTU", "AVB", "CCR", "TWO"),
    *("LVQRSCL", "IDC", "LVQRSLL", "LFBBB", "IVB", "PWC", "LBBB", "CR", "QTIE", "MIFW", "LRRI", "ERV", "UW", "JEB"),
    *("LVH", "MILW", "PRIE", "VPE"),
)
"""Codes of the column ``Beat`` with at least ten recordings, the most frequent first."""
TRUNCATED_RECORD = "MUSE_20180113_124215_52000"
"""Id of a recording with a truncated CSV: it ends in row 1,926, before V2. The paper uses its other leads."""


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the CSV files, or WFDB headers, with their rows of Diagnostics.xlsx."""
    metadata = _diagnostics(source)
    for name in source.names():
        folder, _, file = name.rpartition("/")
        stem, _, ending = file.rpartition(".")
        if ending in ("csv", "hea") and (stem in metadata or folder.endswith(("ECGDataDenoised", "WFDBRecords"))):
            yield replace(metadata.get(stem, Entry("", stem)), file=name)


def _diagnostics(source: Source) -> dict[str, Entry]:
    table = find_table(source, "Diagnostics.xlsx")
    if table is None:
        raise FormatError(f"{source.path}: Diagnostics.xlsx with the labels is missing. Download the dataset again.")
    rows = sheet_rows(source.read(table), table)
    columns = {str(title): index for index, title in enumerate(next(rows, ()))}
    try:
        name, rhythm, beat, age, sex = (
            columns[title] for title in ("FileName", "Rhythm", "Beat", "PatientAge", "Gender")
        )
    except KeyError as error:
        raise FormatError(f"{table}: the column {error} is missing. Download the table again.") from error
    entries: dict[str, Entry] = {}
    for row in rows:
        if len(row) < len(columns):
            raise FormatError(
                f"{table}: differs from the published table: a row has {len(row)} of {len(columns)} columns"
            )
        labels = (str(row[rhythm]).strip(), *(code for code in str(row[beat]).split() if code != "NONE"))
        stem = str(row[name])
        entries[stem] = Entry("", stem, stem, age=parse_age(row[age]), sex=parse_sex(row[sex]), labels=labels)
    return entries


def sheet_rows(data: bytes, name: str) -> Iterator[tuple[object, ...]]:
    """Read the rows of the first sheet of a workbook."""
    import openpyxl

    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
        yield from book.worksheets[0].iter_rows(values_only=True)
    except Exception as error:  # openpyxl raises whatever its XML and zip parsers do
        raise FormatError(f"{name}: not a readable workbook: {error}") from error


CHAPMAN = Dataset(
    name="chapman",
    title="Chapman-Shaoxing 12-lead arrhythmia database, denoised",
    licence="CC BY 4.0",
    citation="Zheng et al., A 12-lead electrocardiogram database for arrhythmia research covering more than "
    "10,000 patients, Scientific Data 7:48, 2020",
    homepage="https://doi.org/10.6084/m9.figshare.c.4560497.v2",
    entries=_entries,
    classes=GROUPS,
    tasks={
        "chapman-groups": Task(title="Four groups of rhythms, as in the paper", kind="multi-class", classes=GROUPS),
        "chapman-rhythm": Task(
            title="Rhythms with at least ten recordings",
            kind="multi-class",
            classes={name: (name,) for name in RHYTHMS},
        ),
        "chapman-findings": Task(
            title="Findings beside the rhythm with at least ten recordings",
            kind="multi-label",
            classes={name: (name,) for name in FINDINGS},
            keep_others=True,
        ),
        "age": AGE,
        "sex": SEX,
    },
    splits={"clocs": PublishedSplit("Split of the encoders that come with clocs", table="chapman-parts.csv.gz")},
    meanings={
        "AFIB": "atrial fibrillation or flutter",
        "GSVT": "sinus tachycardia, atrial tachycardia, AVNRT, AVRT or another SVT; or a wandering atrial pacemaker",
        "SB": "sinus bradycardia",
        "SR": "sinus rhythm, regular or irregular",
    },
    limitations=(
        "Only these four groups of rhythms were labelled: infarction, ischaemia, hypertrophy, conduction blocks, "
        "ventricular arrhythmias and paced rhythms are not among them.",
        "The signals were denoised by their publisher (low-pass at 50 Hz, baseline removed); others may not be.",
    ),
    frame_policies={
        # As in the paper, the sampling rate is halved and each recording is one frame, whatever its length.
        "evaluation": FramePolicy(
            num_samples=2500,
            num_source_samples="recording",
            normalization="minmax",
            leads=LEADS,
            excluded_leads=((TRUNCATED_RECORD, "V2"),),
        ),
        "segments": FramePolicy(
            num_samples=2500, num_segments=2, sampling_rate=500, normalization="minmax", leads=LEADS
        ),
    },
    split=SplitPolicy(train=0.6, validation=0.2, test=0.2, remainder="test"),
    gate=GatePolicy(min_seconds=10),
    downloads=(
        # The checksum of the zip is unknown, so this file is trusted on first use.
        Download("https://ndownloader.figshare.com/files/15652862", name="ECGDataDenoised.zip"),
        Download(
            "https://ndownloader.figshare.com/files/15653771",
            name="Diagnostics.xlsx",
            checksum="sha256:5c508faccf394bdeef092963ce3e6a8ce0bd7388f07a9ee6c25043375533a899",
        ),
        Download(
            "https://ndownloader.figshare.com/files/15651296",
            name="RhythmNames.xlsx",
            checksum="sha256:a2d49618f32ba054955816058855d8adb86ffeb51a2085024f1fecdd5ec1f741",
        ),
    ),
    expected={"in": 10646, "stored": 10597, "frames": 10646, "instances": 42575, "duplicate_groups": 7},
)
