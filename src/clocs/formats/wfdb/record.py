"""Read a WFDB record from its header and its signal files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Digital, Provenance, Recording, to_int32
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import GAIN_RANGE, MAX_LEAD_NAME, make_unique, millivolts, record_id_from_name
from clocs.formats.demographics import parse_datetime
from clocs.formats.reading import Format
from clocs.formats.wfdb.header import Header, free_text_comments, parse_comments, parse_header
from clocs.formats.wfdb.samples import decode, signal_bytes
from clocs.signals.leads import canonical_lead, computed_leads

DATE_PATTERNS = ("%d/%m/%Y", "%Y-%m-%d", "%d-%b-%Y")

_RECORD_LINE = re.compile(rb"^\s*[\w.\-]+(/\d+)?[ \t]+\d+([ \t]+[\d.eE+\-]+.*)?\s*$")
_SIGNAL_LINE = re.compile(rb"^\s*\S+[ \t]+\d+(x\d+)?(:-?\d+)?(\+\d+)?(\s|$)")


@dataclass(frozen=True)
class SignalFile:
    """One signal file of a record."""

    path: str
    """Name of the file within the source."""
    format: int
    """Number of the signal format."""
    offset: int
    """Number of bytes before the samples."""
    channels: int
    """Number of signals in the file."""


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = parse_header(raw, name)
    digest = hashlib.sha256(raw)
    blocks: list[Digital] = []
    for file in _signal_files(header, name):
        if not source.exists(file.path):
            raise FormatError(f"{name}: a signal file that it names is missing")
        data = source.read(file.path)
        digest.update(data)
        blocks.append(decode(data[file.offset :], file.format, file.channels, header.num_samples, name))
    num_samples, longest = (end(block.shape[1] for block in blocks) for end in (min, max))
    if not num_samples:
        raise FormatError(f"{name}: its signal files hold no sample")
    notes = [f"its signal files differ in length, by {longest - num_samples} samples"] if num_samples < longest else []
    blocks = [block[:, :num_samples] for block in blocks]
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    digital = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    return _recording(header, digital, name, digest.hexdigest(), notes)


def _signal_files(header: Header, name: str) -> list[SignalFile]:
    """Return the signal files of a record, in the order of their signals."""
    folder = name[: name.rfind("/") + 1]
    grouped = groupby(header.signals, lambda line: (folder + line.file, line.format, line.offset))
    files = [SignalFile(*path, len(list(group))) for path, group in grouped]
    if len({file.path for file in files}) < len(files):
        raise FormatError(f"{name}: the signals of a file must be consecutive, with one format and offset")
    return files


def _companions(source: Source, name: str) -> dict[str, int | None]:
    """Return the signal files and their sizes. The size of a compressed file is not known."""
    if not name.lower().endswith(".hea"):
        return {}
    header = parse_header(source.read(name), name)
    return {file.path: _size(file, header.num_samples) for file in _signal_files(header, name)}


def _size(file: SignalFile, num_samples: int | None) -> int | None:
    size = None if num_samples is None else signal_bytes(file.format, file.channels, num_samples)
    return None if size is None else file.offset + size


def _recording(header: Header, digital: Digital, name: str, sha256: str, notes: list[str]) -> Recording:
    keep, unit, skipped_notes = _voltages(header, name)
    lines = [header.signals[row] for row in keep]
    gain = [line.gain / (millivolts(line.unit) or 1.0) if unit == "mV" else 1.0 for line in lines]
    if not all(GAIN_RANGE[0] <= abs(value) <= GAIN_RANGE[1] for value in gain):
        raise FormatError(f"{name}: gains from {min(gain)} to {max(gain)} per mV are out of range")
    comments = parse_comments(header.comments)
    leads = make_unique([canonical_lead(line.name[:MAX_LEAD_NAME]) or "ECG" for line in lines])
    notes += [
        *skipped_notes,
        *(
            [f"left out {comments.num_invalid_codes} entries of Dx that are not codes"]
            if comments.num_invalid_codes
            else []
        ),
    ]
    return Recording(
        digital=np.ascontiguousarray(digital if len(keep) == len(digital) else digital[keep]),
        gain=np.array(gain, np.float64),
        baseline=np.array([line.baseline if unit == "mV" else 0 for line in lines], np.int32),
        sampling_rate=header.sampling_rate,
        leads=leads,
        unit=unit,
        record_id=record_id_from_name(name),
        age=comments.age,
        sex=comments.sex,
        labels=comments.codes,
        provenance=Provenance(
            name,
            "wfdb",
            sha256,
            num_declared_samples=header.num_samples,
            notes=tuple(notes),
            derived_leads=computed_leads(comments.derived, leads),
        ),
    )


def _voltages(header: Header, name: str) -> tuple[list[int], Literal["mV", "adu"], list[str]]:
    """Return the rows that are voltages, their unit (adu if the header states no gains), and notes on skipped rows."""
    volts = [row for row, line in enumerate(header.signals) if millivolts(line.unit)]
    scaled = [row for row in volts if header.signals[row].gain != 0]
    keep = scaled or volts
    if not keep:
        raise FormatError(f"{name}: no signal is a voltage in V, mV, uV or nV")
    skipped = [line.name[:MAX_LEAD_NAME] or str(row) for row, line in enumerate(header.signals) if row not in keep]
    return keep, "mV" if scaled else "adu", [f"left out signal {label}" for label in skipped]


def _read_identity(source: Source, name: str) -> Identity:
    header = parse_header(source.read(name), name)
    return make_identity(acquired=[_start(header)], free_text=free_text_comments(header.comments))


def _start(header: Header) -> str:
    """Return the start of the record in ISO 8601, or the original text if its form is unknown."""
    text = " ".join(sorted(header.start, key=lambda word: ":" in word))
    found = parse_datetime(text, [f"{day} %H:%M:%S{rest}" for day in DATE_PATTERNS for rest in ("", ".%f")])
    return found.isoformat() if found else text


def _matches(head: bytes, source: Source, name: str) -> bool:
    if b"\0" in head:
        return False
    lines = (line for line in head.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))
    # Many texts start with a word and a number, but only a header continues with a file and its format.
    return bool(_RECORD_LINE.match(next(lines, b"")) and _SIGNAL_LINE.match(next(lines, b"")))


WFDB = Format(
    "wfdb", "PhysioNet's WFDB: .hea with .dat, .mat or FLAC signals", _matches, _read, _read_identity, _companions
)
