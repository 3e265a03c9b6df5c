"""Read Schiller XML (SEMA). Only the rhythm is read, not the averaged beats."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import Channel, DigitalValues, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_compact_date, parse_compact_datetime, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import (
    collect_identity,
    find_count,
    find_integers,
    find_number,
    find_optional_number,
    find_text,
    parse,
    root_name,
)

NAME: Final = "schiller-xml"
RHYTHMS: Final = "ECG_RHYTHMS"
MEASUREMENTS: Final = {
    "HR": "heart_rate",
    "P": "p_duration",
    "PQ": "pr_interval",
    "QRS": "qrs_duration",
    "QT": "qt_interval",
    "QTC": "qtc_interval",
    "AXIS_P": "p_axis",
    "AXIS_QRS": "qrs_axis",
    "AXIS_T": "t_axis",
}
"""Stated measurement by the name of a global annotation."""

IDENTITY: Final = (
    ("patient_id", r"patdata/(id|\w*_id)"),
    ("patient_name", r"patdata/\w*name"),
    ("birth_date", r"patdata/birthdate"),
    ("contact", r"patdata/(\w*address|\w*phone|street|city|zip|email)"),
    ("physician", r"(referring|analyzing|confirming|requesting)_user/\w+"),
    ("operator", r"aquiring_user/\w+|user_id"),
    ("institution", r"\w+_(institute|department)/\w+|examdescript/location/\w+"),
    ("device_serial", r"(hardware|software)/(serial\w*|id)"),
    ("order", r"(job|case|order|visit)_id"),
    ("free_text", r"textdata/textdata"),
)


def _matches(head: bytes, source: Source, name: str) -> bool:
    return root_name(head, source, name).split(".")[-1] == "SchillerEDI"


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    root = parse(raw, name)
    waves = [wave for wave in root.findall("eventdata/event/wavedata") if find_text(wave, "type") == RHYTHMS]
    if not waves:
        raise FormatError(f"{name}: holds no wavedata of type {RHYTHMS}; averaged beats are not a recording")
    wave, *others = waves
    channels = wave.findall("channel")
    resolution = find_number(wave, "resolution/yres/unitperbit", name)
    gain = gain_from_resolution(resolution, find_text(wave, "resolution/yres/units"), name)
    return recording_from_channels(
        [Channel(find_text(channel, "name"), _digital_values(channel, name), gain) for channel in channels],
        _rate(wave, name),
        raw,
        name,
        NAME,
        demographics=_demographics(root),
        num_declared_samples=find_count(channels[0], "samplecount") if channels else None,
        stated=_stated(root),
        notes=[f"left out {len(others)} more events with rhythms"] if others else [],
    )


def _rate(wave: Element, name: str) -> float:
    """Return the sampling rate in Hz. A value of 500 with exponent 1 is 500 Hz; other exponents are not documented."""
    exponent = find_text(wave, "resolution/samplerate/exponent")
    if exponent not in ("", "1"):
        raise FormatError(f"{name}: samplerate has an exponent other than 1, which is not supported")
    return find_number(wave, "resolution/samplerate/value", name)


def _digital_values(channel: Element, name: str) -> DigitalValues:
    if find_text(channel, "datastype") != "COMMASEPARATE":
        raise FormatError(f"{name}: a channel's datastype is not COMMASEPARATE, the only one supported")
    return find_integers(channel, "data", name, ",")


def _stated(root: Element) -> dict[str, float | None]:
    """Return the first number of each stated measurement."""
    stated: dict[str, float | None] = {}
    for annotation in root.iter("annotation_global"):
        name, value = MEASUREMENTS.get(find_text(annotation, "name")), find_optional_number(annotation, "value")
        if name and stated.get(name) is None:
            stated[name] = value
    return stated


def _demographics(root: Element) -> Demographics:
    age = age_at(parse_compact_date(find_text(root, "patdata/birthdate")), parse_compact_date(_acquired(root)))
    return Demographics(age, parse_sex(find_text(root, "patdata/gender")))


def _acquired(root: Element) -> str:
    start = root.find("examdescript/startdatetime")
    return find_text(start, "date") + find_text(start, "time")


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    text = _acquired(root)
    acquired = parse_compact_datetime(text)
    return collect_identity(root, IDENTITY, acquired.isoformat() if acquired else text)


SCHILLER_XML = Format(NAME, "Schiller XML: the rhythms of a resting ECG", _matches, _read, _read_identity)
