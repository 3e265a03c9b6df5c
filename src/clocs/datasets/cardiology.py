"""The iRhythm test set of Hannun et al.: 328 single-lead strips of 30 s at 200 Hz, one per patient."""

from __future__ import annotations

from collections.abc import Iterator

from clocs.core.sources.source import Source
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.task import Task
from clocs.signals.framing import FramePolicy

CLASSES = {
    "AFIB": ("AFIB", "AFL"),
    "AVB": ("AVB_TYPE2",),
    "BIGEMINY": ("BIGEMINY",),
    "EAR": ("EAR",),
    "IVR": ("IVR",),
    "JUNCTIONAL": ("JUNCTIONAL",),
    "NOISE": ("NOISE",),
    "NSR": ("NSR",),
    "SVT": ("SVT",),
    "TRIGEMINY": ("TRIGEMINY",),
    "VT": ("VT",),
    "WENCKEBACH": ("WENCKEBACH",),
}
"""As in the paper, SUDDEN_BRADY is left out and AFIB and AFL are one class, which gives twelve classes."""


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the strips, which are named PATIENT_NUMBER.ecg."""
    for name in source.names():
        stem, suffix, _ = name.rsplit("/", 1)[-1].partition(".ecg")
        if suffix:
            yield Entry(name, patient_id=stem.rpartition("_")[0] or stem)


CARDIOLOGY = Dataset(
    name="cardiology",
    title="iRhythm Zio single-lead test set with committee annotations",
    licence="none published; local use only",
    citation="Hannun et al., Cardiologist-level arrhythmia detection and classification in ambulatory "
    "electrocardiograms using a deep neural network, Nature Medicine 25:65, 2019",
    homepage="https://irhythm.github.io/cardiol_test_set/",
    entries=_entries,
    classes=CLASSES,
    tasks={
        "cardiology": Task(
            title="Rhythms that occur in the strip", kind="multi-label", column="episodes", classes=CLASSES
        )
    },
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, num_source_samples=256, leads=("ECG",), label_at="start")
    },
    downloads=(
        Download(
            "https://irhythm.github.io/public_data/CARDIOL_MAY_2017.zip",
            checksum="sha256:d142fa49f8be435a431741d5b9bba30a28a597ad5cec159bf9414ebaced384dd",
        ),
    ),
    expected={"in": 328, "stored": 328, "frames": 7079, "instances": 7079, "classes": 12},
)
