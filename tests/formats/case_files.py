"""Real twelve-lead ECGs as files of every format. The metadata of a file may be changed to be wrong."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import Dataset

from clocs.core.recording import Recording, quantize
from clocs.datasets.folder import FOLDER
from clocs.formats.writing import WRITERS
from clocs.signals.beats import find_beats
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import assess
from tests.formats.binary_examples import (
    APPLE_LINES,
    Rows,
    apple_file,
    atc_file,
    atc_leads,
    ishne_file,
    mfer_file,
    mfer_tag,
)
from tests.formats.scp_encoding import Scp, data_section, lead_section, record
from tests.formats.writers.recordings import millivolts, originals
from tests.formats.xml_examples import (
    aecg,
    aecg_lead,
    aecg_series,
    aecg_time,
    cardiosoft,
    muse,
    muse_lead,
    muse_waveform,
    philips,
    schiller,
)

Files = dict[str, bytes]

EIGHT_LEADS = (*STANDARD_LEADS[:2], *STANDARD_LEADS[6:])
GAIN = 1000.0
"""Digital units per mV of every recording in this module."""
SECONDS = 10


@dataclass(frozen=True)
class Case:
    """Metadata and samples of a file."""

    recording: Recording
    heart_rate: int
    """Heart rate that the device reports, if the format has a field for it."""
    sampling_rate: float
    num_samples: int
    leads: int
    """Number of samples that the file declares."""

    @property
    def rows(self) -> Rows:
        return dict(zip(self.recording.leads, self.recording.digital.tolist(), strict=True))

    @property
    def microvolts(self) -> float:
        """Of a step, as the file states it."""
        return 1e3 / float(self.recording.gain[0])

    def holding(self, recording: Recording) -> Case:
        """Another recording, announced as it is."""
        num_samples, leads = recording.digital.shape[::-1]
        return replace(
            self, recording=recording, sampling_rate=recording.sampling_rate, num_samples=num_samples, leads=leads
        )

    @property
    def timed(self) -> Recording:
        """The recording at the announced rate."""
        return replace(self.recording, sampling_rate=self.sampling_rate)


def real_cases(archive: Path) -> Iterator[Case]:
    """Iterate over recordings of originals.zip with clear beats and no findings of the quality gate."""
    for publisher in ("chapman", "ptbxl", "cpsc2018", "ludb"):
        for found in originals(archive, publisher):
            if not set(STANDARD_LEADS) <= set(found.leads):
                continue
            values = millivolts(found.select(STANDARD_LEADS))[:, : round(SECONDS * found.sampling_rate)]
            recording = replace(
                found.select(STANDARD_LEADS),
                digital=quantize(values, GAIN),
                gain=np.full(len(STANDARD_LEADS), GAIN),
                baseline=np.zeros(len(STANDARD_LEADS), np.int32),
                provenance=replace(found.provenance, num_declared_samples=None),
            )
            beats = find_beats(recording)
            if recording.digital.dtype == np.int16 and beats and not assess(recording, FOLDER.gate):
                yield Case(
                    recording,
                    round(60 / beats.interval),
                    recording.sampling_rate,
                    recording.num_samples,
                    len(STANDARD_LEADS),
                )


def _wfdb(case: Case) -> Files:
    files = WRITERS.get("wfdb").encode(case.timed, "case").files
    message = rf"\g<1> {case.leads} \g<2> {case.num_samples}".encode()
    return {"case.hea": re.sub(rb"^(\S+) \d+ (\S+) \d+", message, files[".hea"]), "case.dat": files[".dat"]}


def _dicom(case: Case) -> Files:
    dataset = pydicom.dcmread(io.BytesIO(WRITERS.get("dicom").encode(case.timed, "case").files[".dcm"]))
    group = dataset.WaveformSequence[0]
    group.NumberOfWaveformSamples, group.NumberOfWaveformChannels = case.num_samples, case.leads
    interval, name = Dataset(), Dataset()
    name.CodeValue, name.CodingSchemeDesignator, name.CodeMeaning = "5.10.2.1-3", "SCPECG", "RR Interval"
    interval.ConceptNameCodeSequence, interval.NumericValue = [name], str(round(60_000 / case.heart_rate))
    dataset.WaveformAnnotationSequence = [interval]
    buffer = io.BytesIO()
    dataset.save_as(buffer)
    return {"case": buffer.getvalue()}


def _edf(case: Case) -> Files:
    raw = bytearray(WRITERS.get("edf").encode(case.timed, "case").files[".edf"])
    records = round(int(raw[236:244]) * case.num_samples / case.recording.num_samples)
    raw[236:244], raw[252:256] = str(records).ljust(8).encode(), str(case.leads + 1).ljust(4).encode()
    return {"case": bytes(raw)}


def _clocs_csv(case: Case) -> Files:
    raw = WRITERS.get("csv").encode(case.recording, "case").files[".csv"]
    raw = re.sub(rb"# sampling_rate: .*", f"# sampling_rate: {case.sampling_rate}".encode(), raw)
    return {"case": re.sub(rb"# num_samples: \d+", b"# num_samples: %d" % case.num_samples, raw)}


def _muse(case: Case) -> Files:
    leads = [muse_lead(lead, digital_values, step=f"{case.microvolts:g}") for lead, digital_values in case.rows.items()]
    text = muse(
        muse_waveform("Rhythm", *leads, base=f"{case.sampling_rate:g}"),
        about=f"<RestingECGMeasurements><VentricularRate>{case.heart_rate}</VentricularRate></RestingECGMeasurements>",
    )
    return _utf8_file(text.replace(f"CountTotal>{case.recording.num_samples}<", f"CountTotal>{case.num_samples}<"))


def _aecg(case: Case) -> Files:
    scale = f'value="{case.microvolts:g}" unit="uV"'
    leads = [
        aecg_lead(lead.upper(), " ".join(map(str, digital_values)), scale=scale)
        for lead, digital_values in case.rows.items()
    ]
    stated = f"""<subjectOf><annotationSet><component><annotation><code code="MDC_ECG_HEART_RATE"/>
