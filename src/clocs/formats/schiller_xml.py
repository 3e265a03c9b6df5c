"""Schiller XML (SEMA): comma-separated steps per channel, the rhythms beside averaged beats."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.channels import Channel, Steps, gain_of, recording_of
from clocs.formats.demographics import Person, age_at, digits_day, digits_moment, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import count_of, identity_of, integers_of, number_of, parse, root_name, text_of

NAME: Final = "schiller-xml"
RHYTHMS: Final = "ECG_RHYTHMS"

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
    waves = [wave for wave in root.findall("eventdata/event/wavedata") if text_of(wave, "type") == RHYTHMS]
    if not waves:
        raise FormatError(f"{name}: holds no wavedata of type {RHYTHMS}; averaged beats are no recording")
    wave, *others = waves
    channels = wave.findall("channel")
    step, unit = number_of(wave, "resolution/yres/unitperbit", name), text_of(wave, "resolution/yres/units")
    gain = gain_of(step, unit, name)
    return recording_of(
        [Channel(text_of(each, "name"), _steps(each, name), gain) for each in channels],
        _rate(wave, name),
        raw,
        name,
        NAME,
        person=_person(root),
        declared=count_of(channels[0], "samplecount") if channels else None,
        notes=[f"left out {len(others)} more events with rhythms"] if others else [],
    )


def _rate(wave: Element, name: str) -> float:
    """500 with exponent 1 is 500 Hz, as the beats of a real file show: what another exponent means is not known."""
    exponent = text_of(wave, "resolution/samplerate/exponent")
    if exponent not in ("", "1"):
        raise FormatError(f"{name}: samplerate has an exponent other than 1, which is not supported")
    return number_of(wave, "resolution/samplerate/value", name)


def _steps(channel: Element, name: str) -> Steps:
    if text_of(channel, "datastype") != "COMMASEPARATE":
        raise FormatError(f"{name}: a channel's datastype is not COMMASEPARATE, the only one supported")
    return integers_of(channel, "data", name, ",")


def _person(root: Element) -> Person:
    age = age_at(digits_day(text_of(root, "patdata/birthdate")), digits_day(_acquired(root)))
    return Person(age, parse_sex(text_of(root, "patdata/gender")))


def _acquired(root: Element) -> str:
    start = root.find("examdescript/startdatetime")
    return text_of(start, "date") + text_of(start, "time")


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    written = _acquired(root)
    acquired = digits_moment(written)
    return identity_of(root, IDENTITY, acquired.isoformat() if acquired else written)


SCHILLER_XML = Format(NAME, "Schiller XML: the rhythms of a resting ECG", _matches, _read, _read_identity)
