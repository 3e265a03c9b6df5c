"""Read the iRhythm test set: 16-bit samples at 200 Hz, with episodes annotated by a committee in a JSON file."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.recording import Episode, Provenance, Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import record_id_from_name
from clocs.formats.reading import Format, detect_format

SAMPLING_RATE = 200.0
EPISODE_SUFFIXES = tuple(f"_grp{number}.episodes.json" for number in range(3))
MAX_JSON_BYTES = 1 << 20
MAX_EPISODE_END = 1 << 40
"""Maximum end of an episode in samples. An episode may end after a strip that was cut."""


def _episode_file(source: Source, name: str) -> str | None:
    """Return the name of the episode file of a recording, or None."""
    stem = name.removesuffix(".ecg")
    return next((stem + ending for ending in EPISODE_SUFFIXES if source.exists(stem + ending)), None)


def _matches(head: bytes, source: Source, name: str) -> bool:
    # The signal file has no header: only its companion identifies the format.
    return name.endswith(".ecg") and not head.startswith(b"ISHNE") and _episode_file(source, name) is not None


def _read(source: Source, name: str) -> Recording:
    episode_file = _episode_file(source, name)
    if episode_file is None:
        raise FormatError(f"{name}: no episodes file beside it")
    raw, text = source.read(name), source.read(episode_file)
    num_samples = len(raw) // 2
    if not num_samples or len(raw) % 2:
        raise FormatError(f"{name}: {len(raw)} bytes are not a whole number of 16-bit samples")
    episodes = _episodes(text, episode_file, num_samples)
    return Recording(
        digital=np.frombuffer(raw, "<i2").reshape(1, -1).astype(np.int16),
        gain=np.ones(1),
        baseline=np.zeros(1, np.int32),
        sampling_rate=SAMPLING_RATE,
        leads=("ECG",),
        unit="adu",
        record_id=record_id_from_name(name),
        labels=tuple(sorted({episode.label for episode in episodes})),
        episodes=episodes,
        provenance=Provenance(name, "irhythm", hashlib.sha256(raw + text).hexdigest()),
    )


def _companions(source: Source, name: str) -> dict[str, int | None]:
    """Return the episode file that is missing, unless another format matches the file."""
    if not name.endswith(".ecg") or _episode_file(source, name) or detect_format(source, name):
        return {}
    return {name.removesuffix(".ecg") + EPISODE_SUFFIXES[0]: None}


def _episodes(text: bytes, name: str, num_samples: int) -> tuple[Episode, ...]:
    """Parse the episodes. Onsets count from 1 and offsets are inclusive in the file; [start, end) counts from 0."""
    if len(text) > MAX_JSON_BYTES:
        raise FormatError(f"{name}: {len(text)} bytes; expected at most {MAX_JSON_BYTES}")
    try:
        found = [_episode(entry) for entry in json.loads(text)["episodes"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise FormatError(f"{name}: not a list of episodes: {error!r:.200}") from error
    for episode in found:
        if not 0 <= episode.start < episode.end <= MAX_EPISODE_END or episode.start >= num_samples:
            raise FormatError(f"{name}: episode {episode.start}..{episode.end} is not within {num_samples} samples")
    return tuple(sorted(found, key=lambda episode: episode.start))


def _episode(entry: dict[str, Any]) -> Episode:
    onset, offset, label = entry["onset"], entry["offset"], entry["rhythm_name"]
    if not isinstance(onset, int) or not isinstance(offset, int) or not isinstance(label, str):
        raise TypeError("onset and offset must be integers, rhythm_name a text")
    label.encode()  # JSON may contain lone surrogates, which cannot be stored.
    return Episode(onset - 1, offset, label)


IRHYTHM = Format("irhythm", "iRhythm .ecg with committee episodes in JSON", _matches, _read, companions=_companions)
