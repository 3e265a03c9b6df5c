"""Read Philips XML (SierraECG, PhilipsECG), which stores all leads in one base64 text, compressed by XLI.

XLI stores a block of LZW codes for each lead. A decompressed block contains second differences: first all high
bytes, then all low bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import MAX_LEAD_NAME, Channel, DigitalValues, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_age, parse_date, parse_datetime, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import (
    collect_identity,
    find_base64,
    find_count,
    find_number,
    find_optional_number,
    find_text,
    parse,
    root_name,
)
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

NAME: Final = "philips-xml"
VERSIONS: Final = ("1.03", "1.04", "1.04.01", "1.04.02")
TWELVE_LEAD_TYPES: Final = ("STD-12", "10-WIRE")
"""Acquisition types of files with the twelve standard leads that do not name each lead."""
AGE_UNITS: Final = ("years", "months", "weeks", "days", "hours")
DATES: Final = ("%Y-%m-%d", "%m/%d/%Y")

IDENTITY: Final = (
    ("patient_id", r"generalpatientdata/(patientid|\w*uniquepatientid|MRN|ssn\w*)"),
    ("patient_name", r"generalpatientdata/name/\w+"),
    ("birth_date", r"dateofbirth"),
    ("contact", r"(address|phone|telephone|email)\w*(/\w+)?"),
    ("physician", r"acquirer/\w*(clinician|physician)\w*(@\w+)?|mdsignatureline"),
    ("operator", r"acquirer/\w*operator\w*(@\w+)?|editor(@\w+)?"),
    ("institution", r"acquirer/(department|institution|facility|room|bed|location)\w*"),
    ("device_serial", r"machine@machineid|serialnumber\w*"),
    ("order", r"orderinfo/(ordernumber|uniqueorderid|orderbillingcode)|acquirer/(encounter|visit)\w*"),
    ("order", r"documentinfo/(documentname|filename)"),
    ("free_text", r"orderinfo/(?!orderstatus)\w+|orderinfo@(?!priority)\w+|drgcategory@id|userdefine/value"),
    (
        "free_text",
        r"documentinfo/comments|(left|right|lhs|rhs)statement|(medication|symptom|diagnosis|history)\w*(/\w+)?",
    ),
)
MEASUREMENT_BLOCKS: Final = ("interpretationmeasurements", "globalmeasurements", "crossleadmeasurements")
"""Elements with measurements of all leads together, in versions 1.03 and 1.04, the most trusted first."""
MEASUREMENTS: Final = (
    *(("heart_rate", "heartrate"), ("heart_rate", "meanventrate")),
    *(("pr_interval", "print"), ("pr_interval", "meanprint")),
    *(("qrs_duration", "qrsdur"), ("qrs_duration", "meanqrsdur")),
    *(("qt_interval", "qtint"), ("qt_interval", "meanqtint")),
    *(("qtc_bazett", "qtcb"), ("qtc_fridericia", "qtcf"), ("qtc_interval", "meanqtc")),
    *(("p_axis", "pfrontaxis"), ("qrs_axis", "qrsfrontaxis"), ("t_axis", "tfrontaxis")),
)
"""Stated measurements with their elements. Their texts may be ``Failed`` or ``Indeterminate``."""
HEADER_BYTES: Final = 8
"""Length of the header of a block: 4 bytes for its length, 2 unused bytes, 2 bytes for the first difference."""
CODE_BITS: Final = 10
LAST_CODE: Final = (1 << CODE_BITS) - 2
"""Last code with a meaning. The next code ends a block."""
DIFFERENCE_OFFSET: Final = 64
"""Offset that is added to every stored difference."""
MAX_BLOCKS: Final = 256
MAX_UNPACKED: Final = 2 << 20
"""Maximum decompressed size of all leads in bytes: twelve times sixteen leads of 11 s at 500 Hz."""
CHUNK_BYTES: Final = 5 << 12
"""Number of bytes that are converted to bits at once. A multiple of 5, because four codes take five bytes."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return root_name(head, source, name) == "restingecgdata"


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    root = parse(raw, name)
    if find_text(root, "documentinfo/documentversion") not in VERSIONS:
        raise FormatError(f"{name}: documentversion is not supported; supported: {', '.join(VERSIONS)}")
    parsed, characteristics = root.find("waveforms/parsedwaveforms"), root.find("dataacquisition/signalcharacteristics")
    if parsed is None:
        raise FormatError(f"{name}: holds no waveform: no parsedwaveforms")
    sampling_rate = _number_setting(parsed, characteristics, "samplespersecond", "samplingrate", name)
    gain = gain_from_resolution(
        _number_setting(parsed, characteristics, "resolution", "signalresolution", name), "uV", name
    )
    zero = _number_setting(parsed, characteristics, "signaloffset", "signaloffset", name)
    if zero != round(zero):
        raise FormatError(f"{name}: a signaloffset of {zero:g} is not an integer")
    labels = _labels(parsed, characteristics, name)
    leads, spare = _leads(parsed, labels, name)
    return recording_from_channels(
        [Channel(lead, values, gain, int(zero)) for lead, values in zip(labels, leads, strict=True)],
        sampling_rate,
        raw,
        name,
        NAME,
        demographics=_demographics(root),
        num_declared_samples=_num_declared_samples(parsed, sampling_rate),
        stated=_stated(root),
        notes=_calibration(labels, leads, spare),
    )