<value value="{case.heart_rate}" unit="bpm"/></annotation></component></annotationSet></subjectOf></series>"""
    series = aecg_series(aecg_time(f'value="{1 / case.sampling_rate:.7g}" unit="s"'), *leads)
    return _utf8_file(aecg(series.replace("</series>", stated)))


def _philips(case: Case) -> Files:
    text = philips(
        case.recording.digital.astype("<i2").tobytes(),
        labels=" ".join(case.recording.leads),
        more=f'durationperchannel="{round(1000 * case.num_samples / case.sampling_rate)}" numberofleads="{case.leads}"',
        about=f"<globalmeasurements><heartrate>{case.heart_rate}</heartrate></globalmeasurements>",
    )
    text = text.replace('resolution="5"', f'resolution="{case.microvolts:g}"')
    return _utf8_file(text.replace('samplespersecond="500"', f'samplespersecond="{case.sampling_rate:g}"'))


def _cardiosoft(case: Case) -> Files:
    text = cardiosoft(
        case.rows,
        about=f"<RestingECGMeasurements><VentricularRate>{case.heart_rate}</VentricularRate></RestingECGMeasurements>",
        resolution=f'<Resolution units="uVperLsb">{case.microvolts:g}</Resolution>',
    )
    text = text.replace("CountTotal>4<", f"CountTotal>{case.num_samples}<")
    return _utf8_file(text.replace('"Hz">500<', f'"Hz">{case.sampling_rate:g}<'))


def _schiller(case: Case) -> Files:
    text = schiller(case.rows).replace("<unitperbit>1.0<", f"<unitperbit>{case.microvolts:g}<")
    text = text.replace("<data>", f"<samplecount>{case.num_samples}</samplecount><data>")
    return _utf8_file(text.replace("<value>500<", f"<value>{case.sampling_rate:g}<"))


def _utf8_file(text: str) -> Files:
    return {"case": text.encode()}


def _scp(case: Case) -> Files:
    numbers = [1 + EIGHT_LEADS.index(lead) for lead in case.recording.leads]
    measured = struct.pack("<BBHH", 0, 0, round(60_000 / case.heart_rate), 29999)
    sections = {
        3: lead_section([(number, 1, case.num_samples) for number in numbers[: case.leads]]),
        6: data_section(
            list(case.rows.values()), nanovolts=round(1000 * case.microvolts), interval=round(1e6 / case.sampling_rate)
        ),
        7: measured,
    }
    return {"case": record(Scp(sections))}


def _ishne(case: Case) -> Files:
    codes = [5 + STANDARD_LEADS.index(lead) for lead in case.recording.leads]
    raw = ishne_file(
        case.rows,
        codes=codes,
        counted=case.num_samples,
        step=round(1000 * case.microvolts),
        sampling_rate=round(case.sampling_rate),
        announced=case.leads,
    )
    return {"case": raw}


def _mfer(case: Case) -> Files:
    number = struct.pack("<h", round(case.sampling_rate))
    power, mantissa = (-6, 1) if case.microvolts == 1 else (-3, 1) if case.microvolts > 1 else (-9, 1)
    definitions = (
        mfer_tag(0x0B, b"\0\0" + number),
        mfer_tag(0x0C, bytes([0, power % 256]) + struct.pack("<h", mantissa)),
        mfer_tag(0x04, struct.pack("<I", case.num_samples)),
        mfer_tag(0x06, struct.pack("<I", 1)),
    )
    raw = mfer_file(case.rows, *definitions)
    return {"case": raw.replace(mfer_tag(0x05, bytes([len(case.rows)])), mfer_tag(0x05, bytes([case.leads])))}


def _alivecor(case: Case) -> Files:
    blocks = atc_leads({lead: case.rows[lead] for lead in STANDARD_LEADS[:6]})
    raw = atc_file(*blocks, sampling_rate=round(case.sampling_rate), nanovolts=round(1000 * case.microvolts))
    declared_size = struct.pack("<I", 2 * case.recording.num_samples)
    return {"case": raw.replace(declared_size, struct.pack("<I", 2 * case.num_samples))}


def _apple(case: Case) -> Files:
    unit = {1.0: "µV", 1000.0: "mV"}.get(case.microvolts, "nV")
    lines = [line.replace("512.844", f"{case.sampling_rate:g}").replace("µV", unit) for line in APPLE_LINES]
    lines = [line.replace("Lead I", f"Lead {case.recording.leads[0]}") for line in lines]
    return {"case": apple_file([f"{value}.000" for value in next(iter(case.rows.values()))], lines)}


def _chapman(case: Case) -> Files:
    rows = (case.recording.select(STANDARD_LEADS).digital.T * case.microvolts).tolist()
    return {"case": "".join(",".join(f"{value:g}" for value in row) + "\n" for row in rows).encode()}


@dataclass(frozen=True)
class FormatCase:
    """A format: its writer, its leads, and the metadata that it lacks."""

    write: Callable[[Case], Files]
    leads: tuple[str, ...] = STANDARD_LEADS
    missing_fields: tuple[str, ...] = ()
    """Metadata without a field in the format: ``sampling_rate``, ``num_samples``, ``leads``, ``names``, ``unit``."""
    sampling_rate: float | None = None
    """Sampling rate of all files of the format, or None for that of the recording."""
    repeated: int = 1
    """Number of repetitions of the 10 s, to reach the usual length of the format."""


FORMAT_CASES = {
    "wfdb": FormatCase(_wfdb),
    "muse-xml": FormatCase(_muse, EIGHT_LEADS, ("leads",)),
    "aecg": FormatCase(_aecg, missing_fields=("num_samples", "leads")),
    "philips-xml": FormatCase(_philips),
    "cardiosoft-xml": FormatCase(_cardiosoft, missing_fields=("leads",)),
    "schiller-xml": FormatCase(_schiller, missing_fields=("leads",)),
    "dicom": FormatCase(_dicom),
    "scp": FormatCase(_scp, EIGHT_LEADS),
    "edf": FormatCase(_edf),
    "ishne": FormatCase(_ishne),
    "mfer": FormatCase(_mfer, EIGHT_LEADS),
    "alivecor": FormatCase(_alivecor, STANDARD_LEADS[:6], ("leads",), 300.0),
    "apple-watch": FormatCase(_apple, ("I",), ("num_samples", "leads"), 512.0, repeated=3),
    "clocs-csv": FormatCase(_clocs_csv, missing_fields=("leads",)),
    "chapman-csv": FormatCase(_chapman, missing_fields=("sampling_rate", "num_samples", "leads"), sampling_rate=500.0),
}


def adapt_case(case: Case, form: FormatCase) -> Case:
    """Return a case with the leads and the sampling rate of a format."""
    chosen = case.recording.select(form.leads)
    sampling_rate = form.sampling_rate or chosen.sampling_rate
    times, known = (
        np.arange(int(chosen.seconds * sampling_rate)) / sampling_rate,
        np.arange(chosen.num_samples) / chosen.sampling_rate,
    )
    digital = np.stack([np.interp(times, known, row) for row in chosen.digital]).round().astype(np.int16)
    return case.holding(replace(chosen, digital=np.tile(digital, form.repeated), sampling_rate=sampling_rate))
