"""Read CardioSoft XML (GE). Only the strip is read, not the median beats and the full disclosure."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import Channel, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_age, parse_datetime, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import (
    collect_identity,
    find_count,
    find_integers,
    find_number,
    find_numbers,
    find_text,
    parse,
    root_name,
)

NAME: Final = "cardiosoft-xml"
MEASUREMENTS: Final = {
    "heart_rate": "VentricularRate",
    "p_duration": "PDuration",
    "pr_interval": "PQInterval",
    "qrs_duration": "QRSDuration",
    "qt_interval": "QTInterval",
    "qtc_interval": "QTCInterval",
    "p_axis": "PAxis",
    "qrs_axis": "RAxis",
    "t_axis": "TAxis",
}
"""Element of each stated measurement."""

IDENTITY: Final = (
    ("patient_id", r"PatientInfo/\w*(PID|ID)"),
    ("patient_name", r"PatientInfo/Name(/\w+)?"),
    ("contact", r"PatientInfo/(\w*Address|\w*Phone\w*|Address/\w+)"),
    ("physician", r"(\w*(Provider|Doctor|Physician))/\w+"),
    ("operator", r"(Technician|\w*Editor)/\w+"),
    ("institution", r"AssignedPatientLocation/\w+|PatientRoom|ServicingFacility(/Address)?/\w+"),
    ("device_serial", r"DeviceInfo/\w*(Serial|Number|ID)\w*"),
    ("order", r"OrderNumber|VisitNumber|UID/\w+|a@href"),
    ("free_text", r"ReasonForStudy|ObservationComment|(MedicalHistory|Medications|ExtraQuestions)/(?!Label)\w+"),
    ("free_text", r"DiagnosisText|ConclusionText|Interpretation(/\w+)?/\w+"),
)


def _matches(head: bytes, source: Source, name: str) -> bool:
    return root_name(head, source, name) == "CardiologyXML"


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    root = parse(raw, name)
    strip = root.find("StripData")
    if strip is None:
        raise FormatError(f"{name}: holds no StripData; a median beat alone is not a recording")
    if find_text(strip, "Resolution@units") != "uVperLsb" or find_text(strip, "SampleRate@units") != "Hz":
        raise FormatError(f"{name}: StripData is not in uVperLsb at a rate in Hz")
    gain = gain_from_resolution(find_number(strip, "Resolution", name), "uV", name)
    return recording_from_channels(
        [
            Channel(find_text(lead, "@lead"), find_integers(lead, ".", name, ","), gain)
            for lead in strip.findall("WaveformData")
        ],
        find_number(strip, "SampleRate", name),
        raw,
        name,
        NAME,
        demographics=_demographics(root),
        num_declared_samples=find_count(strip, "ChannelSampleCountTotal"),
        stated=find_numbers(root.find("RestingECGMeasurements"), MEASUREMENTS),
        notes=["left out the FullDisclosure"] if root.find("FullDisclosure") is not None else [],
    )


def _demographics(root: Element) -> Demographics:
    patient = root.find("PatientInfo")
    age = parse_age(find_text(patient, "Age"), find_text(patient, "Age@units"))
    if age is None:
        birth, acquired = root.find("PatientInfo/BirthDateTime"), root.find("ObservationDateTime")
        age = age_at(_parse_datetime(birth), _parse_datetime(acquired))
    return Demographics(age, parse_sex(find_text(patient, "Gender")))


def _time_text(time: Element | None) -> str:
    """Join the elements of a date and a time to ``1965-1-1`` or ``2018-7-19 14:19:39``."""
    date, clock = (
        [find_text(time, part) for part in parts] for parts in (("Year", "Month", "Day"), ("Hour", "Minute", "Second"))
    )
    return ("-".join(date) if all(date) else "") + (" " + ":".join(clock) if all(clock) else "")


def _parse_datetime(time: Element | None) -> datetime | None:
    return parse_datetime(_time_text(time), ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"))


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    acquired, birth = root.find("ObservationDateTime"), _time_text(root.find("PatientInfo/BirthDateTime"))
    parsed = _parse_datetime(acquired)
    extra = {"birth_date": [birth] if birth else []}
    return collect_identity(root, IDENTITY, parsed.isoformat() if parsed else _time_text(acquired), extra)


CARDIOSOFT_XML = Format(NAME, "CardioSoft XML: the strip of a resting ECG", _matches, _read, _read_identity)
