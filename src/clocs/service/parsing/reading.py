"""Read the files of an upload into one recording without an identity, or into a failure without one.

Uploaded files are in memory only: a header that names a file elsewhere finds none.
"""

from __future__ import annotations

import io
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from clocs.core.errors import ClocsError, FormatError, LeadError, MissingExtraError, SignalError
from clocs.core.pseudonyms import PatientKey
from clocs.core.recording import Recording
from clocs.core.sources import Source, ZipSource
from clocs.datasets.redaction import deidentify_recording, replace_values, searchable_values
from clocs.formats.reading import detect_format, read_from, read_identity_from
from clocs.service.parsing.messages import MOST_VALUES, Failure
from clocs.service.parsing.plain_words import LEFT_OUT, plain
from clocs.service.privacy import shown_age
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads

MOST_MEMBERS: Final = 64
"""Files of an upload, those within an archive included."""
_NO_KEY: Final = PatientKey(bytes(32))
"""Pseudonyms are thrown away at once."""
_KINDS: Final = {FormatError: "FormatError", LeadError: "LeadError", SignalError: "SignalError"}
PLACE = "the upload"


def read_upload(files: Mapping[str, bytes]) -> Recording:
    """The one ECG of an upload, as ``clocs.read`` gives it, without ids, names, labels; faults are ``ClocsError``."""
    source: Source = MemorySource(files)
    name = ""
    try:
        source = upload_source(files)
        name = _chosen(source)
        return nameless(add_derived_leads(read_from(source, name)))
    except (MemoryError, MissingExtraError):
        raise
    except ClocsError as error:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), FormatError)
        raise kind(_safe(str(error), source, name)) from None


def nameless(recording: Recording) -> Recording:
    """A recording without what may say whose it is, in the leads' usual order; notes in the package's own words."""
    free = deidentify_recording(recording, _NO_KEY, name="", patient="", keep=("notes",))
    origin = replace(free.provenance, source="", sha256="", notes=tuple(plain(note) for note in free.provenance.notes))
    leads = sorted(
        free.leads, key=lambda lead: STANDARD_LEADS.index(lead) if lead in STANDARD_LEADS else len(STANDARD_LEADS)
    )
    free = replace(free, record_id="", patient_id="", age=shown_age(free.age), provenance=origin)
    return free.select(tuple(leads))


def whole(recording: Recording, longest: float) -> Recording:
    """The recording, refused where it is longer than a service takes."""
    if recording.seconds > longest or recording.digital.size > MOST_VALUES:
        raise SignalError(
            f"the recording has {len(recording.leads)} leads of {recording.seconds:.0f} s; this service takes up to "
            f"{longest:g} s and {MOST_VALUES:,} samples. Cut a part of it out."
        )
    return recording


def beginning(recording: Recording, seconds: float) -> Recording:
    """Its first seconds, fewer where there are very many samples."""
    num_samples = min(
        recording.num_samples, max(1, round(seconds * recording.sampling_rate)), MOST_VALUES // len(recording.leads)
    )
    return replace(recording, digital=recording.digital[:, :num_samples])


def failure_of(error: BaseException) -> Failure:
    """What is said about an error; of an unexpected one, only its type and where in the code it rose."""
    if isinstance(error, MemoryError):
        return Failure(error="MemoryError", message="reading this file takes more memory than the service gives it")
    if isinstance(error, MissingExtraError):
        return Failure(error="MissingExtraError", message=str(error))
    name = next((name for kind, name in _KINDS.items() if isinstance(error, kind)), None)
    if name is not None:
        return Failure.model_validate({"error": name, "message": str(error)})
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    message = "the file is damaged in a way that its reader does not expect"
    return Failure(error="unexpected", message=message, place=f"{type(error).__name__} {place}")


def _chosen(source: Source) -> str:
    """The file that stands for the recording: the one whose format is known."""
    names = []
    for name in source.names():
        names.append(name)
        if len(names) > MOST_MEMBERS:
            raise FormatError(f"the upload holds over {MOST_MEMBERS} files; send one recording")
    if not names:
        raise FormatError("the upload holds no file")
    known = [name for name in names if detect_format(source, name) is not None]
    if len(known) == 1:
        return known[0]
    if not known:
        return min(names)  # reading it says what is wrong
    raise FormatError(f"the upload holds {len(known)} recordings; send one at a time")


def _safe(message: str, source: Source, name: str) -> str:
    """A message without names, and without what the file says about anybody."""
    message = message.removeprefix(f"{name}: ")
    names = (name, *name.split("/"))
    with suppress(Exception):
        message = replace_values(message, searchable_values(read_identity_from(source, name)), LEFT_OUT)
    if "that it names is not there" in message:
        return (
            "the header names a signal file that is not in the upload. Send both together, the signal file under the "
            "name that the header gives, or send a zip of them"
        )
    return plain(message, *names) or "the file cannot be read"


class MemorySource:
    """Files by name."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.path = PLACE
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


class _Archive(io.BytesIO):
    """What ``ZipSource`` needs of a path: that it can be opened, and a name for its messages."""

    name = PLACE

    def __str__(self) -> str:
        return PLACE


def upload_source(files: Mapping[str, bytes]) -> Source:
    """The files as they are, or those in the one archive, which is read in place."""
    archives = [name for name in files if name.lower().endswith(".zip")]
    if not archives:
        return MemorySource(files)
    if len(files) > 1:
        raise FormatError("send a zip archive alone, with all files of one recording in it")
    return ZipSource(cast(Path, _Archive(files[archives[0]])))
