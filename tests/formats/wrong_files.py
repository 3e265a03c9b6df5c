"""Real twelve-lead ECGs in every format, wrong on purpose: what a file says does not fit what it holds."""

from __future__ import annotations

import io
import random
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import Dataset

from clocs.core.errors import FormatError, SignalError
from clocs.core.recording import Recording, quantise
from clocs.datasets.folder import FOLDER
from clocs.formats.reading import read_from
from clocs.formats.writing import WRITERS
from clocs.service.parsing.memory_source import MemorySource
from clocs.signals.beats import find_beats
from clocs.signals.leads import STANDARD
from clocs.signals.quality import REASONS, assess
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

EIGHT = (*STANDARD[:2], *STANDARD[6:])
GAIN = 1000.0
"""Steps per mV of every recording here."""
SECONDS = 10


@dataclass(frozen=True)
class Case:
    """What a file is to say, and to hold."""

    recording: Recording
    heart_rate: int
    """As a device would state it, where the format has a place for that."""
    rate: float
    samples: int
    leads: int
    """As the file announces them."""

    @property
    def rows(self) -> Rows:
        return dict(zip(self.recording.leads, self.recording.digital.tolist(), strict=True))

    @property
    def microvolts(self) -> float:
        """Of a step, as the file states it."""
        return 1e3 / float(self.recording.gain[0])

    def holding(self, recording: Recording) -> Case:
        """Another recording, announced as it is."""
        samples, leads = recording.digital.shape[::-1]
        return replace(self, recording=recording, rate=recording.rate, samples=samples, leads=leads)

    @property
    def timed(self) -> Recording:
        """The recording at the announced rate."""
        return replace(self.recording, rate=self.rate)


def real_cases(archive: Path) -> Iterator[Case]:
    """Recordings of originals.zip in which the gate finds nothing and beats are clear, in steps of 1 uV."""
    for publisher in ("chapman", "ptbxl", "cpsc2018", "ludb"):
        for found in originals(archive, publisher):
            if not set(STANDARD) <= set(found.leads):
                continue
            values = millivolts(found.select(STANDARD))[:, : round(SECONDS * found.rate)]
            recording = replace(
                found.select(STANDARD),
                digital=quantise(values, GAIN),
                gain=np.full(len(STANDARD), GAIN),
                baseline=np.zeros(len(STANDARD), np.int32),
                provenance=replace(found.provenance, declared_samples=None),
            )
            beats = find_beats(recording)
            if recording.digital.dtype == np.int16 and beats and not assess(recording, FOLDER.gate):
                yield Case(recording, round(60 / beats.interval), recording.rate, recording.samples, len(STANDARD))


def _wfdb(case: Case) -> Files:
    files = WRITERS.get("wfdb").encode(case.timed, "case").files
    said = rf"\g<1> {case.leads} \g<2> {case.samples}".encode()
    return {"case.hea": re.sub(rb"^(\S+) \d+ (\S+) \d+", said, files[".hea"]), "case.dat": files[".dat"]}


def _dicom(case: Case) -> Files:
    dataset = pydicom.dcmread(io.BytesIO(WRITERS.get("dicom").encode(case.timed, "case").files[".dcm"]))
    group = dataset.WaveformSequence[0]
    group.NumberOfWaveformSamples, group.NumberOfWaveformChannels = case.samples, case.leads
    interval, name = Dataset(), Dataset()
    name.CodeValue, name.CodingSchemeDesignator, name.CodeMeaning = "5.10.2.1-3", "SCPECG", "RR Interval"
    interval.ConceptNameCodeSequence, interval.NumericValue = [name], str(round(60_000 / case.heart_rate))
    dataset.WaveformAnnotationSequence = [interval]
    buffer = io.BytesIO()
    dataset.save_as(buffer)
    return {"case": buffer.getvalue()}


def _edf(case: Case) -> Files:
    raw = bytearray(WRITERS.get("edf").encode(case.timed, "case").files[".edf"])
    records = round(int(raw[236:244]) * case.samples / case.recording.samples)
    raw[236:244], raw[252:256] = str(records).ljust(8).encode(), str(case.leads + 1).ljust(4).encode()
    return {"case": bytes(raw)}


