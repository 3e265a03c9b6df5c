"""Finding the format of a file by its content, and reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clocs.core.errors import ConfigError, FormatError
from clocs.core.identity import Identity, check_identity_fields
from clocs.core.recording import Recording
from clocs.core.registry import Registry
from clocs.core.sources import Source, file_size, open_source
from clocs.signals.leads import add_derived_leads

HEAD_BYTES = 4096


class _Recognises(Protocol):
    def __call__(self, head: bytes, source: Source, name: str) -> bool: ...


class _Reads(Protocol):
    def __call__(self, source: Source, name: str) -> Recording: ...


class _Identifies(Protocol):
    def __call__(self, source: Source, name: str) -> Identity: ...


class _Needs(Protocol):
    def __call__(self, source: Source, name: str) -> Mapping[str, int | None]: ...


def _nobody(source: Source, name: str) -> Identity:
    return {}


def _nothing(source: Source, name: str) -> Mapping[str, int | None]:
    return {}


@dataclass(frozen=True)
class Format:
    """A file format: how it is told apart, and how it is read."""

    name: str
    description: str
    matches: _Recognises
    """From the first bytes of a file and what lies beside it; quick, and never an error."""
    read: _Reads
    """The recording in a file, its own leads only and nobody's identity; any fault of the file is a ``FormatError``."""
    read_identity: _Identifies = _nobody
    """What the file says about who was recorded, by whom and when; faults as in ``read``."""
    companions: _Needs = _nothing
    """Other files that are read with a file, and the bytes each must have; None: any number. Asked of files of every
    format, so it looks at the name first; faults as in ``read``."""


FORMATS: Registry[Format] = Registry(
    "format",
    {
        "wfdb": "clocs.formats.wfdb.record:WFDB",
        "chapman-csv": "clocs.formats.chapman_csv:CHAPMAN_CSV",
        "irhythm": "clocs.formats.irhythm:IRHYTHM",
        "muse-xml": "clocs.formats.muse_xml:MUSE_XML",
        "aecg": "clocs.formats.aecg:AECG",
        "philips-xml": "clocs.formats.philips_xml:PHILIPS_XML",
        "cardiosoft-xml": "clocs.formats.cardiosoft_xml:CARDIOSOFT_XML",
        "schiller-xml": "clocs.formats.schiller_xml:SCHILLER_XML",
        "dicom": "clocs.formats.dicom:DICOM",
        "scp": "clocs.formats.scp.reader:SCP",
        "edf": "clocs.formats.edf:EDF",
        "ishne": "clocs.formats.ishne:ISHNE",
        "mfer": "clocs.formats.mfer:MFER",
        "alivecor": "clocs.formats.alivecor:ALIVECOR",
        "apple-watch": "clocs.formats.apple_watch:APPLE_WATCH",
        "clocs-csv": "clocs.formats.clocs_csv:CLOCS_CSV",
    },
)


def read(path: str | os.PathLike[str], *, derive_leads: bool = True) -> Recording:
    """Read an ECG file; its format is found by its content.

    A WFDB record may be named by its header, its signal file or without an ending. III, aVR, aVL and
    aVF are derived where a file has I and II but lacks them; ``provenance.derived_leads`` says so.
    A file inside a zip is named ``archive.zip/folder/file``.
    """
    recording = read_from(*_located(path))
    return add_derived_leads(recording) if derive_leads else recording


def read_identity(path: str | os.PathLike[str], *fields: str) -> Identity:
    """What a file says about who was recorded, by whom and when: the fields asked for by name.

    A recording never holds any of it. The fields and what they cover: ``clocs.core.identity.IDENTITY_FIELDS``.
    """
    check_identity_fields(fields)
    found = read_identity_from(*_located(path))
    return {field: found[field] for field in fields if field in found}


def read_from(source: Source, name: str) -> Recording:
    """Read one file of a source, its own leads only."""
    form, candidate = _recognised(source, name)
    try:
        return form.read(source, candidate)
    except RecursionError as error:
        raise FormatError(f"{candidate}: nested too deeply to be read") from error


def read_identity_from(source: Source, name: str) -> Identity:
    """Everything that one file of a source says about identities."""
    form, candidate = _recognised(source, name)
    try:
        return form.read_identity(source, candidate)
    except RecursionError as error:
        raise FormatError(f"{candidate}: nested too deeply to be read") from error


def _located(path: str | os.PathLike[str]) -> tuple[Source, str]:
    place = Path(path)
    if place.is_dir():
        raise ConfigError(
            f"{path} is a folder; this takes one file at a time. A folder of ECGs becomes a store by 'clocs data "
            "ingest folder', and a store is embedded as a whole by 'clocs embed'"
        )
    return open_source(place.parent), place.name


def _recognised(source: Source, name: str) -> tuple[Format, str]:
    """The format of a file, and the name it goes by (a WFDB record's header)."""
    for candidate in _candidates(source, name):
        form = detect_format(source, candidate)
        if form is not None:
            return form, candidate
    if not source.exists(name):
        raise FormatError(f"{name}: no such file in {source.path}")
    raise FormatError(f"{name}: not a format clocs knows ({', '.join(FORMATS.names())})")


def detect_format(source: Source, name: str) -> Format | None:
    """The format of a file, or None."""
    head = source.head(name, HEAD_BYTES)
    return next((form for form in FORMATS if form.matches(head, source, name)), None)


def missing_companions(source: Source, name: str) -> dict[str, int | None]:
    """Files that one file needs and that are not as it says: the bytes of each; None where it is absent."""
    try:
        needed = {file: size for form in FORMATS for file, size in form.companions(source, name).items()}
    except FormatError:  # which the file's own size stands for
        return {}
    found = {file: file_size(source, file) for file in needed}
    return {file: size for file, size in found.items() if size is None or needed[file] not in (None, size)}


def _candidates(source: Source, name: str) -> list[str]:
    """The file itself, then the header that may stand for it (``A0001``, ``A0001.mat`` -> ``A0001.hea``)."""
    stem = name.rsplit(".", 1)[0] if "." in name.rsplit("/", 1)[-1] else name
    headers = [f"{name}.hea", f"{stem}.hea"]
    return [candidate for candidate in (name, *headers) if source.exists(candidate)]
