"""Finding the format of a file by its content, and reading it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clocs.core.errors import ConfigError, FormatError
from clocs.core.recording import Recording
from clocs.core.registry import Registry
from clocs.core.sources import Source, open_source
from clocs.signals.leads import derive

HEAD_BYTES = 4096


class _Recognises(Protocol):
    def __call__(self, head: bytes, source: Source, name: str) -> bool: ...


class _Reads(Protocol):
    def __call__(self, source: Source, name: str) -> Recording: ...


@dataclass(frozen=True)
class Format:
    """A file format: how it is told apart, and how it is read."""

    name: str
    description: str
    recognises: _Recognises
    """From the first bytes of a file and what lies beside it; quick, and never an error."""
    read: _Reads
    """The recording in a file, its own leads only; any fault of the file is a ``FormatError``."""


FORMATS: Registry[Format] = Registry(
    "format",
    {
        "wfdb": "clocs.formats.wfdb:WFDB",
        "chapman-csv": "clocs.formats.chapman_csv:CHAPMAN_CSV",
        "irhythm": "clocs.formats.irhythm:IRHYTHM",
    },
)


def read(path: str | os.PathLike[str], *, derive_leads: bool = True) -> Recording:
    """Read an ECG file; its format is found by its content.

    A WFDB record may be named by its header, its signal file or without an ending. III, aVR, aVL and
    aVF are derived where a file has I and II but lacks them; ``provenance.derived_leads`` says so.
    A file inside a zip is named ``archive.zip/folder/file``.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f"{path} is a folder; clocs.read takes one file. For folders: clocs data ingest folder ...")
    source = open_source(place.parent)
    recording = read_from(source, place.name)
    return derive(recording) if derive_leads else recording


def read_from(source: Source, name: str) -> Recording:
    """Read one file of a source, its own leads only."""
    for candidate in _candidates(source, name):
        form = recognise(source, candidate)
        if form is not None:
            try:
                return form.read(source, candidate)
            except RecursionError as error:
                raise FormatError(f"{candidate}: nested too deeply to be read") from error
    if not source.exists(name):
        raise FormatError(f"{name}: no such file in {source.path}")
    raise FormatError(f"{name}: not a format clocs knows ({', '.join(FORMATS.names())})")


def recognise(source: Source, name: str) -> Format | None:
    """The format of a file, or None."""
    head = source.head(name, HEAD_BYTES)
    return next((form for form in FORMATS if form.recognises(head, source, name)), None)


def _candidates(source: Source, name: str) -> list[str]:
    """The file itself, then the header that may stand for it (``A0001``, ``A0001.mat`` -> ``A0001.hea``)."""
    stem = name.rsplit(".", 1)[0] if "." in name.rsplit("/", 1)[-1] else name
    headers = [f"{name}.hea", f"{stem}.hea"]
    return [candidate for candidate in (name, *headers) if source.exists(candidate)]
