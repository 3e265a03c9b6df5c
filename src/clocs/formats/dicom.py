"""Read DICOM waveforms of any class: the ECG channels of the multiplex group that contains the rhythm."""

from __future__ import annotations

import io
import itertools
import logging
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import make_identity, wrap_library_errors
from clocs.formats.channels import (
    DERIVED_LEAD_TEXT,
    MAX_CHANNELS,
    SKEW_NOTE,
    Channel,
    gain_from_resolution,
    millivolts,
    recording_from_channels,
)
from clocs.formats.demographics import (
    Demographics,
    age_at,
    parse_age,
    parse_compact_date,
    parse_compact_datetime,
    parse_sex,
)
from clocs.formats.lead_codes import CALCULATED_LEADS, LEADS
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

NAME: Final = "dicom"
MAGIC_OFFSET, MAGIC = 128, b"DICM"
DEFLATED: Final = b"1.2.840.10008.1.2.1.99"
"""Transfer syntax that is not supported, because the decompressed size is not known in advance."""
ECG_CLASSES: Final = "1.2.840.10008.5.1.4.1.1.9.1."
TYPES: Final = {"SB": "i1", "UB": "u1", "SS": "i2", "US": "u2", "SL": "i4"}
SENSITIVITY, CORRECTION, BASELINE, TIME_SKEW, SAMPLE_SKEW = 0x3A0210, 0x3A0212, 0x3A0213, 0x3A0214, 0x3A0215
"""Tags of numbers of a channel."""
CODE_VALUE, NUMERIC_VALUE = 0x80100, 0x40A30A
"""Tags of a code, and of the number of an annotation."""
AVERAGED: Final = re.compile(r"MEDIAN|AVERAGE|REPRESENTATIVE|TEMPLATE|BEAT")
MIN_DERIVED_SECONDS: Final = 2.0
"""Minimum duration of a derived group in seconds. A shorter one is an averaged beat, even if its label differs."""
INTERVAL: Final = "5.10.2.1-3"
"""Code of the RR interval in ms (SCP-ECG)."""
MEASUREMENTS: Final = {
    "8867-4": "heart_rate",
    "8625-6": "pr_interval",
    "8633-0": "qrs_duration",
    "8634-8": "qt_interval",
    "8636-3": "qtc_interval",
    "8626-4": "p_axis",
    "8632-2": "qrs_axis",
    "8638-9": "t_axis",
    "2:16184": "p_duration",
    "2:15872": "pr_interval",
    "2:16156": "qrs_duration",
    "2:16160": "qt_interval",
    "2:15876": "qtc_interval",
    "5.13.5-7": "pr_interval",
    "5.13.5-9": "qrs_duration",
    "5.13.5-11": "qt_interval",
    "5.10.2.5-5": "qtc_interval",
    "5.10.3-11": "p_axis",
    "5.10.3-13": "qrs_axis",
    "5.10.3-15": "t_axis",
}
"""Stated measurement by the code of an annotation in LOINC, MDC and SCP-ECG: rates per minute, times in ms, degrees."""
MAX_ANNOTATIONS: Final = 10_000
"""Maximum number of annotations that are searched for measurements."""
AGE_UNITS: Final = {"Y": "years", "M": "months", "W": "weeks", "D": "days"}
MDC_BASE: Final = 2 << 16
"""Base of MDC lead numbers. MDC writes lead 1 as ``2:1``, as this number plus 1, or as ``MDC_ECG_LEAD_I``."""

_SCP_CODE = re.compile(r"5\.6\.3-9-(\d{1,3})")
_MDC_CODE = re.compile(r"2:(\d{1,3})|(\d{6})")
_MDC_NAME = re.compile(r"MDC_ECG_LEAD_(\w{1,8})")
_CHEST = re.compile(r"V[1-9]R?")
_MEANING = re.compile(r"(?:ECG )?(?:Lead )?(\w{1,4})(?: \(.*\)|,.*)?", re.IGNORECASE)


