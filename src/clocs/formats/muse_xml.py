"""Read GE MUSE XML. Only the rhythm is read, not the median beat."""

from __future__ import annotations

import math
import zlib
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import MAX_LEAD_NAME, Channel, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_age, parse_date, parse_datetime, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import (
    collect_identity,
    find_base64,
    find_count,
    find_number,
    find_numbers,
    find_optional_number,
    find_text,
    parse,
    root_name,
)
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

NAME: Final = "muse-xml"
DATES: Final = ("%m-%d-%Y", "%m/%d/%Y", "%Y-%m-%d")
MEASUREMENTS: Final = {
    "heart_rate": "VentricularRate",
    "pr_interval": "PRInterval",
    "qrs_duration": "QRSDuration",
    "qt_interval": "QTInterval",
    "qtc_interval": "QTCorrected",
    "qtc_fridericia": "QTcFrederica",
    "p_axis": "PAxis",
    "qrs_axis": "RAxis",
    "t_axis": "TAxis",
}
"""Element of each stated measurement."""
UNAPPLIED_OFFSETS: Final = ("LeadOffsetFirstSample", "FirstSampleBaseline", "LeadTimeOffset")
"""Elements that are 0 in every known file. The meaning of other values is not published."""

IDENTITY: Final = (
    ("birth_date", "DateofBirth"),
    ("patient_id", r"PatientID|SecondaryID|\w*SSN|PharmaSubjectID|\w*HISPatientID"),
    ("patient_name", r"Patient\w*Name|PharmaSubjectInitials"),
    ("contact", r"PatientDemographics/\w*(Address|Phone|City|Zip|Email)\w*"),
    ("physician", r"\w*MD\w*|Overreader\w*"),
    ("operator", r"AcquisitionTech\w*|Editor\w*"),
    (
        "institution",
        r"TestDemographics/(Site|SiteName|Location|LocationName|Room\w*|Bed\w*)|Order/\w*(Location|Room)\w*",
    ),
    ("device_serial", "CartNumber|PharmaCartID|SerialNumber"),
    ("order", r"\w*(Order|Visit|Account)Number|Pharma(UniqueECGID|TrialID|Visit\w*)"),
    ("free_text", r"StmtText|Answer|Order/\w+"),
    ("free_text", r"PatientDemographics/(?!PatientAge|AgeUnits|Gender|Race|Height|Weight)\w+"),
    ("free_text", r"TestDemographics/(?!Acquisition|Status|EditListStatus|Priority|HISStatus|DataType|\w*Version)\w+"),
)
"""Identity field of each path. Unknown elements about the patient and the test count as free text."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return root_name(head, source, name) == "RestingECG"


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    root = parse(raw, name)
    rhythms = [
        waveform for waveform in root.findall("Waveform") if find_text(waveform, "WaveformType").lower() == "rhythm"
    ]
    if not rhythms:
        num_waveforms = len(root.findall("Waveform"))
        raise FormatError(
            f"{name}: none of its {num_waveforms} Waveform elements is a Rhythm; a median beat is not a recording"
        )
    rhythm, *others = rhythms
    leads = rhythm.findall("LeadData")
    notes = [note for lead in leads for note in _notes(lead)]
    notes += [f"left out {len(others)} more Rhythm waveforms"] if others else []
    return recording_from_channels(
        [_channel(lead, name) for lead in leads],
        _rate(rhythm, name),
        raw,
        name,
        NAME,
        demographics=_demographics(root),
        num_declared_samples=find_count(leads[0], "LeadSampleCountTotal") if leads else None,
        stated=_stated(root),
        notes=notes,
    )


def _rate(waveform: Element, name: str) -> float:
    """Return the sampling rate of a waveform in Hz. Measurements state other bases, some of them 0."""
    base = find_number(waveform, "SampleBase", name)
    exponent = find_number(waveform, "SampleExponent", name) if find_text(waveform, "SampleExponent") else 0.0
    if not -9 <= exponent <= 9:
        raise FormatError(f"{name}: a SampleExponent of {exponent:g} is out of range")
    return base * math.pow(10, exponent)


def _channel(lead: Element, name: str) -> Channel:
    label = find_text(lead, "LeadID")[:MAX_LEAD_NAME]
    lead_name = f"lead {label}" if canonical_lead(label) in STANDARD_LEADS else "a lead"
    size = find_text(lead, "LeadSampleSize") or "2"
    data = find_base64(lead, "WaveFormData", name)
    if size != "2" or len(data) % 2:
        raise FormatError(f"{name}: {lead_name} has samples of other than two bytes, which is not supported")
    if find_text(lead, "LeadDataCRC32") and find_count(lead, "LeadDataCRC32") != zlib.crc32(data):
        raise FormatError(f"{name}: the samples of {lead_name} do not match their LeadDataCRC32; the file is damaged")
    resolution = find_number(lead, "LeadAmplitudeUnitsPerBit", name)
    gain = gain_from_resolution(resolution, find_text(lead, "LeadAmplitudeUnits"), name)
    return Channel(label, np.frombuffer(data, "<i2"), gain)


def _notes(lead: Element) -> list[str]:
    label = find_text(lead, "LeadID")[:MAX_LEAD_NAME]
    notes = [f"lead {label}: {tag} is not 0 and was not applied" for tag in UNAPPLIED_OFFSETS if _is_nonzero(lead, tag)]
    return notes + ([f"lead {label}: its electrode was off"] if find_text(lead, "LeadOff").upper() == "TRUE" else [])


def _is_nonzero(lead: Element, tag: str) -> bool:
    return find_text(lead, tag).strip("+-0.") != ""


def _stated(root: Element) -> dict[str, float | None]:
    """Return the stated measurements. POnset and POffset count samples; the number per second is 0 in some files."""
    measured = root.find("RestingECGMeasurements")
    found = find_numbers(measured, MEASUREMENTS)
    onset, offset, base = (find_optional_number(measured, name) for name in ("POnset", "POffset", "ECGSampleBase"))
    if onset and offset and base and not find_text(measured, "ECGSampleExponent").strip("0"):
        found["p_duration"] = 1000 * (offset - onset) / base
    return found


def _demographics(root: Element) -> Demographics:
    patient = root.find("PatientDemographics")
    age = parse_age(find_text(patient, "PatientAge"), find_text(patient, "AgeUnits") or "years")
    if age is None:
        acquired = _acquired(root)
        age = age_at(parse_date(find_text(patient, "DateofBirth"), DATES), acquired.date() if acquired else None)
    return Demographics(age, parse_sex(find_text(patient, "Gender")))


def _acquired(root: Element) -> datetime | None:
    date, time = (find_text(root, f"TestDemographics/Acquisition{part}") for part in ("Date", "Time"))
    return parse_datetime(f"{date} {time}", [f"{pattern} %H:%M:%S" for pattern in DATES]) or parse_datetime(date, DATES)


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    acquired = _acquired(root)
    text = " ".join(filter(None, (find_text(root, f"TestDemographics/Acquisition{part}") for part in ("Date", "Time"))))
    return collect_identity(root, IDENTITY, acquired.isoformat() if acquired else text)


MUSE_XML = Format(NAME, "GE MUSE XML: the rhythm of a resting ECG, in base64", _matches, _read, _read_identity)
