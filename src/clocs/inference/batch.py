"""Classification of all recordings of a folder or a store into one table, in parallel and resumable.

A task classifies some recordings, and is named by a hash of its inputs. It writes its rows as a task record beside the
table; a task with a record never runs again. The table is assembled from the task records and written last.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from clocs.core import engine as engines
from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.hashes import content_hash, seal, unseal
from clocs.core.storage.files import is_inside, lock_folder, write_bytes
from clocs.inference.batch_inputs import Chunk, NamedRecording, read_chunks
from clocs.inference.batch_table import report_row, table_schema, table_writer
from clocs.inference.input_checks import GATE
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.report import make_report, report_origin
from clocs.store.manifest import check_not_inside_store
from clocs.store.task_records import Progress, run_tasks
from clocs.training.shipped import DEFAULT_ENCODER

FORMAT: Final = "clocs-classified-2"
WORK_EXTENSION: Final = ".tasks"
"""Extension of the folder of task records beside an unfinished table."""


@dataclass(frozen=True)
class ClassifiedTable:
    """A table of classified recordings."""

    path: Path
    """The table."""
    recordings: int
    """Number of rows."""
    withheld: tuple[str, ...]
    """Names of the recordings without classes."""


@dataclass(frozen=True)
class ClassificationTask:
    """Recordings to classify."""

    folder: Path
    """Folder of the task records."""
    chunk: Chunk
    encoder: PretrainedEncoder
    classifier: str | None
    name: str
    """Hash of the task's inputs."""

    @property
    def path(self) -> Path:
        """Path of the task record."""
        return self.folder / f"{self.name[:32]}.json"


@dataclass(frozen=True)
class FinishedTask:
    """Counts of a finished task. Its rows stay on disk, so that memory use does not grow with them."""

    path: Path
    records_in: int
    refused: tuple[str, ...]
    """Names of the recordings without classes."""


def classify_all(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    encoder: PretrainedEncoder | str | os.PathLike[str] = DEFAULT_ENCODER,
    classifier: str | None = None,
    key: str | os.PathLike[str] | None = None,
    device: str | None = None,
    engine: engines.Engine | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> ClassifiedTable:
    """Measure and classify every recording of a folder or a store, and write one table.

    Every recording has a row. The row has its classes, or the reason why there are none: they are withheld, or the file
    cannot be read. Call it again to continue an interrupted call.

    Args:
        source: A store, or a folder or zip archive of ECG files.
        out: Table to write: .csv, .parquet or .arrow.
        encoder: An encoder, or the name or folder of one. Default: the one that comes with the package.
        classifier: Name of a classifier. None: the first classifier that fits the leads of each recording.
        key: Key file of pseudonyms. With it, rows are named by pseudonyms instead of relative paths or record ids.
        device: Torch device, used if the encoder is given by name or folder. Default: ONNX Runtime.
        engine: Engine that runs the tasks. Default: this process, or worker processes if ``workers`` is above 1.
        workers: Number of worker processes.
        progress: Called with the number of recordings done and the number without classes.

    Returns:
        The table's path and counts. For research; not a diagnosis.

    Raises:
        ConfigError: The source has no recordings, the key is not that of the store, or ``out`` has another extension.
        StoreError: The encoder has no classifier, or the table cannot be written.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 3})
        >>> clocs.classify_all("store", "classes.csv").recordings
        3
    """
    table = Path(out)
    write = table_writer(table)
    check_not_inside_store(table)
    if Path(source).is_dir() and is_inside(table, Path(source)):
        raise ConfigError(f"{table} is inside {source}, which is only read. Choose another folder.")
    kind = engine or ("serial" if workers == 1 else "processes")
    threads = max(1, (os.cpu_count() or 1) // (1 if kind == "serial" else workers))
    loaded = (
        encoder if isinstance(encoder, PretrainedEncoder) else load_encoder(encoder, device=device, num_threads=threads)
    )
    schema = table_schema(loaded, classifier)  # rejects an unknown classifier before any work
    work = table.with_name(table.name + WORK_EXTENSION)
    with lock_folder(work):
        tasks = _tasks(work, read_chunks(Path(source), Path(key) if key else None), loaded, classifier)
        done = run_tasks(run_task, tasks, kind, workers, progress)
        write(schema, (_read_rows(task.path) or [] for task in done))
    shutil.rmtree(work)
    withheld = tuple(name for task in done for name in task.refused)
    return ClassifiedTable(table, sum(task.records_in for task in done), withheld)


def _tasks(
    folder: Path, chunks: Iterator[Chunk], encoder: PretrainedEncoder, classifier: str | None
) -> Iterator[ClassificationTask]:
    cards = {name: item.card.model_dump(mode="json") for name, item in encoder.classifiers.items()}
    origin = asdict(report_origin(encoder))
    shared = content_hash([FORMAT, origin, cards, classifier, GATE.model_dump(mode="json")])
    for chunk in chunks:
        yield ClassificationTask(folder, chunk, encoder, classifier, content_hash([shared, chunk.digest]))


def run_task(task: ClassificationTask) -> FinishedTask:
    """Classify the recordings of a task, or return the existing result of a finished task."""
    rows = _read_rows(task.path)
    if rows is None:
        row = functools.partial(_row, task.encoder, task.classifier)
        rows = list(map(row, task.chunk.read()))
        write_bytes(task.path, seal({"rows": rows}))
    return FinishedTask(task.path, len(rows), tuple(row["recording"] for row in rows if row["gate"] != "passed"))


def _row(encoder: PretrainedEncoder, classifier: str | None, item: NamedRecording) -> dict[str, Any]:
    if item.recording is None:
        row = {"recording": item.name, "gate": "unreadable", "reason": item.reason}
        return row | asdict(report_origin(encoder))
    return report_row(item.name, make_report(encoder, item.recording, classifier=classifier))


def _read_rows(path: Path) -> list[dict[str, Any]] | None:
    """Read the rows of a finished task; None if it is not finished."""
    try:
        rows: list[dict[str, Any]] = unseal(path.read_bytes(), path.name)["rows"]
    except (OSError, IntegrityError):
        return None
    return rows
