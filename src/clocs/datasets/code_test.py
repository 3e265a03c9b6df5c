"""CODE-test: 827 12-lead recordings at 400 Hz, the test set of the CODE study, with the consensus of cardiologists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.array_rows import count_hdf5_rows, load_tracing
from clocs.datasets.csv_tables import find_table, need_table, parse_flag, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options, SplitPolicy
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.framing import FramePolicy

SAMPLING_RATE = 400.0
LEADS = ("I", "II", "III", "aVL", "aVF", "aVR", "V1", "V2", "V3", "V4", "V5", "V6")
"""Order of the leads. It differs from CODE-15's, where aVR comes first of the augmented leads."""
FLAGS = ("1dAVb", "RBBB", "LBBB", "SB", "AF", "ST")
LABELS, ATTRIBUTES, TRACINGS = "gold_standard.csv", "attributes.csv", "ecg_tracings.hdf5"


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the rows of the three files, which are joined by their order: none of them has ids."""
    table = need_table(source, LABELS)
    file, attributes = find_table(source, TRACINGS), find_table(source, ATTRIBUTES)
    if file is None or attributes is None:
        absent = TRACINGS if file is None else ATTRIBUTES
        raise FormatError(f"{source.path}: {absent} is missing. Unpack data.zip again.")
    flags = list(read_csv(source, table, needed=FLAGS))
    people = list(read_csv(source, attributes, needed=("age", "sex")))
    counts = {file: count_hdf5_rows(source, file, "tracings"), table: len(flags), attributes: len(people)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise FormatError(
            f"Different numbers of rows, so they cannot be joined by their order: {listed}. Unpack again."
        )
    for row, (found, person) in enumerate(zip(flags, people, strict=True)):
        record_id = f"{row:04d}"
        yield Entry(
            file,
            record_id,
            record_id,
            age=parse_age(person["age"]),
            sex=parse_sex(person["sex"]),
            labels=tuple(name for name in FLAGS if parse_flag(found[name]) == "true"),
            extra={"amplitude_calibrated": "unknown"},
            row=row,
        )


CODE_TEST = Dataset(
    name="code-test",
    title="CODE-test, an annotated 12-lead ECG test set",
    licence="CC BY 4.0",
    citation="Ribeiro et al., Automatic diagnosis of the 12-lead ECG using a deep neural network, "
    "Nature Communications 11:1760, 2020",
    homepage="https://zenodo.org/records/3765780",
    entries=_entries,
    load=partial(load_tracing, leads=LEADS, sampling_rate=SAMPLING_RATE),
    classes={name: (name,) for name in FLAGS},
    tasks={
        "findings": Task(
            title="Six abnormalities, by consensus of cardiologists",
            kind="multi-label",
            classes={name: (name,) for name in FLAGS},
            keep_others=True,  # every recording was read for the six
        ),
        "age": AGE,
        "sex": SEX,
    },
    meanings={
        "1dAVb": "first-degree AV block",
        "RBBB": "right bundle branch block",
        "LBBB": "left bundle branch block",
        "SB": "sinus bradycardia",
        "AF": "atrial fibrillation",
        "ST": "sinus tachycardia",
    },
    limitations=(
        "The scale of the signals is in doubt: published as mV, they are about twice as large as those of others.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    split=SplitPolicy(train=0, validation=0, test=1, remainder="test"),
    downloads=(Download("https://zenodo.org/records/3765780/files/data.zip"),),
    expected={"in": 827},
)
