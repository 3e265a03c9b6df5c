"""HL7 annotated ECG: leads as lists of digits with origin and scale, the rhythm apart from representative beats."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final
from xml.etree.ElementTree import Element

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.channels import Channel, gain_of, millivolts, recording_of
from clocs.formats.demographics import Person, age_at, digits_day, digits_moment, parse_age, parse_sex
from clocs.formats.reading import Format
from clocs.formats.xml_tree import identity_of, integers_of, number_of, parse, root_name, stated_of, text_of

NAME: Final = "aecg"
LEAD: Final = "MDC_ECG_LEAD_"
TIMES: Final = ("TIME_ABSOLUTE", "TIME_RELATIVE")
SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
HEART_RATE: Final = "MDC_ECG_HEART_RATE"
REPORTED_AGE: Final = "21612-7"
"""LOINC."""
NEAR_WHOLE: Final = 5e-4
MAX_FINER: Final = 1000

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
        if text_of(series, "code@code") == "RHYTHM"
        for sequences in series.findall("component/sequenceSet")
    ]
    if not sets:
        raise FormatError(f"{name}: holds no waveform, no sequenceSet in a series of code RHYTHM")
    chosen = max(sets, key=lambda sequences: len(_leads(sequences)))
    leads = _leads(chosen)
    if not leads:
        raise FormatError(f"{name}: holds no waveform, no sequence whose code is a lead ({LEAD}...)")
    return recording_of(
        [_channel(sequence, name) for sequence in leads],
        _rate(chosen, name),
        raw,
        name,
        NAME,
        person=_person(root),
        heart_rate=_heart_rate(root),
        notes=_notes(chosen, len(sets)),
    )


def _sequences(sequences: Element) -> list[tuple[str, Element]]:
    return [(text_of(each, "code@code"), each) for each in sequences.findall("component/sequence")]


def _leads(sequences: Element) -> list[Element]:
    return [sequence for code, sequence in _sequences(sequences) if code.startswith(LEAD)]


def _notes(chosen: Element, sets: int) -> list[str]:
    codes = [code for code, _ in _sequences(chosen)]
    others = sum(not code.startswith(LEAD) and code not in TIMES for code in codes)
    notes = [f"left out {others} sequences that are no leads"] if others else []
    return notes + ([f"left out {sets - 1} more sets of rhythm sequences"] if sets > 1 else [])


def _channel(sequence: Element, name: str) -> Channel:
    """value = origin + scale x digit. An origin between two steps asks for finer ones."""
    lead = text_of(sequence, "code@code").removeprefix(LEAD)
    steps = integers_of(sequence, "value/digits", name)
    gain = gain_of(number_of(sequence, "value/scale@value", name), text_of(sequence, "value/scale@unit"), name)
    origin = _origin(sequence, gain, name)
    return Channel(lead, steps * origin.denominator, gain * origin.denominator, -origin.numerator)


def _origin(sequence: Element, gain: float, name: str) -> Fraction:
    """Where digit 0 lies, in steps."""
    value = number_of(sequence, "value/origin@value", name) if text_of(sequence, "value/origin@value") else 0.0
    unit = millivolts(text_of(sequence, "value/origin@unit"))
    if value and not unit:
        raise FormatError(f"{name}: an origin is given in no unit of voltage")
    steps = value * (unit or 0.0) * gain
    if not abs(steps) < 2**31:
        raise FormatError(f"{name}: an origin of {steps:.3g} steps is out of range")
    near = Fraction(steps).limit_denominator(MAX_FINER)
    if abs(float(near) - steps) > 1e-9 * max(1.0, abs(steps)):
        raise FormatError(f"{name}: an origin lies between two steps, and no {MAX_FINER} times finer one hits it")
    return near


def _rate(sequences: Element, name: str) -> float:
    """From the increment of the time sequence, which is one over the rate, written with some decimals."""
    times = [sequence for code, sequence in _sequences(sequences) if code in TIMES]
    if not times:
        raise FormatError(f"{name}: its leads have no time sequence ({' or '.join(TIMES)}), so no rate")
    written = text_of(times[0], "value/increment@value")
    unit = SECONDS.get(text_of(times[0], "value/increment@unit"), 0.0)
    increment = number_of(times[0], "value/increment@value", name)
    if not 1e-6 <= increment * unit <= 1:
        raise FormatError(f"{name}: the increment of its time sequence is out of range, or not in s, ms or us")
    sampling_rate = 1 / (increment * unit)
    whole = round(sampling_rate)
    return (
        float(whole)
        if abs(sampling_rate - whole) < NEAR_WHOLE * whole and _rounds_to(1 / whole / unit, written)
        else sampling_rate
    )


def _rounds_to(value: float, written: str) -> bool:
    """Whether a number, rounded to the decimals of another, is that: 1/300 is written 0.0033333."""
    try:
        decimals = -int(Decimal(written).as_tuple().exponent)
    except (InvalidOperation, ValueError):
        return False
    return 0 <= decimals <= 20 and round(value, decimals) == float(written)


def _heart_rate(root: Element) -> float | None:
    stated = [each for each in root.iter("annotation") if text_of(each, "code@code") == HEART_RATE]
    return stated_of(stated[0], "value@value") if stated else None


def _person(root: Element) -> Person:
    """The reported age where there is one, else that of the day of recording."""
    about = root.find("componentOf/timepointEvent/componentOf/subjectAssignment/subject/trialSubject")
    reported = [each for each in root.iter("relatedObservation") if text_of(each, "code@code") == REPORTED_AGE]
    age = parse_age(text_of(reported[0], "value@value"), text_of(reported[0], "value@unit")) if reported else None
    if age is None:
        born = text_of(about, "subjectDemographicPerson/birthTime@value")
        age = age_at(digits_day(born), digits_day(_acquired(root)))
    return Person(age, parse_sex(text_of(about, "subjectDemographicPerson/administrativeGenderCode@code")))


def _acquired(root: Element) -> str:
    places = [f"{above}effectiveTime/{end}@value" for above in ("", "component/series/") for end in ("low", "center")]
    return next(filter(None, (text_of(root, place) for place in places)), "")


def _read_identity(source: Source, name: str) -> Identity:
    root = parse(source.read(name), name)
    written = _acquired(root)
    acquired = digits_moment(written)
    return identity_of(root, IDENTITY, acquired.isoformat() if acquired else written)


AECG = Format(NAME, "HL7 annotated ECG: the rhythm series, leads by MDC code", _matches, _read, _read_identity)