class _WaveformGroup(NamedTuple):
    """A multiplex group. The first three fields rank the groups; the highest is read."""

    is_original: bool
    """True for originally acquired data."""
    is_rhythm: bool
    """True if the label contains "RHYTHM"."""
    num_values: int
    """Number of samples of all ECG channels."""
    contents: Dataset
    """Element of the waveform sequence."""
    leads: list[str | None]
    """Lead of each channel; None if the channel is not an ECG."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head[MAGIC_OFFSET : MAGIC_OFFSET + len(MAGIC)] == MAGIC


@contextmanager
def _open_dataset(raw: bytes, name: str) -> Iterator[Dataset]:
    """Open a DICOM file without warnings and log messages of pydicom.

    They would quote values of the file, such as a name or a date. pydicom converts elements on access, so the file
    has to be read within this context.
    """
    import pydicom

    if DEFLATED in raw:
        raise FormatError(f"{name}: deflated DICOM is not supported; convert it first, for example with dcmconv")
    log = logging.getLogger("pydicom")
    silent, log.disabled = log.disabled, True
    try:
        with wrap_library_errors(name, "DICOM"), warnings.catch_warnings(), pydicom.config.disable_value_validation():
            warnings.simplefilter("ignore")
            yield pydicom.dcmread(io.BytesIO(raw))
    finally:
        log.disabled = silent


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    with _open_dataset(raw, name) as dataset:
        group, notes = _rhythm(dataset, name)
        channels, channel_notes = _channels(dataset, group.contents, group.leads, name)
        return recording_from_channels(
            channels,
            float(group.contents.SamplingFrequency),
            raw,
            name,
            NAME,
            demographics=_demographics(dataset),
            num_declared_samples=int(group.contents.NumberOfWaveformSamples),
            stated=_stated(dataset),
            notes=[*notes, *channel_notes],
        )


def _rhythm(dataset: Dataset, name: str) -> tuple[_WaveformGroup, list[str]]:
    """Select the group to read: original before derived, then labelled as rhythm, then with more ECG samples."""
    is_ecg_class = str(dataset.get("SOPClassUID") or "").startswith(ECG_CLASSES)
    groups = [group for item in dataset.get("WaveformSequence") or () if (group := _describe_group(item, is_ecg_class))]
    if not groups:
        raise FormatError(f"{name}: holds no rhythm; other DICOM objects and averaged beats are not recordings")
    with_ecg = [group for group in groups if group.num_values]
    if not with_ecg:
        raise FormatError(f"{name}: no channel is an ECG in V, mV or uV")
    best = max(with_ecg, key=lambda group: group[:3])
    num_others = sum(group[:2] == best[:2] for group in with_ecg) - 1
    return best, [f"left out {num_others} more groups of the same kind"] if num_others else []


def _describe_group(contents: Dataset, is_ecg_class: bool) -> _WaveformGroup | None:
    """Return a group with its rank, or None if it is an averaged beat."""
    label = str(contents.get("MultiplexGroupLabel") or "").upper()
    num_samples = int(contents.NumberOfWaveformSamples)
    is_original = str(contents.get("WaveformOriginality") or "ORIGINAL").upper() == "ORIGINAL"
    is_short = num_samples < MIN_DERIVED_SECONDS * float(contents.SamplingFrequency)
    if (AVERAGED.search(label) and "RHYTHM" not in label) or (is_short and not is_original):
        return None
    leads = [_lead(definition, is_ecg_class) for definition in contents.ChannelDefinitionSequence]
    num_values = num_samples * (len(leads) - leads.count(None))
    return _WaveformGroup(is_original, "RHYTHM" in label, num_values, contents, leads)


def _channels(dataset: Dataset, group: Dataset, leads: list[str | None], name: str) -> tuple[list[Channel], list[str]]:
    definitions = list(group.ChannelDefinitionSequence)
    frames = _frames(dataset, group, len(definitions), name)
    kept = [row for row, lead in enumerate(leads) if lead]
    padding, notes = _padding(group, frames.dtype)
    scales = [_scale(definitions[row], name) for row in kept]
    missing = np.zeros(frames.shape, np.bool_)
    for value in padding:
        missing |= frames == value
    num_missing = missing[kept].sum(axis=1)
    channels = [
        Channel(
            leads[row] or "ECG",
            frames[row],
            gain,
            round(zero),
            missing[row] if count else None,
            is_derived=definitions[row].get("ChannelDerivationDescription") == DERIVED_LEAD_TEXT,
        )
        for row, (gain, zero), count in zip(kept, scales, num_missing, strict=True)
    ]
    notes += [f"left out {len(leads) - len(kept)} channels that are not ECG"] if len(kept) < len(leads) else []
    notes += [f"{num_missing.sum()} samples are padding and taken as missing"] if num_missing.any() else []
    if any(abs(zero - round(zero)) > 1e-6 for _, zero in scales):
        notes.append("the baseline is rounded to the nearest digital value")
    if any(_number(definitions[row], tag, 0.0) for row in kept for tag in (TIME_SKEW, SAMPLE_SKEW)):
        notes.append(SKEW_NOTE)
    return channels, notes


def _frames(dataset: Dataset, group: Dataset, channels: int, name: str) -> npt.NDArray[np.integer[Any]]:
    """Return all samples in the file, shape (channels, samples). The quality gate checks whether some are missing."""
    kind = str(group.WaveformSampleInterpretation)
    if kind not in TYPES:
        raise FormatError(f"{name}: sample interpretation is not supported; supported: {', '.join(TYPES)}")
    if not 1 <= channels <= MAX_CHANNELS or channels != int(group.NumberOfWaveformChannels):
        raise FormatError(f"{name}: {channels} channels are described, but the header declares another number")
    order = ">" if dataset.original_encoding[1] is False else "<"
    dtype: np.dtype[np.integer[Any]] = np.dtype(order + TYPES[kind])
    if int(group.WaveformBitsAllocated) != 8 * dtype.itemsize:
        raise FormatError(f"{name}: {kind} samples must have {8 * dtype.itemsize} bits; the file is damaged")
    data = group.WaveformData
    num_samples = len(data) // (channels * dtype.itemsize)
    if len(data) - channels * dtype.itemsize * int(group.NumberOfWaveformSamples) == 1:
        num_samples = int(group.NumberOfWaveformSamples)  # One byte of padding makes the length even.
    return np.ascontiguousarray(np.frombuffer(data, dtype, num_samples * channels).reshape(num_samples, channels).T)


def _padding(group: Dataset, dtype: np.dtype[Any]) -> tuple[list[int], list[str]]:
    """Return the values that mark missing samples: the declared one, and always the lowest 16-bit value."""
    lowest = [-(2**15)] if dtype == np.int16 else []
    declared = group.get("WaveformPaddingValue")
    if declared is None:
        return lowest, []
    value = int(np.frombuffer(bytes(declared)[: dtype.itemsize], dtype)[0])
    if value:
        return [*lowest, value], []
    return lowest, ["the declared padding value is 0, which is also a valid sample; zeros are kept"]


def _scale(definition: Dataset, name: str) -> tuple[float, float]:
    """Return the gain per mV and the digital value of 0 mV. The file states the baseline in physical units."""
    unit = _code(definition.ChannelSensitivityUnitsSequence[0])
    resolution = _number(definition, SENSITIVITY, 0.0)
    resolution *= _number(definition, CORRECTION, 1.0)
    zero = -_number(definition, BASELINE, 0.0) / resolution if resolution else math.inf
    if not abs(zero) < 2**31:
        raise FormatError(f"{name}: a channel's sensitivity or baseline is out of range")
    return gain_from_resolution(resolution, unit, name), zero


def _code(item: Dataset) -> str:
    """Return the code of an item; empty if it has none."""
    element = item.get_item(CODE_VALUE)
    value = "" if element is None else element.value
    return value.decode("ascii", "replace").strip(" \0") if isinstance(value, bytes) else str(value or "").strip()


def _number(item: Dataset, tag: int, default: float) -> float:
    """Return a decimal string as a number. pydicom's own conversion takes several times as long."""
    element = item.get_item(tag)
    value = None if element is None else element.value
    value = value.strip(b" \0") if isinstance(value, bytes) else value
    return default if value is None or value in ("", b"") else float(value)