def _clocs_csv(case: Case) -> Files:
    raw = WRITERS.get("csv").encode(case.recording, "case").files[".csv"]
    raw = re.sub(rb"# rate: .*", f"# rate: {case.rate}".encode(), raw)
    return {"case": re.sub(rb"# samples: \d+", b"# samples: %d" % case.samples, raw)}


def _muse(case: Case) -> Files:
    leads = [muse_lead(lead, steps, step=f"{case.microvolts:g}") for lead, steps in case.rows.items()]
    text = muse(
        muse_waveform("Rhythm", *leads, base=f"{case.rate:g}"),
        about=f"<RestingECGMeasurements><VentricularRate>{case.heart_rate}</VentricularRate></RestingECGMeasurements>",
    )
    return _told(text.replace(f"CountTotal>{case.recording.samples}<", f"CountTotal>{case.samples}<"))


def _aecg(case: Case) -> Files:
    scale = f'value="{case.microvolts:g}" unit="uV"'
    leads = [aecg_lead(lead.upper(), " ".join(map(str, steps)), scale=scale) for lead, steps in case.rows.items()]
    stated = f"""<subjectOf><annotationSet><component><annotation><code code="MDC_ECG_HEART_RATE"/>
<value value="{case.heart_rate}" unit="bpm"/></annotation></component></annotationSet></subjectOf></series>"""
    series = aecg_series(aecg_time(f'value="{1 / case.rate:.7g}" unit="s"'), *leads)
    return _told(aecg(series.replace("</series>", stated)))


def _philips(case: Case) -> Files:
    text = philips(
        case.recording.digital.astype("<i2").tobytes(),
        labels=" ".join(case.recording.leads),
        more=f'durationperchannel="{round(1000 * case.samples / case.rate)}" numberofleads="{case.leads}"',
        about=f"<interpretations><heartrate>{case.heart_rate}</heartrate></interpretations>",
    )
    text = text.replace('resolution="5"', f'resolution="{case.microvolts:g}"')
    return _told(text.replace('samplespersecond="500"', f'samplespersecond="{case.rate:g}"'))


def _cardiosoft(case: Case) -> Files:
    text = cardiosoft(
        case.rows,
        about=f"<RestingECGMeasurements><VentricularRate>{case.heart_rate}</VentricularRate></RestingECGMeasurements>",
        resolution=f'<Resolution units="uVperLsb">{case.microvolts:g}</Resolution>',
    )
    text = text.replace("CountTotal>4<", f"CountTotal>{case.samples}<")
    return _told(text.replace('"Hz">500<', f'"Hz">{case.rate:g}<'))


def _schiller(case: Case) -> Files:
    text = schiller(case.rows).replace("<unitperbit>1.0<", f"<unitperbit>{case.microvolts:g}<")
    text = text.replace("<data>", f"<samplecount>{case.samples}</samplecount><data>")
    return _told(text.replace("<value>500<", f"<value>{case.rate:g}<"))


def _told(text: str) -> Files:
    return {"case": text.encode()}


def _scp(case: Case) -> Files:
    numbers = [1 + EIGHT.index(lead) for lead in case.recording.leads]
    measured = struct.pack("<BBHH", 0, 0, round(60_000 / case.heart_rate), 29999)
    sections = {
        3: lead_section([(number, 1, case.samples) for number in numbers[: case.leads]]),
        6: data_section(
            list(case.rows.values()), nanovolts=round(1000 * case.microvolts), interval=round(1e6 / case.rate)
        ),
        7: measured,
    }
    return {"case": record(Scp(sections))}


def _ishne(case: Case) -> Files:
    codes = [5 + STANDARD.index(lead) for lead in case.recording.leads]
    raw = ishne_file(
        case.rows,
        codes=codes,
        counted=case.samples,
        step=round(1000 * case.microvolts),
        rate=round(case.rate),
        announced=case.leads,
    )
    return {"case": raw}


def _mfer(case: Case) -> Files:
    number = struct.pack("<h", round(case.rate))
    power, mantissa = (-6, 1) if case.microvolts == 1 else (-3, 1) if case.microvolts > 1 else (-9, 1)
    definitions = (
        mfer_tag(0x0B, b"\0\0" + number),
        mfer_tag(0x0C, bytes([0, power % 256]) + struct.pack("<h", mantissa)),
        mfer_tag(0x04, struct.pack("<I", case.samples)),
        mfer_tag(0x06, struct.pack("<I", 1)),
    )
    raw = mfer_file(case.rows, *definitions)
    return {"case": raw.replace(mfer_tag(0x05, bytes([len(case.rows)])), mfer_tag(0x05, bytes([case.leads])))}


