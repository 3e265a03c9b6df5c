"""WFDB records, as PhysioNet publishes them: a text header and signal files beside it.

Read here from bytes, not through the ``wfdb`` package: that one needs files on disk, trusts a header's
sizes, and spends most of its time on the header. The tests hold every value against it.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Digital, Provenance, Recording, missing_value, widen
from clocs.core.sources import Source
from clocs.formats.byte_fields import gathered, text_of
from clocs.formats.channels import (
    GAINS,
    MAX_CHANNELS,
    MAX_LEAD_NAME,
    MAX_SAMPLES,
    RATES,
    distinct,
    millivolts,
    record_id_of,
)
from clocs.formats.demographics import age_of, moment, sex_of
from clocs.formats.reading import Format
from clocs.signals.leads import COMBINATIONS, canonical, computed

MAX_HEADER = 1 << 20
"""Bytes."""
FLAC_BITS = {508: 8, 516: 16, 524: 24}
PIECE_FRAMES = 1 << 14
"""Decoded at once; an even number, for format 212 packs samples in pairs."""
SPARE_BYTES = 32 << 20
"""Compressed signals may unpack to four times their file plus this."""

DAYS = ("%d/%m/%Y", "%Y-%m-%d", "%d-%b-%Y")

_RECORD_LINE = re.compile(rb"^\s*[\w.\-]+(/\d+)?[ \t]+\d+([ \t]+[\d.eE+\-]+.*)?\s*$")
_SIGNAL_LINE = re.compile(rb"^\s*\S+[ \t]+\d+(x\d+)?(:-?\d+)?(\+\d+)?(\s|$)")
_SIGNAL_FORMAT = re.compile(r"^(\d+)(?:x(\d+))?(?::(-?\d+))?(?:\+(\d+))?$")
_GAIN = re.compile(r"^([-+\d.eE]+)(?:\(([-+]?\d+)\))?(?:/(\S+))?$")
_CODE = re.compile(r"[\w.+/-]{1,40}")
"""Of a diagnosis. What has blanks may be anything, a name too."""
_DERIVED = "derived from i and ii"


@dataclass(frozen=True)
class SignalLine:
    """One signal of a header."""

    file: str
    format: int
    offset: int
    gain: float
    """Steps per unit; 0: the header gives none."""
    baseline: int
    unit: str
    name: str


@dataclass(frozen=True)
class SignalFile:
    """One file of a record."""

    place: str
    format: int
    offset: int
    channels: int


@dataclass(frozen=True)
class Header:
    """What a ``.hea`` file says."""

    rate: float
    samples: int | None
    signals: tuple[SignalLine, ...]
    comments: tuple[str, ...]
    start: tuple[str, ...] = ()
    """Time and date, as far as the record line has them."""


def parse_header(data: bytes, name: str) -> Header:
    """Read a header; anything out of order is a ``FormatError``."""
    if len(data) > MAX_HEADER:
        raise FormatError(f"{name}: a header of {len(data)} bytes is none; {MAX_HEADER} are the most that is read")
    lines = [text_of(line) for line in data.splitlines()]
    body = [line for line in lines if line and not line.startswith("#")]
    comments = tuple(line[1:].strip() for line in lines if line.startswith("#"))
    try:
        fields = body[0].split()
        count = int(fields[1])
        rate = float(re.split(r"[/(]", fields[2])[0]) if len(fields) > 2 else 250.0
        samples = int(fields[3]) if len(fields) > 3 else 0
    except (IndexError, ValueError):
        raise FormatError(f"{name}: the record line is not 'name signals rate samples'") from None
    if "/" in fields[0]:
        raise FormatError(f"{name}: multi-segment records are not supported; read their segments one by one")
    if not 1 <= count <= MAX_CHANNELS or not RATES[0] <= rate <= RATES[1] or not 0 <= samples <= MAX_SAMPLES:
        raise FormatError(f"{name}: {count} signals of {samples} samples at {rate} Hz is not a record")
    if len(body) != 1 + count:
        raise FormatError(f"{name}: {count} signals announced, {len(body) - 1} described")
    signals = tuple(_signal_line(line, name) for line in body[1 : 1 + count])
    return Header(rate, samples or None, signals, comments, tuple(fields[4:6]))


def _signal_line(line: str, name: str) -> SignalLine:
    fields = line.split(maxsplit=8)
    form = _SIGNAL_FORMAT.match(fields[1]) if len(fields) > 1 else None
    if form is None:
        raise FormatError(f"{name}: a signal line names no format")
    try:
        code, per_frame, skew, offset = (int(group) if group else 0 for group in form.groups())
    except ValueError:  # Python reads no number of over 4,300 digits
        raise FormatError(f"{name}: the format of a signal is out of range") from None
    if per_frame > 1 or skew:
        raise FormatError(f"{name}: signals sampled at several rates or skewed are not supported")
    if "/" in fields[0] or "\\" in fields[0] or fields[0] in (".", ".."):
        raise FormatError(f"{name}: a signal file lies outside the record's folder")
    gain, baseline, unit = _gain(fields, name)
    return SignalLine(fields[0], code, offset, gain, baseline, unit, fields[8].strip() if len(fields) > 8 else "")


def _gain(fields: list[str], name: str) -> tuple[float, int, str]:
    match = _GAIN.match(fields[2]) if len(fields) > 2 else None
    if match is None and len(fields) > 2:
        raise FormatError(f"{name}: the gain of a signal is not 'steps(baseline)/unit'")
    try:
        gain = float(match.group(1)) if match else 0.0
        zero = int(fields[4]) if len(fields) > 4 else 0
        baseline = int(match.group(2)) if match and match.group(2) else zero
    except ValueError:
        raise FormatError(f"{name}: gain or baseline is no number") from None
    if not np.isfinite(gain) or abs(baseline) >= 2**31:
        raise FormatError(f"{name}: gain {gain} with baseline {baseline} is out of range")
    return gain, baseline, (match.group(3) or "mV") if match else "mV"


def _decode(data: bytes, code: int, channels: int, samples: int | None, name: str) -> Digital:
    """(channels, samples) from the bytes of one signal file, in pieces: memory stays near that of the result.

    All that is there, for the gate to compare with the ``samples`` announced, but for padding after them.
    """
    if code in FLAC_BITS:
        return _decode_flac(data, FLAC_BITS[code], channels, name)
    if code not in UNPACK:
        known = sorted([*UNPACK, *FLAC_BITS])
        raise FormatError(f"{name}: WFDB signal format {code} is not supported; supported: {known}")
    bits, dtype, unpack = UNPACK[code]
    frames = len(data) * 8 // bits // channels
    if samples and samples < frames and _is_padding(data[-(-samples * channels * bits // 8) :]):
        frames = samples
    digital: Digital = np.empty((channels, frames), dtype)
    for start in range(0, frames, PIECE_FRAMES):
        stop = min(start + PIECE_FRAMES, frames)
        piece = data[start * channels * bits // 8 : -(-stop * channels * bits // 8)]
        digital[:, start:stop] = unpack(piece)[: (stop - start) * channels].reshape(-1, channels).T
    return digital


def _is_padding(rest: bytes) -> bool:
    """Bytes of one value, or those that fill up a packed sample."""
    return len(rest) <= 2 or rest.count(rest[:1]) == len(rest)


def _unpack_80(data: bytes) -> Digital:
    return _remark(np.frombuffer(data, np.uint8).astype(np.int16) - 128, -128)


def _unpack_24(data: bytes) -> Digital:
    triples = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32)
    return _remark(((triples[:, 2] << 24) | (triples[:, 1] << 16) | (triples[:, 0] << 8)) >> 8, -(2**23))


def _unpack_212(data: bytes) -> Digital:
    """Two 12-bit samples in three bytes; a last odd sample takes two."""
    padded = np.frombuffer(data + b"\0" * (-len(data) % 3), np.uint8).reshape(-1, 3).astype(np.int16)
    low = padded[:, 0] | ((padded[:, 1] & 0x0F) << 8)
    high = padded[:, 2] | ((padded[:, 1] & 0xF0) << 4)
    flat = np.stack([low, high], axis=1).reshape(-1)
    flat = np.where(flat > 2047, flat - 4096, flat).astype(np.int16)
    return _remark(flat[: len(data) * 2 // 3], -2048)


def _decode_flac(data: bytes, bits: int, channels: int, name: str) -> Digital:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format != "FLAC" or file.channels != channels:
                raise FormatError(f"{name}: {file.channels} channels of {file.format}, header says {channels} of FLAC")
            width = 2 if bits <= 16 else 4
            if file.frames * channels * width > 4 * len(data) + SPARE_BYTES:
                raise FormatError(
                    f"{name}: claims {file.frames} samples, more than {len(data)} bytes are trusted to hold"
                )
            values = file.read(dtype="int16" if width == 2 else "int32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{name}: damaged FLAC: {error}") from error
    if bits == 16:
        return np.asarray(values.T)
    return _remark(values.T >> (8 * width - bits), -(1 << (bits - 1)))


def _remark(values: npt.NDArray[np.int16 | np.int32], missing: int) -> Digital:
    """Replace a narrow format's missing marker by its type's."""
    marked: Digital = np.where(values == missing, values.dtype.type(missing_value(values.dtype)), values)
    return marked


UNPACK: dict[int, tuple[int, type[np.signedinteger[Any]], Callable[[bytes], Digital]]] = {
    16: (16, np.int16, lambda data: np.frombuffer(data, "<i2")),
    24: (24, np.int32, _unpack_24),
    32: (32, np.int32, lambda data: np.frombuffer(data, "<i4")),
    61: (16, np.int16, lambda data: np.frombuffer(data, ">i2")),
    80: (8, np.int16, _unpack_80),
    212: (12, np.int16, _unpack_212),
}
"""By format: bits a sample, the type that holds it, and how samples are had from bytes."""


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = parse_header(raw, name)
    digest = hashlib.sha256(raw)
    blocks: list[Digital] = []
    for file in _signal_files(header, name):
        if not source.exists(file.place):
            raise FormatError(f"{name}: a signal file that it names is not there")
        data = source.read(file.place)
        digest.update(data)
        blocks.append(_decode(data[file.offset :], file.format, file.channels, header.samples, name))
    samples, longest = (end(block.shape[1] for block in blocks) for end in (min, max))
    if not samples:
        raise FormatError(f"{name}: its signal files hold no sample")
    notes = [f"its signal files differ in length, by {longest - samples} samples"] if samples < longest else []
    blocks = [block[:, :samples] for block in blocks]
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [widen(block) for block in blocks]
    digital = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    return _recording(header, digital, name, digest.hexdigest(), notes)


def _signal_files(header: Header, name: str) -> list[SignalFile]:
    """The files of a record, in the order of their signals."""
    folder = name[: name.rfind("/") + 1]
    grouped = groupby(header.signals, lambda line: (folder + line.file, line.format, line.offset))
    files = [SignalFile(*place, len(list(group))) for place, group in grouped]
    if len({file.place for file in files}) < len(files):
        raise FormatError(f"{name}: the signals of a file must stand together, with one format and offset")
    return files


def _needs(source: Source, name: str) -> dict[str, int | None]:
    """The signal files; how long they are follows from the header, but where they are compressed."""
    if not name.lower().endswith(".hea"):
        return {}
    header = parse_header(source.read(name), name)
    return {file.place: _size(file, header.samples) for file in _signal_files(header, name)}


def _size(file: SignalFile, samples: int | None) -> int | None:
    if samples is None or file.format not in UNPACK:
        return None
    return file.offset - (-samples * file.channels * UNPACK[file.format][0] // 8)


def _recording(header: Header, digital: Digital, name: str, sha256: str, notes: list[str]) -> Recording:
    keep, unit, left = _voltages(header, name)
    lines = [header.signals[row] for row in keep]
    gain = [line.gain / (millivolts(line.unit) or 1.0) if unit == "mV" else 1.0 for line in lines]
    if not all(GAINS[0] <= abs(steps) <= GAINS[1] for steps in gain):
        raise FormatError(f"{name}: gains from {min(gain)} to {max(gain)} steps per mV are out of range")
    about = dict(_comment_fields(header.comments))
    leads = distinct([canonical(line.name[:MAX_LEAD_NAME]) or "ECG" for line in lines])
    labels, others = _labels(header.comments)
    notes += [*left, *([f"left out {others} entries of Dx that are no codes"] if others else [])]
    return Recording(
        digital=np.ascontiguousarray(digital if len(keep) == len(digital) else digital[keep]),
        gain=np.array(gain, np.float64),
        baseline=np.array([line.baseline if unit == "mV" else 0 for line in lines], np.int32),
        rate=header.rate,
        leads=leads,
        unit=unit,
        record_id=record_id_of(name),
        age=age_of(about.get("age", "")),
        sex=sex_of(about.get("sex", "")),
        labels=labels,
        provenance=Provenance(
            name,
            "wfdb",
            sha256,
            declared_samples=header.samples,
            notes=tuple(notes),
            derived_leads=computed(about.get(_DERIVED, "").split(","), leads),
        ),
    )


def _labels(comments: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """The codes of all diagnoses, each once, and how many entries are none."""
    written = [value.split(",") for key, value in _comment_fields(comments) if key == "dx"]
    entries = [entry.strip() for entries in written for entry in entries if entry.strip()]
    codes = [entry for entry in entries if _CODE.fullmatch(entry)]
    return tuple(dict.fromkeys(codes)), len(entries) - len(codes)


def _voltages(header: Header, name: str) -> tuple[list[int], Literal["mV", "adu"], list[str]]:
    """Rows that are voltages; in mV where the header gives gains, else in raw steps."""
    volts = [row for row, line in enumerate(header.signals) if millivolts(line.unit)]
    scaled = [row for row in volts if header.signals[row].gain != 0]
    keep = scaled or volts
    if not keep:
        raise FormatError(f"{name}: no signal is a voltage in V, mV, uV or nV")
    left = [line.name[:MAX_LEAD_NAME] or str(row) for row, line in enumerate(header.signals) if row not in keep]
    return keep, "mV" if scaled else "adu", [f"left out signal {label}" for label in left]


def _comment_fields(comments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for comment in comments:
        key, found, value = comment.partition(":")
        if found:
            yield key.strip(" <>").lower(), value.strip()


def _identify(source: Source, name: str) -> Identity:
    header = parse_header(source.read(name), name)
    typed = [comment for comment in header.comments if _typed(comment)]
    return gathered(acquired=[_start(header)], free_text=[text.partition(":")[2].strip() or text for text in typed])


def _start(header: Header) -> str:
    """When the record began: ISO 8601 of the forms that are met, else as it is written."""
    written = " ".join(sorted(header.start, key=lambda word: ":" in word))
    found = moment(written, [f"{day} %H:%M:%S{rest}" for day in DAYS for rest in ("", ".%f")])
    return found.isoformat() if found else written


def _typed(comment: str) -> bool:
    """Whether a comment says something else than an age, a sex, codes of diagnoses or computed leads."""
    key, value = next(_comment_fields((comment,)), ("", comment))
    if key == "dx":
        return _labels((comment,))[1] > 0
    if key == _DERIVED:
        return not {canonical(lead) for lead in value.split(",")} <= set(COMBINATIONS)
    known = {"age": r"\d{0,3}(\.\d*)?|nan|unknown", "sex": r"f|m|female|male|nan|unknown"}
    return key not in known or not re.fullmatch(known[key], value.lower())


def _recognises(head: bytes, source: Source, name: str) -> bool:
    if b"\0" in head:
        return False
    lines = (line for line in head.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))
    # Many a text starts with a word and a number; only a header goes on with a file and its format.
    return bool(_RECORD_LINE.match(next(lines, b"")) and _SIGNAL_LINE.match(next(lines, b"")))


WFDB = Format("wfdb", "PhysioNet's WFDB: .hea with .dat, .mat or FLAC signals", _recognises, _read, _identify, _needs)
