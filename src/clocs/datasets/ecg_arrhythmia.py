"""Chapman-Shaoxing and Ningbo 12-lead database: 45,152 patients, one 10 s recording each at 500 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options, load_entry
from clocs.datasets.task import Task
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

TABLE: Final = "ConditionNames_SNOMED-CT.csv"
RHYTHMS: Final = {
    "SB": "sinus bradycardia",
    "SR": "sinus rhythm",
    "AFIB": "atrial fibrillation",
    "ST": "sinus tachycardia",
    "AF": "atrial flutter",
    "SA": "sinus irregularity",
    "SVT": "supraventricular tachycardia",
    "AT": "atrial tachycardia",
    "AVNRT": "atrioventricular node reentrant tachycardia",
    "AVRT": "atrioventricular reentrant tachycardia",
    "SAAWR": "sinus to atrial wandering rhythm",
}
"""Acronyms of rhythms in the publisher's table. The first diagnosis of a header is the rhythm."""
FINDINGS: Final = (
    *("1AVB", "2AVB", "2AVB1", "2AVB2", "3AVB", "ABI", "ALS", "APB", "AQW", "ARS", "AVB", "CCR", "CR", "ERV", "FQRS"),
    *("IDC", "JEB", "JPT", "LBBB", "LVH", "LVQRSAL", "LVQRSCL", "LVQRSLL", "MI", "PRIE", "PWC", "QTIE", "RAH", "RBBB"),
    *("RVH", "STDD", "STE", "STTC", "STTU", "TWC", "TWO", "UW", "VB", "VEB", "VFW", "VPB", "VPE", "VET", "WPW"),
)
"""Acronyms of other findings. Several acronyms of the table share a code, of which the first is used."""
_HEADER = re.compile(r"(^|/)(JS\d{5})\.hea$")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the headers. Numbers up to 10646 are from Chapman-Shaoxing, the others from Ningbo."""
    _read_acronyms(source)  # raises an error without the table, before any recording is read
    for name in source.names():
        if match := _HEADER.search(name):
            record_id = match.group(2)
            yield Entry(name, record_id, record_id, site="chapman" if int(record_id[2:]) <= 10646 else "ningbo")


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read a recording and replace the SNOMED CT codes of its header by the publisher's acronyms."""
    recording = load_entry(source, entry, options)
    acronyms = _read_acronyms(source)
    return replace(recording, labels=tuple(acronyms.get(code, code) for code in recording.labels))


@lru_cache(maxsize=4)
def _read_acronyms(source: Source) -> dict[str, str]:
    """Return the acronym of each SNOMED CT code. Of several acronyms of a code, a rhythm is used, or the first."""
    table = find_table(source, TABLE)
    if table is None:
        raise FormatError(f"{source.path}: {TABLE} with the labels is missing. Download the dataset again.")
    acronyms: dict[str, str] = {}
    for row in read_csv(source, table):
        cells = {title.replace(" ", ""): value.strip() for title, value in row.items()}
        if not {"AcronymName", "Snomed_CT"} <= set(cells):
            raise FormatError(f"{table}: differs from the published table: no columns 'Acronym Name' and 'Snomed_CT'")
        acronym, code = cells["AcronymName"], cells["Snomed_CT"]
        if code not in acronyms or acronym in RHYTHMS:
            acronyms[code] = acronym
    return acronyms


ECG_ARRHYTHMIA = Dataset(
    name="ecg-arrhythmia",
    title="Chapman-Shaoxing and Ningbo 12-lead database for arrhythmia study",
    licence="CC BY 4.0",
    citation="Zheng et al., Optimal multi-stage arrhythmia classification approach, Scientific Reports 10:2898, 2020",
    homepage="https://physionet.org/content/ecg-arrhythmia/1.0.0/",
    entries=_entries,
    load=_load,
    # The four groups of rhythms of Zheng et al.
    classes={
        "AFIB": ("AFIB", "AF"),
        "GSVT": ("SVT", "AT", "SAAWR", "ST", "AVNRT", "AVRT"),
        "SB": ("SB",),
        "SR": ("SR", "SA"),
    },
    tasks={
        "rhythm": Task(title="Rhythm", kind="multi-class", classes={name: (name,) for name in RHYTHMS}),
        "findings": Task(
            title="Findings other than the rhythm",
            kind="multi-label",
            classes={name: (name,) for name in FINDINGS},
            keep_others=True,
        ),
    },
    meanings={
        "AFIB": "atrial fibrillation or flutter",
        "GSVT": "sinus tachycardia, atrial tachycardia, AVNRT, AVRT or another SVT; or a wandering atrial pacemaker",
        "SB": "sinus bradycardia",
        "SR": "sinus rhythm, regular or irregular",
    },
    limitations=("Only these four groups of rhythms are classes; other findings are labels of the recordings.",),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    gate=GatePolicy(min_seconds=5),
    downloads=(Download("https://physionet.org/files/ecg-arrhythmia/1.0.0/", listing=True),),
    expected={"in": 45152},
)
