"""Parse the header of a WFDB record: its signals, and the age, sex and diagnoses in its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import decode_text
from clocs.formats.channels import MAX_CHANNELS, MAX_SAMPLES, SAMPLING_RATE_RANGE
from clocs.formats.demographics import Sex, parse_age, parse_sex
from clocs.signals.leads import LEAD_EQUATIONS, canonical_lead

MAX_HEADER = 1 << 20
"""Maximum length of a header in bytes."""

_SIGNAL_FORMAT = re.compile(r"^(\d+)(?:x(\d+))?(?::(-?\d+))?(?:\+(\d+))?$")
_GAIN = re.compile(r"^([-+\d.eE]+)(?:\(([-+]?\d+)\))?(?:/(\S+))?$")
_DIAGNOSIS_CODE = re.compile(r"[\w.+/-]{1,40}")
"""Code of a diagnosis. A text with spaces may be anything, such as a name."""
_DERIVED = "derived from i and ii"


@dataclass(frozen=True)
class SignalLine:
    """One signal of a header."""

    file: str
    """Name of the signal file."""
    format: int
    """Number of the signal format."""
    offset: int
    """Number of bytes before the samples in the signal file."""
    gain: float
    """Digital units per physical unit; 0 if the header states no gain."""
    baseline: int
    """Digital value of 0."""
    unit: str
    """Physical unit."""
    name: str
    """Name of the signal."""


@dataclass(frozen=True)
class Header:
    """Content of a ``.hea`` file."""

    sampling_rate: float
    """Sampling rate in Hz."""
    num_samples: int | None
    """Declared number of samples, or None."""
    signals: tuple[SignalLine, ...]
    """Signals in the order of the header."""
    comments: tuple[str, ...]
    """Comment lines without ``#``."""
    start: tuple[str, ...] = ()
    """Time and date of the record line, if present."""


def parse_header(data: bytes, name: str) -> Header:
    """Parse a header.

    Raises:
        FormatError: If the header is invalid or not supported.
    """
    if len(data) > MAX_HEADER:
        raise FormatError(f"{name}: a header of {len(data)} bytes is too long; expected at most {MAX_HEADER}")
    lines = [decode_text(line) for line in data.splitlines()]
    body = [line for line in lines if line and not line.startswith("#")]
    comments = tuple(line[1:].strip() for line in lines if line.startswith("#"))
    try:
        fields = body[0].split()
        num_signals = int(fields[1])
        sampling_rate = float(re.split(r"[/(]", fields[2])[0]) if len(fields) > 2 else 250.0
        num_samples = int(fields[3]) if len(fields) > 3 else 0
    except (IndexError, ValueError):
        raise FormatError(f"{name}: the record line is not 'name signals rate samples'") from None
    if "/" in fields[0]:
        raise FormatError(f"{name}: multi-segment records are not supported; read their segments one by one")
    if (
        not 1 <= num_signals <= MAX_CHANNELS
        or not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]
        or not 0 <= num_samples <= MAX_SAMPLES
    ):
        raise FormatError(
            f"{name}: {num_signals} signals of {num_samples} samples at {sampling_rate} Hz is not a record"
        )
    if len(body) != 1 + num_signals:
        raise FormatError(f"{name}: {num_signals} signals declared, {len(body) - 1} described")
    signals = tuple(_signal_line(line, name) for line in body[1 : 1 + num_signals])
    return Header(sampling_rate, num_samples or None, signals, comments, tuple(fields[4:6]))


def _signal_line(line: str, name: str) -> SignalLine:
    fields = line.split(maxsplit=8)
    form = _SIGNAL_FORMAT.match(fields[1]) if len(fields) > 1 else None
    if form is None:
        raise FormatError(f"{name}: a signal line names no format")
    try:
        code, per_frame, skew, offset = (int(group) if group else 0 for group in form.groups())
    except ValueError:  # Python does not parse integers of over 4,300 digits.
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
        raise FormatError(f"{name}: the gain of a signal is not 'gain(baseline)/unit'")
    try:
        gain = float(match.group(1)) if match else 0.0
        zero = int(fields[4]) if len(fields) > 4 else 0
        baseline = int(match.group(2)) if match and match.group(2) else zero
    except ValueError:
        raise FormatError(f"{name}: gain or baseline is not a number") from None
    if not np.isfinite(gain) or abs(baseline) >= 2**31:
        raise FormatError(f"{name}: gain {gain} with baseline {baseline} is out of range")
    return gain, baseline, (match.group(3) or "mV") if match else "mV"


@dataclass(frozen=True)
class CommentFields:
    """Demographics and diagnoses in the comments of a header."""

    age: float | None
    """Age in years."""
    sex: Sex | None
    """Sex of the patient."""
    codes: tuple[str, ...]
    """Unique codes of the diagnoses."""
    num_invalid_codes: int
    """Number of diagnoses that are not codes."""
    derived: tuple[str, ...]
    """Leads that were computed from I and II."""


def parse_comments(comments: tuple[str, ...]) -> CommentFields:
    """Parse the comments of a header."""
    fields = dict(_fields(comments))
    codes, num_invalid = _codes(comments)
    derived = tuple(fields.get(_DERIVED, "").split(","))
    age, sex = parse_age(fields.get("age", "")), parse_sex(fields.get("sex", ""))
    return CommentFields(age, sex, codes, num_invalid, derived)


def free_text_comments(comments: tuple[str, ...]) -> list[str]:
    """Return the comments that are not an age, a sex, codes of diagnoses or derived leads."""
    return [comment.partition(":")[2].strip() or comment for comment in comments if _is_free_text(comment)]


def _codes(comments: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    values = [value for key, value in _fields(comments) if key == "dx"]
    entries = [entry.strip() for value in values for entry in value.split(",") if entry.strip()]
    codes = [entry for entry in entries if _DIAGNOSIS_CODE.fullmatch(entry)]
    return tuple(dict.fromkeys(codes)), len(entries) - len(codes)


def _fields(comments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for comment in comments:
        key, found, value = comment.partition(":")
        if found:
            yield key.strip(" <>").lower(), value.strip()


def _is_free_text(comment: str) -> bool:
    key, value = next(_fields((comment,)), ("", comment))
    if key == "dx":
        return _codes((comment,))[1] > 0
    if key == _DERIVED:
        return not {canonical_lead(lead) for lead in value.split(",")} <= set(LEAD_EQUATIONS)
    patterns = {"age": r"\d{0,3}(\.\d*)?|nan|unknown", "sex": r"f|m|female|male|nan|unknown"}
    return key not in patterns or not re.fullmatch(patterns[key], value.lower())
