"""A user's own archive: any folder or zip of readable files, with an optional table about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.core.sources import Source, open_source
from clocs.datasets.dataset import Dataset, Entry, Options, age_of, read_csv, sex_of
from clocs.formats.reading import recognise
from clocs.signals.framing import FramePolicy

COLUMNS = ("file", "record_id", "patient_id", "site", "age", "sex", "labels")


class FolderOptions(Options):
    """What is known about the files."""

    table: Path | None = None
    """CSV with a column ``file`` (path within the source, or its name without ending) and any of
    ``record_id``, ``patient_id``, ``site``, ``age``, ``sex``, ``labels`` (several with ``;`` between)."""


def _entries(source: Source, options: FolderOptions) -> Iterator[Entry]:
    """Every file of a known format. Without a table, each recording is a patient of its own."""
    about = _table(options.table) if options.table else {}
    for name in source.names():
        if name.endswith(".hea") or recognise(source, name) is not None:
            stem = name.rsplit(".", 1)[0]
            row = about.get(name) or about.get(stem) or about.get(stem.rsplit("/", 1)[-1]) or {}
            yield Entry(
                file=name,
                record_id=row.get("record_id") or stem,
                patient_id=row.get("patient_id") or stem,
                site=row.get("site") or "",
                age=age_of(row.get("age")),
                sex=sex_of(row.get("sex")),
                labels=tuple(label.strip() for label in (row.get("labels") or "").split(";") if label.strip()),
            )


def _table(path: Path) -> dict[str, dict[str, str]]:
    if not path.is_file():
        raise ConfigError(f"table {path}: no such file")
    rows = list(read_csv(open_source(path.parent), path.name))
    unknown = sorted({str(column) for row in rows for column in row} - set(COLUMNS))
    if unknown or any(not row.get("file") for row in rows):
        raise ConfigError(
            f"table {path.name}: every row needs 'file'; other columns may be {', '.join(COLUMNS[1:])}"
            + (f"; unknown here: {', '.join(unknown)}" if unknown else "")
        )
    return {row["file"]: row for row in rows}


FOLDER = Dataset(
    name="folder",
    title="Any folder or zip of ECG files",
    licence="the owner's",
    citation="",
    homepage="",
    entries=_entries,
    options=FolderOptions,
    frames={
        "evaluation": FramePolicy(samples=2500, rate=500),
        "segments": FramePolicy(samples=2500, segments=2, rate=500),
    },
)
