"""Embeddings of many files, as one table on disk."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clocs.core.csv_cells import escape_cell
from clocs.core.errors import ClocsError, ConfigError, LeadError, SignalError, UnitError
from clocs.core.storage.files import write_bytes
from clocs.formats import read
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.results import Embeddings

ENDINGS: Final = (".npz", ".csv", ".parquet")
"""File extensions of tables of embeddings."""


@dataclass(frozen=True)
class FileEmbeddings:
    """Embeddings of files, and the files that were refused."""

    embeddings: dict[str, Embeddings]
    """Embeddings by file."""
    refused: dict[str, str]
    """Reason by file."""


def embed_files(
    encoder: PretrainedEncoder,
    files: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    any_lead: bool = False,
) -> FileEmbeddings:
    """Embed files, and write a table of the embeddings.

    Args:
        encoder: The encoder.
        files: ECG files.
        out: Table to write, .npz, .csv or .parquet. None: no table is written.
        any_lead: Embed also leads that the encoder was not trained on.

    Returns:
        The embeddings, and the files that were refused with a reason.

    Raises:
        ConfigError: ``out`` has another extension.
    """
    write = None if out is None else _writer(Path(out))
    embeddings: dict[str, Embeddings] = {}
    refused: dict[str, str] = {}
    for file in (os.fspath(file) for file in files):
        try:
            recording = read(file)
        except ClocsError as error:  # also folders
            refused[file] = str(error)
            continue
        try:
            embeddings[file] = encoder.embed(recording, any_lead=any_lead)
        except (LeadError, SignalError, UnitError) as error:
            refused[file] = str(error)
    if out is not None and write is not None and embeddings:
        write_bytes(Path(out), write(_columns(embeddings)))
    return FileEmbeddings(embeddings, refused)


def _columns(embeddings: Mapping[str, Embeddings]) -> dict[str, Any]:
    """Return the columns of the table, with a row for each lead and frame of each file."""
    parts = embeddings.values()
    return {
        "source": np.repeat(list(embeddings), [len(part.lead) for part in parts]),
        "lead": np.array([lead for part in parts for lead in part.lead]),
        "start": np.concatenate([part.start for part in parts]),
        "values": np.concatenate([part.values for part in parts]),
    }


def _writer(path: Path) -> Callable[[dict[str, Any]], bytes]:
    """Return the function that encodes a table of this file extension."""
    writers = dict(zip(ENDINGS, (_npz, _csv, _parquet), strict=True))
    if path.suffix.lower() not in writers:
        raise ConfigError(f"{path.name}: unknown file extension. Embeddings are written as {', '.join(writers)}.")
    return writers[path.suffix.lower()]


def _npz(columns: dict[str, Any]) -> bytes:
    """Encode arrays source, lead, start (rows,) and values (rows, E)."""
    raw = io.BytesIO()
    np.savez(raw, **columns)
    return raw.getvalue()


def _csv(columns: dict[str, Any]) -> bytes:
    from pyarrow import csv

    raw = io.BytesIO()
    texts = {name: [escape_cell(text) for text in columns[name].tolist()] for name in ("source", "lead")}
    csv.write_csv(_table(columns | texts), raw)
    return raw.getvalue()


def _parquet(columns: dict[str, Any]) -> bytes:
    from pyarrow import parquet

    raw = io.BytesIO()
    parquet.write_table(_table(columns), raw)
    return raw.getvalue()


def _table(columns: dict[str, Any]) -> pa.Table:
    """Return a table with the columns source, lead, start and e0, e1, ..."""
    values = columns["values"]
    named = {name: columns[name] for name in ("source", "lead", "start")}
    return pa.table({**named, **{f"e{index}": values[:, index] for index in range(values.shape[1])}})
