"""Detect the format of an ECG file by its content, and read it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from clocs.core.errors import ConfigError, FormatError
from clocs.core.privacy.identity import Identity, check_identity_fields
from clocs.core.recording import Recording
from clocs.core.registry import Registry
from clocs.core.sources.source import Source, file_size, open_source
from clocs.core.sources.source_files import strip_extension
from clocs.signals.leads import add_derived_leads

HEAD_BYTES = 4096
"""Number of bytes at the start of a file that ``Format.matches`` receives."""
IMAGES: Final = {
    b"%PDF": "PDF",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"GIF8": "GIF",
}
"""Beginnings of files with images, and their names."""


class _MatchFunction(Protocol):
    def __call__(self, head: bytes, source: Source, name: str) -> bool: ...


class _ReadFunction(Protocol):
    def __call__(self, source: Source, name: str) -> Recording: ...


class _ReadIdentityFunction(Protocol):
    def __call__(self, source: Source, name: str) -> Identity: ...


class _CompanionsFunction(Protocol):
    def __call__(self, source: Source, name: str) -> Mapping[str, int | None]: ...


def _no_identity(source: Source, name: str) -> Identity:
    """Return an empty identity, for formats that contain none."""
    return {}


def _no_companions(source: Source, name: str) -> Mapping[str, int | None]:
    """Return no companion files, for formats of a single file."""
    return {}


@dataclass(frozen=True)
class Format:
    """File format for ECG recordings.

    Register an instance in ``FORMATS``, or through the entry point group ``clocs.formats``, to make
    ``clocs.read`` and the command line read the format.

    Args:
        name: Short name, for example ``"muse-xml"``.
        description: One line for lists of formats.
        matches: Function ``(head, source, name) -> bool``. It returns whether a file has this format, given its first
            4,096 bytes. It may look at other files of the source. It must be fast and must not raise.
        read: Function ``(source, name) -> Recording``. It returns only the leads in the file, and no identity. It
            raises ``FormatError`` for every invalid file.
        read_identity: Function ``(source, name) -> Identity``. It returns what the file contains about the patient,
            the staff and the time of the recording. It raises ``FormatError`` for every invalid file.
        companions: Function ``(source, name) -> Mapping``. It returns the other files that ``read`` needs, with the
            size of each in bytes, or None where any size is valid. It is called for files of every format, so it
            should check the name first.

    Example:
        >>> from clocs.core.recording import Recording
        >>> def matches(head, source, name):
        ...     return head.startswith(b"RAW1")
        >>> def read_raw(source, name):
        ...     digital = np.frombuffer(source.read(name)[4:], "<i2").reshape(1, -1)
        ...     return Recording(digital, np.array([200.0]), np.zeros(1, np.int32), 500.0, ("II",))
        >>> raw = Format("raw", "16-bit samples of lead II at 500 Hz", matches, read_raw)
        >>> raw.matches(b"RAW1...", None, "ecg.raw")
        True
    """

    name: str
    description: str
    matches: _MatchFunction
    read: _ReadFunction
    read_identity: _ReadIdentityFunction = _no_identity
    companions: _CompanionsFunction = _no_companions


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
    """Read an ECG file.

    The format is detected from the content of the file, never from its extension.

    Args:
        path: Path of the file. A WFDB record may be named by its header, by its signal file or without an extension.
            A file inside a zip archive is named ``archive.zip/folder/file``.
        derive_leads: Add III, aVR, aVL and aVF where the file has I and II but lacks them. The added leads are listed
            in ``provenance.derived_leads``.

    Returns:
        The recording, without anything that identifies the patient.

    Raises:
        FormatError: If the file does not exist, has no known format or is damaged.
        ConfigError: If ``path`` is a folder.

    Example:
        >>> digital = np.zeros((2, 2500), np.int16)
        >>> recording = clocs.Recording(digital, np.full(2, 200.0), np.zeros(2, np.int32), 500.0, ("I", "II"))
        >>> written = clocs.write(recording, "ecg.edf")
        >>> clocs.read("ecg.edf").leads
        ('I', 'II', 'III', 'aVR', 'aVL', 'aVF')
        >>> clocs.read("ecg.edf", derive_leads=False).leads
        ('I', 'II')
    """
    recording = read_from(*_source_and_name(path))
    return add_derived_leads(recording) if derive_leads else recording


def read_identity(path: str | os.PathLike[str], *fields: str) -> Identity:
    """Read what a file contains about the patient, the staff and the time of the recording.

    A recording never contains any of it, so every field has to be requested by name.

    Args:
        path: Path of the file, as in ``read``.
        fields: Names of the requested fields, see ``clocs.core.privacy.identity.IDENTITY_FIELDS``.

    Returns:
        The values of each requested field that the file contains.
    """
    check_identity_fields(fields)
    identity = read_identity_from(*_source_and_name(path))
    return {field: identity[field] for field in fields if field in identity}


def read_from(source: Source, name: str) -> Recording:
    """Read one file of a source.

    Args:
        source: Folder or archive, for example from ``clocs.core.sources.source.open_source``.
        name: Name of the file within the source, with ``/`` between folders.

    Returns:
        The recording with only the leads in the file; no leads are derived.

    Raises:
        FormatError: If the file does not exist, has no known format or is damaged.

    Example:
        >>> from clocs.core.sources.source import open_source
        >>> digital = np.zeros((1, 500), np.int16)
        >>> recording = clocs.Recording(digital, np.array([200.0]), np.zeros(1, np.int32), 250.0, ("II",))
        >>> written = clocs.write(recording, "ecg.csv")
        >>> read_from(open_source("."), "ecg.csv").num_samples
        500
    """
    format, candidate = _detect(source, name)
    try:
        return format.read(source, candidate)
    except RecursionError as error:
        raise FormatError(f"{candidate}: nested too deeply to be read") from error


def read_identity_from(source: Source, name: str) -> Identity:
    """Read every identity field that one file of a source contains."""
    format, candidate = _detect(source, name)
    try:
        return format.read_identity(source, candidate)
    except RecursionError as error:
        raise FormatError(f"{candidate}: nested too deeply to be read") from error


def _source_and_name(path: str | os.PathLike[str]) -> tuple[Source, str]:
    file = Path(path)
    if file.is_dir():
        raise ConfigError(
            f"{path} is a folder; expected one file. Make a store of a folder of ECGs with 'clocs data ingest folder', "
            "and embed a whole store with 'clocs embed'."
        )
    return open_source(file.parent), file.name


def _detect(source: Source, name: str) -> tuple[Format, str]:
    """Return the format of a file and the name to read it by (the header of a WFDB record)."""
    for candidate in _candidates(source, name):
        format = detect_format(source, candidate)
        if format is not None:
            return format, candidate
    if not source.exists(name):
        raise FormatError(f"{name}: no such file in {source.path}")
    head = source.head(name, HEAD_BYTES)
    for start, kind in IMAGES.items():
        if head.startswith(start):
            raise FormatError(
                f"{name}: images of ECGs are not read, and this is a {kind} file. Export the signal from the device or "
                "its archive, for example as DICOM, SCP-ECG or XML."
            )
    raise FormatError(f"{name}: not a format clocs knows ({', '.join(FORMATS.names())})")


def detect_format(source: Source, name: str) -> Format | None:
    """Return the format of a file, or None if no format matches."""
    head = source.head(name, HEAD_BYTES)
    return next((format for format in FORMATS if format.matches(head, source, name)), None)


def missing_companions(source: Source, name: str) -> dict[str, int | None]:
    """Return the companion files that are missing or have an unexpected size.

    Returns:
        The actual size of each such file in bytes; None for a missing file.
    """
    try:
        expected = _companions(source, name)
    except FormatError:  # The file itself is damaged, so its own size identifies its state.
        return {}
    actual = {file: file_size(source, file) for file in expected}
    return {file: size for file, size in actual.items() if size is None or expected[file] not in (None, size)}


def _companions(source: Source, name: str) -> dict[str, int | None]:
    """Return the companion files of a file with their sizes. The source may know them from an earlier ingest."""
    stem, found = strip_extension(name), dict[str, int | None]()

    def by_extension() -> str | None:
        """Return the sizes by extension, which names no file; None if a companion has another name."""
        for format in FORMATS:
            found.update(format.companions(source, name))
        if not all(file.startswith(stem) for file in found):
            return None
        return json.dumps({file.removeprefix(stem): size for file, size in found.items()})

    known = source.recall("companions", name, by_extension)
    return found or {stem + extension: size for extension, size in json.loads(known or "{}").items()}


def _candidates(source: Source, name: str) -> Iterator[str]:
    """Iterate over the file itself, then a WFDB header of the same name (``A0001``, ``A0001.mat`` -> ``A0001.hea``)."""
    stem = name.rsplit(".", 1)[0] if "." in name.rsplit("/", 1)[-1] else name
    headers = [f"{name}.hea", f"{stem}.hea"]
    return filter(source.exists, (name, *headers))
