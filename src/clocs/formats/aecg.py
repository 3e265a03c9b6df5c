"""Read HL7 annotated ECG (aECG). Only the rhythm series is read, not the representative beats."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.channels import Channel, gain_from_resolution, millivolts, recording_from_channels
from clocs.formats.demographics import (
    Demographics,
    age_at,
    parse_age,
    parse_compact_date,
    parse_compact_datetime,
    parse_sex,
)
from clocs.formats.reading import Format
from clocs.formats.xml_tree import (
    collect_identity,
    find_integers,
    find_number,
    find_optional_number,
    find_text,
    parse,
    root_name,
)

NAME: Final = "aecg"
LEAD: Final = "MDC_ECG_LEAD_"
TIMES: Final = ("TIME_ABSOLUTE", "TIME_RELATIVE")
SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
MEASUREMENTS: Final = {
    "MDC_ECG_HEART_RATE": "heart_rate",
    "MDC_ECG_TIME_PD_P": "p_duration",
    "MDC_ECG_TIME_PD_PR": "pr_interval",
    "MDC_ECG_TIME_PD_QRS": "qrs_duration",
    "MDC_ECG_TIME_PD_QT": "qt_interval",
    "MDC_ECG_TIME_PD_QTc": "qtc_interval",
    "MDC_ECG_ANGLE_P_FRONT": "p_axis",
    "MDC_ECG_ANGLE_QRS_FRONT": "qrs_axis",
    "MDC_ECG_ANGLE_T_FRONT": "t_axis",
    "MINDRAY_ECG_P_AXIS": "p_axis",
    "MINDRAY_ECG_QRS_AXIS": "qrs_axis",
    "MINDRAY_ECG_T_AXIS": "t_axis",
}
"""Stated measurement by the code of an annotation."""
REPORTED_AGE: Final = "21612-7"
"""LOINC code of the reported age."""
WHOLE_RATE_TOLERANCE: Final = 5e-4
"""Relative difference below which a sampling rate may be a rounded integer."""
MAX_DENOMINATOR: Final = 1000
"""Largest factor by which digital values are scaled to represent the origin exactly."""

IDENTITY: Final = (
    ("patient_id", r"trialSubject/id@\w+|subjectDemographicPerson/(Second)?PatientID"),
    ("patient_name", r"subjectDemographicPerson/name(/\w+)?"),
    ("birth_date", r"birthTime@value"),
    ("contact", r"(trialSubject|subjectDemographicPerson)/(addr|telecom)(/\w+|@\w+)?"),
    ("physician", r"(investigatorPerson|assignedAuthorType/assignedPerson)/name(/\w+)?|trialInvestigator/id@\w+"),
    (
        "operator",
        r"(studyEventPerformer|seriesPerformer)/(id@\w+|assignedPerson/name(/\w+)?)|assignedEntity/id@extension",
    ),
    ("institution", r"location/name|addr/\w+|(trialSite|testingSite|identification|\w+Organization)/id@\w+"),
    ("institution", r"(sponsor|representedAuthoring)Organization/name|subjectDemographicPerson/(Bed|Room|PointOfCare)"),
    ("device_serial", r"manufacturedSeriesDevice/(id@\w+|SerialNumber)|assignedDevice/id@\w+"),
    ("order", r"(AnnotatedECG|series|derivedSeries|clinicalTrial|clinicalTrialProtocol)/(id@\w+|title)"),
    ("order", r"(timepointEvent|treatmentGroupAssignment|relativeTimepoint|protocolTimepointEvent)/code@\w+"),
    ("free_text", r"annotation/value|text|subjectDemographicPerson/(Medications|ClinicalClassifications)/\w+"),
)


def _matches(head: bytes, source: Source, name: str) -> bool:
    return root_name(head, source, name) == "AnnotatedECG"


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    root = parse(raw, name)
    sets = [
        sequences
        for series in root.findall("component/series")
        if find_text(series, "code@code") == "RHYTHM"
        for sequences in series.findall("component/sequenceSet")
    ]
    if not sets:
        raise FormatError(f"{name}: holds no waveform: no series of code RHYTHM has a sequenceSet")
    chosen = max(sets, key=lambda sequences: len(_leads(sequences)))
    leads = _leads(chosen)
    if not leads:
        raise FormatError(f"{name}: holds no waveform: no sequence has the code of a lead ({LEAD}...)")
    return recording_from_channels(
        [_channel(sequence, name) for sequence in leads],
        _rate(chosen, name),
        raw,
        name,
        NAME,
        demographics=_demographics(root),
        stated=_stated(root),
        notes=_notes(chosen, len(sets)),
    )


def _sequences(sequences: Element) -> list[tuple[str, Element]]:
    return [(find_text(item, "code@code"), item) for item in sequences.findall("component/sequence")]


def _leads(sequences: Element) -> list[Element]:
    return [sequence for code, sequence in _sequences(sequences) if code.startswith(LEAD)]


def _notes(chosen: Element, sets: int) -> list[str]:
    codes = [code for code, _ in _sequences(chosen)]
    others = sum(not code.startswith(LEAD) and code not in TIMES for code in codes)
    notes = [f"left out {others} sequences that are not leads"] if others else []
    return notes + ([f"left out {sets - 1} more sets of rhythm sequences"] if sets > 1 else [])


def _channel(sequence: Element, name: str) -> Channel:
    """Read one lead, where value = origin + scale * digit. Scale the digits if the origin lies between two of them."""
    lead = find_text(sequence, "code@code").removeprefix(LEAD)
    digits = find_integers(sequence, "value/digits", name)
    gain = gain_from_resolution(
        find_number(sequence, "value/scale@value", name), find_text(sequence, "value/scale@unit"), name
    )
    origin = _origin(sequence, gain, name)
    return Channel(lead, digits * origin.denominator, gain * origin.denominator, -origin.numerator)


def _origin(sequence: Element, gain: float, name: str) -> Fraction:
    """Return the value of digit 0, in digital units."""
    value = find_number(sequence, "value/origin@value", name) if find_text(sequence, "value/origin@value") else 0.0
    unit = millivolts(find_text(sequence, "value/origin@unit"))
    if value and not unit:
        raise FormatError(f"{name}: the unit of an origin is not a voltage")
    origin = value * (unit or 0.0) * gain
    if not abs(origin) < 2**31:
        raise FormatError(f"{name}: an origin of {origin:.3g} digital units is out of range")
    fraction = Fraction(origin).limit_denominator(MAX_DENOMINATOR)
    if abs(float(fraction) - origin) > 1e-9 * max(1.0, abs(origin)):
        raise FormatError(f"{name}: an origin is not a multiple of the scale, nor of 1/{MAX_DENOMINATOR} of it")
    return fraction


def _rate(sequences: Element, name: str) -> float:
    """Return the sampling rate in Hz: one over the increment of the time sequence, which files round."""
    times = [sequence for code, sequence in _sequences(sequences) if code in TIMES]
    if not times:
        raise FormatError(f"{name}: no time sequence ({' or '.join(TIMES)}) gives the sampling rate")
    text = find_text(times[0], "value/increment@value")
    unit = SECONDS.get(find_text(times[0], "value/increment@unit"), 0.0)
    increment = find_number(times[0], "value/increment@value", name)
    if not 1e-6 <= increment * unit <= 1:
        raise FormatError(f"{name}: the increment of its time sequence is out of range, or not in s, ms or us")
    sampling_rate = 1 / (increment * unit)
    whole = round(sampling_rate)
    return (
        float(whole)
        if abs(sampling_rate - whole) < WHOLE_RATE_TOLERANCE * whole and _rounds_to(1 / whole / unit, text)
        else sampling_rate
    )


def _rounds_to(value: float, text: str) -> bool:
    """Return whether a number, rounded to the decimals of a text, equals it: 1/300 rounds to 0.0033333."""
    try:
        decimals = -int(Decimal(text).as_tuple().exponent)
    except (InvalidOperation, ValueError):
        return False
    return 0 <= decimals <= 20 and round(value, decimals) == float(text)


def _stated(root: Element) -> dict[str, float | None]:
    """Return the median of each stated measurement over the beats of the first set of annotations that has it.

    Annotations of single leads are left out.
    """
    stated: dict[str, float | None] = {}
    for group in root.iter("annotationSet"):
        found: dict[str, list[float]] = {}
        for item in group.iter("annotation"):
            name, value = MEASUREMENTS.get(find_text(item, "code@code")), find_optional_number(item, "value@value")
            if name and value is not None and not _is_of_one_lead(item):
                found.setdefault(name, []).append(value * (1000 if find_text(item, "value@unit") == "s" else 1))
        medians: dict[str, float | None] = {name: float(np.median(values)) for name, values in found.items()}
        stated = medians | stated
    return stated


def _is_of_one_lead(annotation: Element) -> bool:
    support = annotation.find("support")
    return support is not None and any(find_text(item, "@code").startswith(LEAD) for item in support.iter("code"))


def _demographics(root: Element) -> Demographics:
    """Return the reported age, or else the age on the day of the recording, and the sex."""
    subject = root.find("componentOf/timepointEvent/componentOf/subjectAssignment/subject/trialSubject")
    reported = [item for item in root.iter("relatedObservation") if find_text(item, "code@code") == REPORTED_AGE]
    age = parse_age(find_text(reported[0], "value@value"), find_text(reported[0], "value@unit")) if reported else None
    if age is None:
        birth = find_text(subject, "subjectDemographicPerson/birthTime@value")
        age = age_at(parse_compact_date(birth), parse_compact_date(_acquired(root)))
    return Demographics(age, parse_sex(find_text(subject, "subjectDemographicPerson/administrativeGenderCode@code")))


def _acquired(root: Element) -> str:
    paths = [f"{parent}effectiveTime/{end}@value" for parent in ("", "component/series/") for end in ("low", "center")]
    return next(filter(None, (find_text(root, path) for path in paths)), "")


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    text = _acquired(root)
    acquired = parse_compact_datetime(text)
    return collect_identity(root, IDENTITY, acquired.isoformat() if acquired else text)


AECG = Format(NAME, "HL7 annotated ECG: the rhythm series, leads by MDC code", _matches, _read, _read_identity)
