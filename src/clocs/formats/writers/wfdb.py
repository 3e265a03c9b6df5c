"""Write WFDB: a text header and one signal file, with the unchanged digital values, gains and baselines."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from clocs.core.recording import Recording
from clocs.formats.writers.digital_values import to_ascii
from clocs.formats.writing import EncodedRecording, Writer

CODES = {"int16": 16, "int32": 32}
MAX_TEXT_LENGTH = 200
MAX_LABEL_LENGTH = 40
SCALE_LOST = "raw digital values (adu) are written without their gain and baseline"
TEXT_CHANGED = "labels or lead names are written in ASCII, labels without commas and spaces, in 40 characters"


def _encode(recording: Recording, stem: str) -> EncodedRecording:
    digital = recording.digital
    frames = np.ascontiguousarray(digital.T).astype(digital.dtype.newbyteorder("<"), copy=False)
    rate = float(recording.sampling_rate)
    sampling_rate = int(rate) if rate.is_integer() else rate
    lines = [f"{stem} {len(digital)} {sampling_rate} {recording.num_samples}"]
    lines += [_signal_line(recording, row, stem) for row in range(len(digital))]
    lines += [f"#{comment}" for comment in _comments(recording)]
    header = "\n".join(lines) + "\n"
    return EncodedRecording({".dat": frames.tobytes(), ".hea": header.encode("ascii")}, tuple(_notes(recording)))


def _signal_line(recording: Recording, row: int, stem: str) -> str:
    """Return a signal line as in header(5) of the WFDB manual. A gain of 0 means that the values have no unit."""
    values = recording.digital[row]
    code = CODES[values.dtype.name]
    gain = f"{float(recording.gain[row])!r}({recording.baseline[row]})/mV" if recording.unit == "mV" else "0"
    checksum = int(values.sum(dtype=np.int64)) % 65536
    name = to_ascii(recording.leads[row], MAX_TEXT_LENGTH)
    return f"{stem}.dat {code} {gain} {code} 0 {values[0]} {checksum} 0 {name}"


def _comments(recording: Recording) -> Iterator[str]:
    """Iterate over comments with age, sex and diagnoses, in the style of the PhysioNet challenges."""
    if recording.age is not None:
        yield f"Age: {recording.age:.6g}"
    if recording.sex:
        yield f"Sex: {recording.sex.capitalize()}"
    if recording.labels:
        yield f"Dx: {','.join(_label(label) for label in recording.labels)}"
    if recording.patient_id:
        yield f"Patient: {to_ascii(recording.patient_id, MAX_TEXT_LENGTH)}"
    if recording.provenance.derived_leads:
        yield f"Derived from I and II: {', '.join(recording.provenance.derived_leads)}"


def _label(label: str) -> str:
    """Return a label as a code without spaces, because readers ignore other labels."""
    return re.sub(r"[^\w.+/-]", "_", to_ascii(label, MAX_LABEL_LENGTH), flags=re.ASCII) or "_"


def _notes(recording: Recording) -> Iterator[str]:
    if recording.unit != "mV" and ((recording.gain != 1).any() or recording.baseline.any()):
        yield SCALE_LOST
    names = [to_ascii(lead, MAX_TEXT_LENGTH) for lead in recording.leads]
    if [*map(_label, recording.labels), *names] != [*recording.labels, *recording.leads]:
        yield TEXT_CHANGED
    if recording.episodes:
        yield "episodes are not written"


WFDB = Writer("wfdb", "WFDB: .hea and .dat, 16 or 32 bits", (".hea", ".dat"), _encode, needs_plain_names=True)