def _lead(definition: Dataset, is_ecg_class: bool) -> str | None:
    """Return the lead by its code, or else by the meaning of the code. Return None if the channel is not an ECG."""
    units = definition.get("ChannelSensitivityUnitsSequence")
    if not units or millivolts(_code(units[0])) is None:
        return None
    sources = definition.get("ChannelSourceSequence")
    code = _code(sources[0]) if sources else ""
    if found := _SCP_CODE.fullmatch(code) or _MDC_CODE.fullmatch(code):
        numbers = [int(group) for group in found.groups() if group]
        number = numbers[0] % MDC_BASE
        return LEADS.get(number) or CALCULATED_LEADS.get(number) or ("ECG" if is_ecg_class else None)
    meaning = str(sources[0].get("CodeMeaning") or "") if sources else ""
    found = _MDC_NAME.fullmatch(code) or _MEANING.fullmatch(meaning)
    lead = canonical_lead(found.group(1)) if found else ""
    return lead if lead in STANDARD_LEADS or _CHEST.fullmatch(lead) else "ECG" if is_ecg_class else None


def _stated(dataset: Dataset) -> dict[str, float | None]:
    """Return the stated measurements, of repeated ones the first. Values that are no numbers are left out."""
    stated: dict[str, float | None] = {}
    for annotation in itertools.islice(dataset.get("WaveformAnnotationSequence") or (), MAX_ANNOTATIONS):
        if annotation.get_item(NUMERIC_VALUE) is None:
            continue
        names = annotation.get("ConceptNameCodeSequence")
        code = _code(names[0]) if names else ""
        if code not in MEASUREMENTS and code != INTERVAL:
            continue
        value = annotation.NumericValue
        if not isinstance(value, (float, Decimal, int)) or not math.isfinite(value):
            continue
        number = float(value)
        if code in MEASUREMENTS:
            stated.setdefault(MEASUREMENTS[code], number)
        elif number > 0:
            stated.setdefault("heart_rate", 60_000 / number)
    return stated


