"""CardioSoft XML (GE): a strip of comma-separated steps per lead, beside median beats and full disclosure."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.channels import Channel, gain_of, recording_of
from clocs.formats.demographics import Person, age_at, moment, parse_age, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import count_of, identity_of, integers_of, number_of, parse, root_name, stated_of, text_of

NAME: Final = "cardiosoft-xml"

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
        raise FormatError(f"{name}: holds no StripData; a median beat alone is no recording")
    if text_of(strip, "Resolution@units") != "uVperLsb" or text_of(strip, "SampleRate@units") != "Hz":
        raise FormatError(f"{name}: StripData is not in uVperLsb at a rate in Hz")
    gain = gain_of(number_of(strip, "Resolution", name), "uV", name)
    return recording_of(
        [
            Channel(text_of(lead, "@lead"), integers_of(lead, ".", name, ","), gain)
            for lead in strip.findall("WaveformData")
        ],
        number_of(strip, "SampleRate", name),
        raw,
        name,
        NAME,
        person=_person(root),
        declared=count_of(strip, "ChannelSampleCountTotal"),
        heart_rate=stated_of(root, "RestingECGMeasurements/VentricularRate"),
        notes=["left out the FullDisclosure"] if root.find("FullDisclosure") is not None else [],
    )


def _person(root: Element) -> Person:
    about = root.find("PatientInfo")
    age = parse_age(text_of(about, "Age"), text_of(about, "Age@units"))
    if age is None:
        born, acquired = _moment(root.find("PatientInfo/BirthDateTime")), _moment(root.find("ObservationDateTime"))
        age = age_at(born, acquired)
    return Person(age, parse_sex(text_of(about, "Gender")))


def _written(time: Element | None) -> str:
    """``1965-1-1`` or ``2018-7-19 14:19:39`` from elements of their own."""
    date, clock = (
        [text_of(time, part) for part in parts] for parts in (("Year", "Month", "Day"), ("Hour", "Minute", "Second"))
    )
    return ("-".join(date) if all(date) else "") + (" " + ":".join(clock) if all(clock) else "")


def _moment(time: Element | None) -> datetime | None:
    return moment(_written(time), ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"))


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    acquired, born = root.find("ObservationDateTime"), _written(root.find("PatientInfo/BirthDateTime"))
    known = _moment(acquired)
    more = {"birth_date": [born] if born else []}
    return identity_of(root, IDENTITY, known.isoformat() if known else _written(acquired), more)


CARDIOSOFT_XML = Format(NAME, "CardioSoft XML: the strip of a resting ECG", _matches, _read, _read_identity)