def _alivecor(case: Case) -> Files:
    blocks = atc_leads({lead: case.rows[lead] for lead in STANDARD[:6]})
    raw = atc_file(*blocks, rate=round(case.rate), nanovolts=round(1000 * case.microvolts))
    told = struct.pack("<I", 2 * case.recording.samples)
    return {"case": raw.replace(told, struct.pack("<I", 2 * case.samples))}


def _apple(case: Case) -> Files:
    unit = {1.0: "µV", 1000.0: "mV"}.get(case.microvolts, "nV")
    lines = [line.replace("512.844", f"{case.rate:g}").replace("µV", unit) for line in APPLE_LINES]
    lines = [line.replace("Lead I", f"Lead {case.recording.leads[0]}") for line in lines]
    return {"case": apple_file([f"{value}.000" for value in next(iter(case.rows.values()))], lines)}


def _chapman(case: Case) -> Files:
    rows = (case.recording.select(STANDARD).digital.T * case.microvolts).tolist()
    return {"case": "".join(",".join(f"{value:g}" for value in row) + "\n" for row in rows).encode()}


@dataclass(frozen=True)
class Form:
    """A format: how a case is written in it, which leads it holds, and what it does not state."""

    write: Callable[[Case], Files]
    leads: tuple[str, ...] = STANDARD
    silent: tuple[str, ...] = ()
    """Of ``rate``, ``samples``, ``leads``, ``names``, ``unit``: what the format has no place for."""
    rate: float | None = None
    """Of all its files; None: that of the recording."""
    repeated: int = 1
    """How often the 10 s come, to be as long as its files are."""


FORMS = {
    "wfdb": Form(_wfdb),
    "muse-xml": Form(_muse, EIGHT, ("leads",)),
    "aecg": Form(_aecg, silent=("samples", "leads")),
    "philips-xml": Form(_philips),
    "cardiosoft-xml": Form(_cardiosoft, silent=("leads",)),
    "schiller-xml": Form(_schiller, silent=("leads",)),
    "dicom": Form(_dicom),
    "scp": Form(_scp, EIGHT),
    "edf": Form(_edf),
    "ishne": Form(_ishne),
    "mfer": Form(_mfer, EIGHT),
    "alivecor": Form(_alivecor, STANDARD[:6], ("leads",), 300.0),
    "apple-watch": Form(_apple, ("I",), ("samples", "leads"), 512.0, repeated=3),
    "clocs-csv": Form(_clocs_csv, silent=("leads",)),
    "chapman-csv": Form(_chapman, silent=("rate", "samples", "leads"), rate=500.0),
}


def case_of(case: Case, form: Form) -> Case:
    """A case with the leads, and at the rate, of a format's files; nothing else of it changes."""
    chosen = case.recording.select(form.leads)
    rate = form.rate or chosen.rate
    times, known = np.arange(int(chosen.seconds * rate)) / rate, np.arange(chosen.samples) / chosen.rate
    digital = np.stack([np.interp(times, known, row) for row in chosen.digital]).round().astype(np.int16)
    return case.holding(replace(chosen, digital=np.tile(digital, form.repeated), rate=rate))


Fault = Callable[[Case, random.Random], Case | None]
"""A wrong case; None where the format's leads do not allow for it."""


def _renamed(case: Case, leads: tuple[str, ...]) -> Case:
    return case.holding(replace(case.recording, leads=leads))


def _exchange(first: tuple[str, ...], second: tuple[str, ...]) -> Fault:
    """The names of two leads, one of each set."""

    def exchanged(case: Case, choice: random.Random) -> Case | None:
        leads = list(case.recording.leads)
        one = [lead for lead in leads if lead in first]
        other = [lead for lead in leads if lead in second]
        if not one or not set(other) - set(one[:1] if one == other else ()):
            return None
        here = choice.choice(one)
        there = choice.choice([lead for lead in other if lead != here])
        swapped = {here: there, there: here}
        return _renamed(case, tuple(swapped.get(lead, lead) for lead in leads))

    return exchanged


