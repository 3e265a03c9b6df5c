"""Write DICOM ECG waveforms: 12-lead ECG if the leads allow it, else the first ECG class that accepts the recording."""

from __future__ import annotations

import hashlib
import io
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clocs.core.errors import SignalError
from clocs.core.recording import Recording
from clocs.formats.channels import DERIVED_LEAD_TEXT
from clocs.formats.lead_codes import LEADS
from clocs.formats.writers.digital_values import ROUNDED, FittedLead, check_patient_id, fit_to_bits
from clocs.formats.writing import EncodedRecording, Writer
from clocs.signals.leads import STANDARD_LEADS

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

PADDING: Final = -(2**15)
MAX_PATIENT_ID_LENGTH: Final = 64
"""Maximum number of characters of a patient id."""
NO_DATE: Final = "19000101"
"""Date that stands for an unknown one, where DICOM requires a date."""
INDEPENDENT_LEADS: Final = {"I", "II", "V1", "V2", "V3", "V4", "V5", "V6"}
LEAD_NUMBERS: Final = {lead: number for number, lead in LEADS.items()}
AGE_CHANGED: Final = "the age is written in whole years, months or days"
MIN_AGE_BY_UNIT: Final = {"Y": 2, "M": 1, "D": 0}
"""Minimum number for which each unit of age is used."""
MANUFACTURER: Final = "clocs"


@dataclass(frozen=True)
class _StorageClass:
    """A storage class with its limits by PS3.3 A.34."""

    uid: str
    """SOP class UID."""
    max_channels: int
    """Maximum number of channels."""
    sampling_rate_range: tuple[float, float]
    """Minimum and maximum sampling rate in Hz."""
    max_samples: int | None = None
    """Maximum number of samples, or None."""
    needs_standard_leads: bool = False
    """True if the leads must be standard leads, including I, II and V1 to V6."""

    def accepts(self, recording: Recording) -> bool:
        leads = set(recording.leads)
        low, high = self.sampling_rate_range
        return (
            len(leads) <= self.max_channels
            and low <= recording.sampling_rate <= high
            and (self.max_samples is None or recording.num_samples <= self.max_samples)
            and (not self.needs_standard_leads or INDEPENDENT_LEADS <= leads <= set(STANDARD_LEADS))
        )


STORAGE_CLASSES: Final = (
    _StorageClass("1.2.840.10008.5.1.4.1.1.9.1.1", 13, (200.0, 1000.0), 16384, needs_standard_leads=True),
    _StorageClass("1.2.840.10008.5.1.4.1.1.9.1.2", 24, (200.0, 1000.0)),
    _StorageClass("1.2.840.10008.5.1.4.1.1.9.1.3", 12, (50.0, 1000.0)),
)
"""12-lead ECG, General ECG and Ambulatory ECG. The first class that accepts a recording is used."""


def _encode(recording: Recording, stem: str) -> EncodedRecording:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    storage_class = _storage_class(recording)
    leads = fit_to_bits(recording, 16, prefer_zero_baseline=True)
    frames = np.stack([np.where(lead.missing, PADDING, lead.values) for lead in leads], axis=1).astype("<i2")
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _write_header(dataset, recording, storage_class, _identifiers(recording, frames.tobytes()))
        dataset.WaveformSequence = [_waveform(recording, leads, frames.tobytes())]
        if recording.labels:
            dataset.WaveformAnnotationSequence = [_annotation(label) for label in recording.labels]
        buffer = io.BytesIO()
        dataset.save_as(buffer, enforce_file_format=True)
    return EncodedRecording({".dcm": buffer.getvalue()}, tuple(_notes(recording, leads)))


def _storage_class(recording: Recording) -> _StorageClass:
    if recording.unit != "mV":
        raise SignalError(f"recording '{recording.record_id}' is in raw digital values (adu); DICOM ECGs are in volts")
    check_patient_id(recording, MAX_PATIENT_ID_LENGTH)
    storage_class = next((candidate for candidate in STORAGE_CLASSES if candidate.accepts(recording)), None)
    if storage_class is None:
        raise SignalError(
            f"recording '{recording.record_id}': {len(recording.leads)} leads at {recording.sampling_rate:g} Hz; the "
            "ECG classes of DICOM allow up to 24 leads at 200 to 1000 Hz, or up to 12 at 50 to 1000 Hz"
        )
    return storage_class


def _identifiers(recording: Recording, data: bytes) -> Iterator[str]:
    """Iterate over UIDs that depend only on the content, so that a recording always becomes the same object."""
    content = [
        recording.record_id,
        recording.patient_id,
        recording.leads,
        recording.sampling_rate,
        recording.gain.tolist(),
    ]
    content += [recording.baseline.tolist(), recording.age, recording.sex, recording.labels]
    digest = hashlib.sha256(repr(content).encode() + data).hexdigest()
    for part in ("study", "series", "instance"):
        yield f"2.25.{uuid.uuid5(uuid.NAMESPACE_OID, f'clocs {part} {digest}').int}"


