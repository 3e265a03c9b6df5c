"""Recordings to write: real recordings, and random recordings of every kind that a reader may return."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from clocs.core.recording import Digital, Episode, Recording, missing_value
from clocs.core.sources.source import open_source
from clocs.formats.reading import read_from
from clocs.formats.writing import WriteOptions, encode, file_stem, output_paths, writer_for
from clocs.signals.leads import STANDARD_LEADS

NAMES = (*STANDARD_LEADS, "V7", "V3R", "X", "MCL1", "ECG", "MLII", "chest strap 2")
RATES = (1.0, 100.0, 128.5, 200.0, 240.0, 250.0, 257.0, 300.0, 1000 / 3, 360.0, 500.0, 511.987, 512.0, 1000.0, 2000.0)
GAINS = (1000.0, 200.0, 1000 / 4.88, 409.6, 12500.0, 300.0, -200.0, 1.0, 7.13, 1206.0, 1e5, 204.8)
DEFAULT = WriteOptions()
ORIGINALS = {"chapman": 16, "ptbxl": 66, "cpsc2018": 20, "ludb": 20}
"""Number of 12-lead recordings of each publisher in originals.zip."""


@st.composite
def recordings(draw: st.DrawFn, missing: bool = True, fastest: float = 1e4) -> Recording:
    """Draw a recording with any leads, sampling rate up to ``fastest``, gains and baselines, in 16 or 32 bits."""
    leads = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=13, unique=True)))
    count, num_samples = len(leads), draw(st.integers(1, 400))
    sampling_rate = draw(
        st.one_of(
            st.sampled_from([sampling_rate for sampling_rate in RATES if sampling_rate <= fastest]),
            st.floats(1.0, fastest),
        )
    )
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = np.int32 if draw(st.booleans()) else np.int16
    size = draw(st.sampled_from([1, 100, 30_000, int(np.iinfo(dtype).max)]))
    digital: Digital = random.integers(-size, size, (count, num_samples), endpoint=True).astype(dtype)
    if missing and draw(st.booleans()):
        digital[random.random(digital.shape) < draw(st.sampled_from([0.01, 0.5, 1.0]))] = missing_value(dtype)
    gain = st.one_of(st.sampled_from(GAINS), st.floats(0.01, 1e6))
    zero = st.one_of(st.just(0), st.integers(-40_000, 40_000))
    return Recording(
        digital=digital,
        gain=np.array(draw(st.lists(gain, min_size=count, max_size=count))),
        baseline=np.array(draw(st.lists(zero, min_size=count, max_size=count)), np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        record_id="r",
        patient_id="Smith-42",
        site="St Elsewhere",
        age=draw(st.sampled_from([None, 0.5, 74.0, 93.0])),
        sex=draw(st.sampled_from([None, "female", "male"])),
        labels=tuple(draw(st.lists(st.sampled_from(["59118001", "AFIB", "SR"]), max_size=3, unique=True))),
        episodes=tuple(draw(st.lists(st.builds(Episode, st.integers(0, 9), st.integers(9, 99), st.just("AF"))))),
    )


def write_quickly(recording: Recording, path: Path, contents: WriteOptions = DEFAULT) -> tuple[str, ...]:
    """Write like ``write`` but without waiting for the disk. Return the notes."""
    writer = writer_for(path, None)
    encoded = encode(recording, writer, file_stem(path, writer), contents)
    for file, data in zip(output_paths(path, writer, encoded), encoded.files.values(), strict=True):
        file.write_bytes(data)
    return encoded.notes


def millivolts(recording: Recording) -> npt.NDArray[np.float64]:
    """Return the values by the definition of a recording, shape (leads, samples). NaN is missing."""
    values = (recording.digital.astype(np.float64) - recording.baseline[:, None]) / recording.gain[:, None]
    values[recording.digital == missing_value(recording.digital.dtype)] = np.nan
    return values


def originals(archive: Path, publisher: str) -> Iterator[Recording]:
    """Iterate over every 12-lead recording of a publisher."""
    source = open_source(archive)
    for name in source.names():
        if name.startswith(publisher) and (name.endswith(".hea") or "ECGDataDenoised" in name):
            yield read_from(source, name)


def chapman(archive: Path, count: int) -> Iterator[Recording]:
    """Iterate over ``count`` evenly spaced recordings of the 10,646 in Chapman."""
    source = open_source(archive)
    names = [name for name in source.names() if name.endswith(".hea")]
    for name in names[:: len(names) // count][:count]:
        yield read_from(source, name)
