"""Recordings of the list by their handles, as endpoints open them."""

from __future__ import annotations

from dataclasses import dataclass

from clocs.core.recording import Recording
from clocs.service.parsing.reading import check_length, first_seconds
from clocs.service.problems import ProblemError
from clocs.service.recording_list import RecordingList
from clocs.service.routing import absent
from clocs.service.state import ServiceState


@dataclass(frozen=True, eq=False)
class StoredRecording:
    """A recording of the list, without identity."""

    record_id: str
    """Id in the store, for the audit log only."""
    recording: Recording
    seconds: float
    """Duration of the whole recording in seconds."""


def recording_list(state: ServiceState) -> RecordingList:
    """Return the list of recordings of the service."""
    if state.loaded.recordings is None:
        raise absent("This service was started without a store of recordings.")
    return state.loaded.recordings


def record_of(state: ServiceState, handle: str) -> str:
    """Return the record id of a handle."""
    recording_list(state)
    record_id = state.recording_handles.record(handle)
    if record_id is None:
        raise unknown_recording()
    return record_id


async def open_recording(state: ServiceState, handle: str, *, first: float | None = None) -> StoredRecording:
    """Open a recording of the list.

    Args:
        state: State of the service.
        handle: Handle of the recording.
        first: Only this number of seconds, for recordings of any length. None: the whole recording.

    Raises:
        ProblemError: The handle is unknown, or the recording was removed.
        SignalError: The whole recording is longer than an upload may be.
    """
    record_id, listed = record_of(state, handle), recording_list(state)

    def read() -> StoredRecording | None:
        found = listed.recording(record_id)
        if found is None:
            return None
        longest = state.settings.limits.longest_seconds
        part = check_length(found, longest) if first is None else first_seconds(found, first)
        return StoredRecording(record_id, part, found.seconds)

    opened = await state.threads.run(read)
    if opened is None:
        raise unknown_recording()
    return opened


def unknown_recording() -> ProblemError:
    """Return the refusal of an unknown handle."""
    return ProblemError(
        404,
        "unknown-recording",
        "Unknown recording",
        "The handle is unknown or has expired: handles are valid while the service runs and the recording is in the "
        "store. Open the list again.",
    )