def _number_setting(
    parsed: Element, characteristics: Element | None, attribute: str, old_name: str, name: str
) -> float:
    """Return a number from the waveforms or, as in version 1.03, from the signal characteristics."""
    if parsed.get(attribute):
        return find_number(parsed, f"@{attribute}", name)
    return find_number(characteristics, attribute if find_text(characteristics, attribute) else old_name, name)


def _num_declared_samples(parsed: Element, sampling_rate: float) -> int | None:
    milliseconds = find_count(parsed, "@durationperchannel")
    return round(milliseconds * sampling_rate / 1000) if milliseconds and 0 < sampling_rate < math.inf else None


def _labels(parsed: Element, characteristics: Element | None, name: str) -> list[str]:
    labels = find_text(parsed, "@leadlabels").split()
    if labels:
        return labels[: find_count(parsed, "@numberofleads")]
    count = find_count(characteristics, "numberchannelsallocated")
    if find_text(characteristics, "acquisitiontype") not in TWELVE_LEAD_TYPES or count != len(STANDARD_LEADS):
        raise FormatError(
            f"{name}: neither leadlabels nor an acquisitiontype of {' or '.join(TWELVE_LEAD_TYPES)} names its leads"
        )
    return list(STANDARD_LEADS)


def _leads(parsed: Element, labels: list[str], name: str) -> tuple[list[DigitalValues], list[DigitalValues]]:
    """Return the digital values of each named lead, and of spare channels: XLI always stores sixteen."""
    if (
        find_text(parsed, "@dataencoding") != "Base64"
        or _text_setting(parsed, "bitspersample", "nbitspersample") != "16"
    ):
        raise FormatError(
            f"{name}: parsedwaveforms are not Base64 with 16 bits per sample; no other encoding is supported"
        )
    data = find_base64(parsed, ".", name)
    compression = _text_setting(parsed, "compression", "compressmethod") or "Uncompressed"
    stored: list[DigitalValues] = []
    if compression == "XLI":
        stored += unpack_xli(data, name)
    elif compression == "Uncompressed" and labels and len(data) % (2 * len(labels)) == 0:
        stored += list(np.frombuffer(data, "<i2").reshape(len(labels), -1))
    else:
        raise FormatError(
            f"{name}: parsedwaveforms are neither XLI nor {len(labels)} complete leads without compression"
        )
    if len(stored) < len(labels) or len({len(values) for values in stored}) > 1:
        raise FormatError(f"{name}: {len(labels)} leads are named, but the data hold other leads; the file is damaged")
    leads, spare = stored[: len(labels)], stored[len(labels) :]
    return _restore_limb_leads(labels, leads, name) if compression == "XLI" else leads, spare


def _restore_limb_leads(labels: list[str], leads: list[DigitalValues], name: str) -> list[DigitalValues]:
    """Restore III, aVR, aVL and aVF, which XLI stores as differences from their equations, with halves rounded down."""
    limbs, named = STANDARD_LEADS[:6], [canonical_lead(label) for label in labels]
    if not set(limbs) <= set(named):
        if set(named) & set(limbs[2:]):
            raise FormatError(f"{name}: limb leads packed as XLI cannot be restored without all six of them")
        return leads
    one, two, three, right, left, foot = (leads[named.index(limb)] for limb in limbs)
    three = two - one - three
    right, left, foot = -right - (one + two) // 2, (one - three) // 2 - left, (two + three) // 2 - foot
    rebuilt = dict(zip(limbs, (one, two, three, right, left, foot), strict=True))
    return [rebuilt.get(label, values) for label, values in zip(named, leads, strict=True)]


def _calibration(labels: list[str], leads: list[DigitalValues], spare: list[DigitalValues]) -> list[str]:
    """Return notes on the calibration pulse at the end of every lead. A spare channel contains only this pulse."""
    if not leads or not spare or not spare[0].any():
        return []
    others = [np.flatnonzero(values != spare[0]) for values in leads]
    ends = [int(found[-1]) + 1 if len(found) else 0 for found in others]
    notes = [f"samples from {max(ends)} on hold a calibration pulse and no ECG"] if max(ends) < len(spare[0]) else []
    empty = [label[:MAX_LEAD_NAME] for label, end in zip(labels, ends, strict=True) if not end]
    return notes + [f"lead {label} holds a calibration pulse and no ECG" for label in empty]