def _write_header(
    dataset: Dataset, recording: Recording, storage_class: _StorageClass, identifiers: Iterator[str]
) -> None:
    """Set every element except the waveform. Elements that identify the patient are empty, except for a patient id."""
    study, series, instance = identifiers
    values: dict[str, Any] = {
        "SpecificCharacterSet": "ISO_IR 192",
        "SOPClassUID": storage_class.uid,
        "SOPInstanceUID": instance,
        "StudyDate": "",
        "ContentDate": NO_DATE,
        "AcquisitionDateTime": NO_DATE + "000000",
        "StudyTime": "",
        "ContentTime": "000000",
        "AccessionNumber": "",
        "Modality": "ECG",
        "Manufacturer": MANUFACTURER,
        "ReferringPhysicianName": "",
        "PatientName": "",
        "PatientID": _text(recording.patient_id, MAX_PATIENT_ID_LENGTH),
        "PatientBirthDate": "",
        "PatientSex": {"female": "F", "male": "M", None: ""}[recording.sex],
        "PatientIdentityRemoved": "NO" if recording.patient_id else "YES",
        "LongitudinalTemporalInformationModified": "REMOVED",
        "StudyInstanceUID": study,
        "SeriesInstanceUID": series,
        "StudyID": "",
        "SeriesNumber": "1",
        "InstanceNumber": "1",
        "AcquisitionContextSequence": [],
    }
    if not recording.patient_id:
        values["DeidentificationMethod"] = "no identity written"
    if recording.age is not None:
        values["PatientAge"] = _age(recording.age)[0]
    for keyword, value in values.items():
        setattr(dataset, keyword, value)


def _age(years: float) -> tuple[str, bool]:
    """Return an age as three digits and a unit, and whether it is exact."""
    counts = {unit: round(years * per_year, 4) for unit, per_year in (("Y", 1.0), ("M", 12.0), ("D", 365.25))}
    unit = next((unit for unit, count in counts.items() if count >= MIN_AGE_BY_UNIT[unit]), "D")
    return f"{min(int(counts[unit]), 999):03d}{unit}", counts[unit] == int(counts[unit])


def _waveform(recording: Recording, leads: Sequence[FittedLead], data: bytes) -> Dataset:
    from pydicom.dataset import Dataset

    group = Dataset()
    group.WaveformOriginality = "ORIGINAL"
    group.NumberOfWaveformChannels = len(leads)
    group.NumberOfWaveformSamples = recording.num_samples
    group.SamplingFrequency = _decimal(recording.sampling_rate)
    group.MultiplexGroupLabel = "RHYTHM"
    group.ChannelDefinitionSequence = [_channel(recording, row, lead) for row, lead in enumerate(leads)]
    group.WaveformBitsAllocated = 16
    group.WaveformSampleInterpretation = "SS"
    if any(lead.missing.any() for lead in leads):
        group.add_new("WaveformPaddingValue", "OW", np.array([PADDING], "<i2").tobytes())
    group.add_new("WaveformData", "OW", data)
    return group


def _channel(recording: Recording, row: int, lead: FittedLead) -> Dataset:
    from pydicom.dataset import Dataset

    resolution = 1000.0 / lead.gain
    name = recording.leads[row]
    channel = Dataset()
    channel.ChannelLabel = _text(name, 16)
    channel.ChannelSourceSequence = [_lead_code(name, row)]
    channel.ChannelSensitivity = _decimal(resolution)
    channel.ChannelSensitivityUnitsSequence = [_code("uV", "UCUM", "microvolt", "1.4")]
    channel.ChannelSensitivityCorrectionFactor = "1"
    channel.ChannelBaseline = _decimal(-lead.baseline * resolution)
    channel.ChannelSampleSkew = "0"
    channel.WaveformBitsStored = 16
    if name in recording.provenance.derived_leads:
        channel.ChannelDerivationDescription = DERIVED_LEAD_TEXT
    return channel


def _lead_code(name: str, row: int) -> Dataset:
    """Return the SCP-ECG code of a lead, which devices write and every reader knows, and the newer MDC code."""
    number = LEAD_NUMBERS.get(name)
    if number is None:
        return _code(f"LEAD{row + 1}", "99CLOCS", _text(name, 64) or "unnamed lead")
    code = _code(f"5.6.3-9-{number}", "SCPECG", f"Lead {name}", "1.3")
    code.EquivalentCodeSequence = [_code(f"2:{number}", "MDC", f"Lead {name}")]
    return code


def _code(value: str, scheme: str, meaning: str, version: str | None = None) -> Dataset:
    from pydicom.dataset import Dataset

    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, scheme, meaning
    if version:
        code.CodingSchemeVersion = version
    return code


def _annotation(label: str) -> Dataset:
    """Return a label as a text annotation of all channels of the first group."""
    from pydicom.dataset import Dataset

    item = Dataset()
    item.ReferencedWaveformChannels = [1, 0]
    item.AnnotationGroupNumber = 1
    item.UnformattedTextValue = _text(label, 1024)
    return item


def _decimal(value: float) -> Any:
    """Return a number as a DICOM decimal string of at most 16 characters."""
    from pydicom.valuerep import DSfloat

    return DSfloat(value + 0.0, auto_format=True)


def _text(text: str, max_length: int) -> str:
    """Return a text without control characters, and without backslashes, which separate values."""
    printable = (character if character.isprintable() and character != "\\" else " " for character in text)
    return "".join(printable).strip()[:max_length]


def _notes(recording: Recording, leads: Sequence[FittedLead]) -> Iterator[str]:
    if any(lead.is_rounded for lead in leads):
        yield ROUNDED
    if recording.age is not None and not _age(recording.age)[1]:
        yield AGE_CHANGED
    if any(name not in LEAD_NUMBERS for name in recording.leads):
        yield "lead names without a standard code are written as labels"
    if recording.episodes:
        yield "episodes are not written"


DICOM = Writer("dicom", "DICOM 12-lead, General or Ambulatory ECG, 16 bits", (".dcm", ".dicom"), _encode)
