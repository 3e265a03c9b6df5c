"""PhysioNet/CinC Challenge 2011, set A: 1,000 12-lead recordings of 10 s at 500 Hz, judged by signal quality."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.recording import Provenance, Recording
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table
from clocs.datasets.dataset import Dataset, Download, Entry, Options, apply_entry, load_entry
from clocs.datasets.task import Task
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF

TEXT_LEADS: Final = ("I", "II", "III", "aVR", "aVF", "aVL", "V1", "V2", "V3", "V4", "V5", "V6")
"""Leads of a text file, after the sample number. aVF comes before aVL."""
TEXT_GAIN: Final = 200.0
"""Steps per mV of a text file."""
SAMPLING_RATE: Final = 500.0
QUALITIES: Final = {
    "acceptable": ("RECORDS-acceptable", "RECORDS-acceptable.txt", "RECORDS-Group I.txt"),
    "unacceptable": ("RECORDS-unacceptable", "RECORDS-unacceptable.txt", "RECORDS-Group II.txt"),
}
"""Names of the lists of recordings of each quality, of which the first that exists is read."""
CLASSES: Final = {quality: (quality,) for quality in QUALITIES}
"""Two recordings have no label, and are in no class."""
_RECORD = re.compile(r"(^|/)set-a/(\d{7})\.(hea|txt)$")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the recordings of set A, with their quality. A header is preferred to a text file of the same recording."""
    quality = dict(_qualities(source))
    files = {match.group(0): name for name in source.names() if (match := _RECORD.search(name))}
    for key, name in files.items():
        stem, _, ending = key.rpartition(".")
        if ending == "txt" and f"{stem}.hea" in files:
            continue
        record_id = stem[-7:]
        label = quality.get(record_id)
        yield Entry(name, record_id, record_id, labels=(label,) if label else ())


def _qualities(source: Source) -> Iterator[tuple[str, str]]:
    """Iterate over the record ids of the lists and their quality."""
    for quality, lists in QUALITIES.items():
        name = find_table(source, *lists)
        for line in source.read(name).decode("ascii", "replace").split() if name else ():
            yield line, quality


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read a header or a text file. An age of 0 means that it is unknown."""
    if entry.file.endswith(".txt"):
        return apply_entry(_read_text(source, entry.file), entry)
    recording = load_entry(source, entry, options)
    return replace(recording, age=recording.age or None)


def _read_text(source: Source, name: str) -> Recording:
    """Read a text file: lines of the sample number and twelve values, separated by commas."""
    raw = source.read(name)
    try:
        rows = np.array([line.split(b",") for line in raw.split()], np.int64)
    except (ValueError, OverflowError):
        rows = np.empty((0, 0), np.int64)
    if rows.shape != (len(rows), 1 + len(TEXT_LEADS)) or not np.array_equal(rows[:, 0], np.arange(len(rows))):
        raise FormatError(f"{name}: expected lines of a sample number and {len(TEXT_LEADS)} integers")
    if not len(rows) or np.abs(rows[:, 1:]).max() >= 2**15:
        raise FormatError(f"{name}: it has no sample, or values beyond 16 bits")
    return Recording(
        digital=np.ascontiguousarray(rows[:, 1:].T.astype(np.int16)),
        gain=np.full(len(TEXT_LEADS), TEXT_GAIN),
        baseline=np.zeros(len(TEXT_LEADS), np.int32),
        sampling_rate=SAMPLING_RATE,
        leads=TEXT_LEADS,
        provenance=Provenance(name, "physionet2011", hashlib.sha256(raw).hexdigest()),
    )


PHYSIONET2011 = Dataset(
    name="physionet2011",
    title="PhysioNet/CinC Challenge 2011, set A: quality of ECGs collected with mobile phones",
    licence="ODC-By 1.0",
    citation="Silva et al., Improving the quality of ECGs collected using mobile phones: the PhysioNet/Computing in "
    "Cardiology Challenge 2011, Computing in Cardiology 38:273, 2011",
    homepage="https://physionet.org/content/challenge-2011/1.0.0/",
    entries=_entries,
    load=_load,
    classes=CLASSES,
    tasks={"quality": Task(title="Signal quality", kind="multi-class", classes=CLASSES)},
    meanings={
        "acceptable": "acceptable for interpretation",
        "unacceptable": "not acceptable for interpretation: noise, missing or misplaced electrodes",
    },
    limitations=("Quality was judged for the whole recording, not by lead.",),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    gate=GATE_OFF,  # the gate would remove what is to be recognized
    downloads=(Download("https://physionet.org/files/challenge-2011/1.0.0/", listing=True, only=("set-a/",)),),
    expected={"in": 1000},
)