def _alphabetical(case: Case, choice: random.Random) -> Case | None:
    """The names in another order than the leads."""
    leads = tuple(sorted(case.recording.leads))
    return _renamed(case, leads) if leads != case.recording.leads else None


def _scaled(factor: float) -> Fault:
    return lambda case, choice: case.holding(replace(case.recording, gain=case.recording.gain / factor))


def _timed(factor: float) -> Fault:
    return lambda case, choice: replace(case, rate=case.rate * factor)


def _announced(factor: float) -> Fault:
    return lambda case, choice: replace(case, samples=round(case.samples * factor))


def _fewer_leads(case: Case, choice: random.Random) -> Case | None:
    return replace(case, leads=case.leads - 1)


def _electrodes(one: str, other: str) -> Fault:
    """Two limb electrodes exchanged: every lead is what is then measured under its name."""

    def exchanged(case: Case, choice: random.Random) -> Case | None:
        rows = dict(zip(case.recording.leads, case.recording.digital.astype(np.float64), strict=True))
        if "I" not in rows or ("II" not in rows and "LL" in (one, other)):
            return None
        at = {"RA": np.zeros(case.recording.samples), "LA": rows["I"], "LL": rows.get("II", rows["I"])}
        at[one], at[other] = at[other], at[one]
        middle = (at["RA"] + at["LA"] + at["LL"]) / 3
        measured = {"I": at["LA"] - at["RA"], "II": at["LL"] - at["RA"], "III": at["LL"] - at["LA"]}
        measured |= {lead: 1.5 * (at[limb] - middle) for lead, limb in (("aVR", "RA"), ("aVL", "LA"), ("aVF", "LL"))}
        digital = np.stack([measured.get(lead, values) for lead, values in rows.items()]).round().astype(np.int16)
        return case.holding(replace(case.recording, digital=digital))

    return exchanged


LIMBS, CHEST = STANDARD[:6], STANDARD[6:]
FAULTS: dict[str, tuple[Fault, str]] = {
    "names of two limb leads exchanged": (_exchange(LIMBS, LIMBS), "names"),
    "names of a limb and a chest lead exchanged": (_exchange(LIMBS, CHEST), "names"),
    "names of two chest leads exchanged": (_exchange(CHEST, CHEST), "names"),
    "names in another order than the leads": (_alphabetical, "names"),
    "unit 1,000 times too large": (_scaled(1000), "unit"),
    "unit 1,000 times too small": (_scaled(0.001), "unit"),
    "rate halved": (_timed(0.5), "rate"),
    "rate doubled": (_timed(2), "rate"),
    "arm electrodes exchanged": (_electrodes("RA", "LA"), ""),
    "right arm and leg exchanged": (_electrodes("RA", "LL"), ""),
    "left arm and leg exchanged": (_electrodes("LA", "LL"), ""),
    "twice the samples announced": (_announced(2), "samples"),
    "half the samples announced": (_announced(0.5), "samples"),
    "a lead fewer announced": (_fewer_leads, "leads"),
    "cut short": (lambda case, choice: case, ""),
}
"""Each fault, and what a format must state to have it."""
CUT = "cut short"


def wrong_files(case: Case, form: Form, fault: str, choice: random.Random) -> Files | None:
    """The files of a case with a fault; None where the format cannot have it."""
    change, needed = FAULTS[fault]
    wrong = change(case_of(case, form), choice) if needed not in form.silent else None
    if wrong is None:
        return None
    try:
        files = form.write(wrong)
    except (struct.error, SignalError, OverflowError):  # the format has no such numbers
        return None
    if fault == CUT:
        largest = max(files, key=lambda name: len(files[name]))
        files[largest] = files[largest][: int(len(files[largest]) * choice.uniform(0.1, 0.999))]
    return files


def outcome(files: Files, truth: Recording) -> str:
    """What ``clocs data ingest folder`` makes of them: the reason of a refusal, ``corrected`` or ``stored``."""
    try:
        read = read_from(MemorySource(files), next(iter(files)))
    except FormatError:
        return "unreadable"
    if found := assess(read, FOLDER.gate):
        return min((finding.reason for finding in found), key=REASONS.index)
    same = read.leads == truth.leads and read.rate == truth.rate and read.samples == truth.samples
    return "corrected" if same and np.allclose(millivolts(read), millivolts(truth), rtol=0, atol=6e-4) else "stored"
