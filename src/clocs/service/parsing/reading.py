"""Reading of uploaded files into one de-identified recording, or a de-identified failure.

Uploaded files exist in memory only. A header that refers to a file elsewhere finds none.
"""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from clocs.core.errors import ClocsError, FormatError, LeadError, SignalError
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.core.sources.zip_source import ZipSource
from clocs.datasets.redaction import (
    acquired_from,
    deidentify_recording,
    patient_id_from,
    replace_values,
    searchable_values,
)
from clocs.formats.reading import detect_format, read_from, read_identity_from
from clocs.service.parsing.messages import MAX_ID_LENGTH, MAX_SAMPLES, Failure
from clocs.service.parsing.redaction import REDACTED, redact
from clocs.service.privacy import coarse_age
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads

MAX_FILES: Final = 64
"""Maximum number of files in an upload, including those within an archive."""
_NO_KEY: Final = PatientKey(bytes(32))
"""Throwaway key, because pseudonyms are discarded at once."""
_KINDS: Final = {FormatError: "FormatError", LeadError: "LeadError", SignalError: "SignalError"}
UPLOAD_NAME = "the upload"


def read_upload(files: Mapping[str, bytes]) -> Recording:
    """Read the single ECG of an upload, without ids, names and labels.

    Args:
        files: Contents by file name.

    Returns:
        The recording, as :func:`clocs.read` returns it, with derived leads.

    Raises:
        ClocsError: The upload cannot be read. The message contains no content of the files.
    """
    source: Source = MemorySource(files)
    name = ""
    try:
        source = upload_source(files)
        name = _select_file(source)
        return remove_identity(add_derived_leads(read_from(source, name)))
    except MemoryError:
        raise
    except ClocsError as error:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), FormatError)
        raise kind(_sanitize_message(str(error), source, name)) from None


def read_identified_upload(files: Mapping[str, bytes]) -> Recording:
    """Read the single ECG of an upload, with its time and the id of its patient, and no other identity.

    Args:
        files: Contents by file name.
    """
    recording = read_upload(files)
    source = upload_source(files)
    try:
        identity = read_identity_from(source, _select_file(source))
    except FormatError:  # that part of the file is damaged
        identity = {}
    patient = patient_id_from(identity)[:MAX_ID_LENGTH]
    return replace(recording, patient_id=patient, acquired=acquired_from(identity))


def remove_identity(recording: Recording) -> Recording:
    """Return a recording without identifying information, with leads in standard order and redacted notes."""
    free = deidentify_recording(recording, _NO_KEY, name="", patient="", keep=("notes",))
    origin = replace(free.provenance, source="", sha256="", notes=tuple(redact(note) for note in free.provenance.notes))
    leads = sorted(
        free.leads, key=lambda lead: STANDARD_LEADS.index(lead) if lead in STANDARD_LEADS else len(STANDARD_LEADS)
    )
    free = replace(free, record_id="", patient_id="", acquired=None, age=coarse_age(free.age), provenance=origin)
    return free.select(tuple(leads))


def check_length(recording: Recording, max_seconds: float) -> Recording:
    """Return the recording, or raise an error if it is longer than the service accepts."""
    if recording.seconds > max_seconds or recording.digital.size > MAX_SAMPLES:
        raise SignalError(
            f"The recording has {len(recording.leads)} leads of {recording.seconds:.0f} s; this service accepts up to "
            f"{max_seconds:g} s and {MAX_SAMPLES:,} samples. Use a shorter part of it."
        )
    return recording


def first_seconds(recording: Recording, seconds: float) -> Recording:
    """Return the first seconds of a recording, fewer if it has very many samples."""
    num_samples = min(
        recording.num_samples, max(1, round(seconds * recording.sampling_rate)), MAX_SAMPLES // len(recording.leads)
    )
    return replace(recording, digital=recording.digital[:, :num_samples])


def failure_from_error(error: BaseException) -> Failure:
    """Return the failure for an error. Unexpected errors are described only by type and code location."""
    if isinstance(error, MemoryError):
        return Failure(error="MemoryError", message="Reading this file needs more memory than the service allows.")
    name = next((name for kind, name in _KINDS.items() if isinstance(error, kind)), None)
    if name is not None:
        return Failure.model_validate({"error": name, "message": str(error)})
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    message = "The file is damaged in an unexpected way."
    return Failure(error="unexpected", message=message, place=f"{type(error).__name__} {place}")


def _select_file(source: Source) -> str:
    """Return the file that represents the recording: the one with a known format."""
    names = []
    for name in source.names():
        names.append(name)
        if len(names) > MAX_FILES:
            raise FormatError(f"The upload contains more than {MAX_FILES} files. Send one recording.")
    if not names:
        raise FormatError("The upload contains no file.")
    known = [name for name in names if detect_format(source, name) is not None]
    if len(known) == 1:
        return known[0]
    if not known:
        return min(names)  # reading it reports the error
    raise FormatError(f"The upload contains {len(known)} recordings. Send one at a time.")


def _sanitize_message(message: str, source: Source, name: str) -> str:
    """Return a message without file names and without personal information of the file."""
    message = message.removeprefix(f"{name}: ")
    names = (name, *name.split("/"))
    with suppress(Exception):
        message = replace_values(message, searchable_values(read_identity_from(source, name)), REDACTED)
    if "that it names is missing" in message:
        return (
            "The header refers to a signal file that is not in the upload. Send both together, the signal file under "
            "the name in the header, or send a zip of them."
        )
    return redact(message, *names) or "The file cannot be read."


class MemorySource:
    """Source of files in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.path = UPLOAD_NAME
        self._files = files

    def names(self) -> Iterator[str]:
        yield from sorted(self._files)

    def exists(self, name: str) -> bool:
        return name in self._files

    def size(self, name: str) -> int:
        return len(self._files[name])

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FormatError(f"{name}: no such file in {self.path}")
        return self._files[name]

    def head(self, name: str, count: int) -> bytes:
        return self.read(name)[:count]

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        return answer()


class _Archive(io.BytesIO):
    """In-memory archive with the interface that ``ZipSource`` needs of a path."""

    name = UPLOAD_NAME

    def __str__(self) -> str:
        return UPLOAD_NAME


def upload_source(files: Mapping[str, bytes]) -> Source:
    """Return a source of the files, or of the members of a single zip archive."""
    archives = [name for name in files if name.lower().endswith(".zip")]
    if not archives:
        return MemorySource(files)
    if len(files) > 1:
        raise FormatError("Send a zip archive alone, with all files of one recording in it.")
    return ZipSource(cast(Path, _Archive(files[archives[0]])))