def _text_setting(parsed: Element, attribute: str, old_name: str) -> str:
    return find_text(parsed, f"@{attribute}") or find_text(parsed, f"@{old_name}")


def _stated(root: Element) -> dict[str, float | None]:
    """Return the stated measurements: those of the interpretation, which a reader may have edited, come first.

    A QTc without a formula is left out beside Bazett's, which it repeats.
    """
    blocks = [block for kind in MEASUREMENT_BLOCKS for block in root.iter(kind)]
    found = ((name, find_optional_number(block, tag)) for block in blocks for name, tag in MEASUREMENTS)
    stated: dict[str, float | None] = {}
    for name, value in found:
        stated[name] = value if stated.get(name) is None else stated[name]
    return stated | ({"qtc_interval": None} if stated.get("qtc_bazett") else {})


def _demographics(root: Element) -> Demographics:
    """Return the stated age, or else the age on the day of the recording, and the sex. ``defaultage`` is ignored."""
    patient = root.find("patient/generalpatientdata")
    stated = (parse_age(find_text(patient, f"age/{unit}"), unit) for unit in AGE_UNITS)
    age = next((found for found in stated if found is not None), None)
    if age is None:
        age = age_at(
            parse_date(find_text(patient, "age/dateofbirth"), DATES),
            parse_date(find_text(root, "dataacquisition@date"), DATES),
        )
    return Demographics(age, parse_sex(find_text(patient, "sex")))


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    date, time = find_text(root, "dataacquisition@date"), find_text(root, "dataacquisition@time")
    text = " ".join(filter(None, (date, time)))
    acquired = parse_datetime(text, [*(f"{pattern} %H:%M:%S" for pattern in DATES), *DATES])
    return collect_identity(root, IDENTITY, acquired.isoformat() if acquired else text)


def unpack_xli(data: bytes, name: str) -> list[npt.NDArray[np.int64]]:
    """Decompress XLI data to the stored values of each lead, each of shape (samples,)."""
    remaining = MAX_UNPACKED
    leads: list[npt.NDArray[np.int64]] = []
    offset = 0
    while offset < len(data):
        header = data[offset : offset + HEADER_BYTES]
        length = int.from_bytes(header[:4], "little")
        offset += HEADER_BYTES
        if len(header) < HEADER_BYTES or offset + length > len(data) or len(leads) >= MAX_BLOCKS:
            raise FormatError(f"{name}: XLI block {len(leads) + 1} is not within the data; the file is damaged")
        plain = unpack_lzw(data[offset : offset + length], remaining, name)
        remaining -= len(plain)
        leads.append(_integrate(plain, int.from_bytes(header[6:], "little", signed=True)))
        offset += length
    return leads


def unpack_lzw(data: bytes, limit: int, name: str) -> bytes:
    """Decompress LZW codes of 10 bits, highest bit first. The dictionary does not change once it is full."""
    entries = [bytes([value]) for value in range(256)]
    out = bytearray()
    previous = b""
    for code in _codes(data):
        if code > LAST_CODE:
            break
        if code > len(entries) or (code == len(entries) and not previous):
            raise FormatError(f"{name}: an XLI block has an undefined code; the file is damaged")
        text = entries[code] if code < len(entries) else previous + previous[:1]
        if previous and len(entries) <= LAST_CODE:
            entries.append(previous + text[:1])
        out += text
        if len(out) > limit:
            raise FormatError(f"{name}: XLI blocks unpack to more than {MAX_UNPACKED} bytes; the file is damaged")
        previous = text
    return bytes(out)


def _codes(data: bytes) -> Iterator[int]:
    bit_values = 1 << np.arange(CODE_BITS)[::-1]
    for start in range(0, len(data), CHUNK_BYTES):
        bits = np.unpackbits(np.frombuffer(data[start : start + CHUNK_BYTES], np.uint8))
        yield from (bits[: len(bits) // CODE_BITS * CODE_BITS].reshape(-1, CODE_BITS) @ bit_values).tolist()


def _integrate(plain: bytes, first: int) -> npt.NDArray[np.int64]:
    """Integrate 16-bit numbers: two samples, then second differences, each delayed by one sample."""
    half = -(-len(plain) // 2)
    high, low = (np.frombuffer(part.ljust(half, b"\0"), np.uint8) for part in (plain[:half], plain[half:]))
    stored = ((high.astype(np.uint16) << 8) | low).view(np.int16).astype(np.int64)
    if half < 3:
        return stored
    second_differences = -np.concatenate([[first], stored[2:-1] - DIFFERENCE_OFFSET])
    slopes = np.cumsum(np.concatenate([stored[1:2] - stored[:1], second_differences]))
    return np.concatenate([stored[:1], stored[0] + np.cumsum(slopes)])


PHILIPS_XML = Format(NAME, "Philips XML (SierraECG): leads packed by XLI", _matches, _read, _read_identity)