def _demographics(dataset: Dataset) -> Demographics:
    stated = re.fullmatch(r"(\d{1,3})([YMWD])", str(dataset.get("PatientAge") or "").strip())
    age = parse_age(stated.group(1), AGE_UNITS[stated.group(2)]) if stated else None
    if age is None:
        age = age_at(parse_compact_date(str(dataset.get("PatientBirthDate") or "")), _acquired_on(dataset))
    return Demographics(age, parse_sex(str(dataset.get("PatientSex") or "")))


def _acquired_on(dataset: Dataset) -> date | None:
    for keyword in ("AcquisitionDateTime", "AcquisitionDate", "ContentDate", "StudyDate"):
        if found := parse_compact_date(str(dataset.get(keyword) or "")):
            return found
    return None


IDENTITY_KEYWORDS: Final = (
    ("patient_id", r"(Other)?PatientIDs?|IssuerOfPatientID|\w*EthnicGroup|MilitaryRank|PatientReligiousPreference"),
    ("patient_name", r"(Other)?PatientNames?|Patient(Mother)?BirthName|ResponsiblePerson"),
    ("birth_date", r"PatientBirth(Date|Time)\w*"),
    ("contact", r"\w*(Address|Telephone|Telecom)\w*|CountryOfResidence|RegionOfResidence"),
    ("operator", r"OperatorsName|\w*(Technician|Operator)\w*|PersonName|VerifyingObserverName"),
    ("institution", r"Institution\w*|\w*Department\w*|\w*(PatientLocation|InstitutionResidence)|RequestingService"),
    ("device_serial", r"DeviceSerialNumber|StationName|DeviceUID|\w*AETitle|NetworkID"),
    ("order", r"AccessionNumber|AdmissionID|\w*(Study|Visit|Procedure\w*|Order\w*|Issue)(ID|Number)|\w*InstanceUID"),
    ("order", r"SynchronizationFrameOfReferenceUID|ServiceEpisodeID"),
    (
        "acquired",
        r"(Study|Series|Acquisition|Content|Curve|InstanceCreation|Admitting|PerformedProcedure\w*)Date(Time)?",
    ),
    ("free_text", r"\w*(Description|Comments?|Reason\w*|History|Alerts|Allergies|TextValue|Occupation|SpecialNeeds)"),
)
"""Identity fields by keyword. Every other person name counts as a physician, every other long text as free text."""
PRIVATE_TEXT: Final = "private text"
"""Kind of a text in a private element of a manufacturer."""
DATETIME_KEYWORDS: Final = (
    ("AcquisitionDateTime", ""),
    ("AcquisitionDate", "AcquisitionTime"),
    ("ContentDate", "ContentTime"),
)
IDENTITY_FIELD_BY_KIND: Final = {
    "PN": "physician",
    "AE": "device_serial",
    **dict.fromkeys(("LT", "ST", "UT", PRIVATE_TEXT), "free_text"),
}
SKIPPED_KINDS: Final = ("SQ", "OB", "OW", "OF", "OD", "OL", "OV", "UN")
MAX_VALUES: Final = 100
"""Maximum number of values of an element. Elements with more contain measurements, or are damaged."""


def _read_identity(source: Source, name: str) -> Identity:
    found: dict[str, list[str]] = {}
    with _open_dataset(source.read(name), name) as dataset:
        found["acquired"] = [_acquired(dataset)]
        for keyword, kind, value in _values(dataset):
            field = next((field for field, pattern in IDENTITY_KEYWORDS if re.fullmatch(pattern, keyword)), None)
            field = field or IDENTITY_FIELD_BY_KIND.get(kind)
            if field and kind != "TM":
                found.setdefault(field, []).append(_iso(value) if field == "acquired" else value)
        return make_identity(**found)


def _values(dataset: Dataset) -> Iterator[tuple[str, str, str]]:
    """Iterate over keyword, kind and text of every element, including nested elements and the file header."""
    for part in (dataset.file_meta, dataset):
        for element in part.iterall():
            if element.VR not in SKIPPED_KINDS and 0 < element.VM <= MAX_VALUES:
                values = element.value if element.VM > 1 else [element.value]
                is_private = (
                    element.tag.is_private and not element.tag.is_private_creator and element.VR in ("LO", "SH", "UC")
                )
                yield from (
                    (str(element.keyword), PRIVATE_TEXT if is_private else str(element.VR), str(value))
                    for value in values
                )


def _acquired(dataset: Dataset) -> str:
    """Return the date and time of the recording."""
    for date_keyword, time_keyword in DATETIME_KEYWORDS:
        text = "".join(str(dataset.get(keyword) or "") for keyword in (date_keyword, time_keyword) if keyword)
        if len(text) >= 12:
            return _iso(text)
    return ""


def _iso(text: str) -> str:
    """Convert 20021122091000 or 20021122 to ISO 8601. Return every other text unchanged."""
    found = parse_compact_datetime(text)
    if found is None:
        return text
    return found.date().isoformat() if len(text.strip()) == 8 else found.isoformat()


DICOM = Format(NAME, "DICOM waveforms: the ECG of any class that holds one", _matches, _read, _read_identity)
