"""Small binary and CSV files, written from the published layout of each format, for cases without a real file."""

from __future__ import annotations

import binascii
import io
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRBigEndian, ExplicitVRLittleEndian

from tests.formats.scp_encoding import record, scp_leads

Rows = dict[str, Sequence[int]]

PATIENT = "Winterbottom"
TWO_LEADS: Rows = {"I": (1, -2, 300, 4), "II": (50, 60, -70, 80)}
SCP_NUMBERS = {"I": 1, "II": 2, **{f"V{number}": 2 + number for number in range(1, 7)}}
SCP_NUMBERS |= {"III": 61, "aVR": 62, "aVL": 63, "aVF": 64}


def with_first_sample(rows: Rows, first: int) -> Rows:
    """Return the rows with another first sample."""
    return {
        lead: (first, *digital_values[1:]) if lead == "I" else digital_values for lead, digital_values in rows.items()
    }


def dicom_channel(lead: str, **more: Any) -> Dataset:
    channel, source, unit = Dataset(), Dataset(), Dataset()
    source.CodeValue, source.CodingSchemeDesignator, source.CodeMeaning = f"5.6.3-9-{SCP_NUMBERS[lead]}", "SCPECG", lead
    unit.CodeValue, unit.CodingSchemeDesignator, unit.CodeMeaning = "uV", "UCUM", "microvolt"
    channel.ChannelSourceSequence, channel.ChannelSensitivityUnitsSequence = [source], [unit]
    channel.ChannelSensitivity, channel.ChannelSensitivityCorrectionFactor, channel.ChannelBaseline = "2.5", "1", "0"
    channel.ChannelSampleSkew, channel.WaveformBitsStored = "0", 16
    for keyword, value in more.items():
        setattr(channel, keyword, value)
    return channel


def dicom_group(rows: Rows = TWO_LEADS, channels: Sequence[Dataset] = (), kind: str = "<i2", **more: Any) -> Dataset:
    group = Dataset()
    data = np.array(list(rows.values())).T
    group.WaveformOriginality, group.MultiplexGroupLabel, group.SamplingFrequency = "ORIGINAL", "RHYTHM", "500"
    group.NumberOfWaveformChannels, group.NumberOfWaveformSamples = data.shape[::-1]
    group.ChannelDefinitionSequence = list(channels) or [dicom_channel(lead) for lead in rows]
    group.WaveformBitsAllocated, group.WaveformSampleInterpretation = 8 * np.dtype(kind).itemsize, "SS"
    group.add_new("WaveformData", "OW" if np.dtype(kind).itemsize == 2 else "OB", data.astype(kind).tobytes())
    for keyword, value in more.items():
        if isinstance(value, bytes):
            group.add_new(keyword, "OW" if len(value) == 2 else "OB", value)
        else:
            setattr(group, keyword, value)
    return group


def dicom_file(
    *groups: Dataset, big: bool = False, sop_class: str = "1.2.840.10008.5.1.4.1.1.9.1.2", **more: Any
) -> bytes:
    """Return a DICOM file, by default of class General ECG."""
    dataset = Dataset()
    dataset.SOPClassUID, dataset.SOPInstanceUID = sop_class, "1.2.3.4"
    dataset.WaveformSequence = list(groups)
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRBigEndian if big else ExplicitVRLittleEndian
    dataset.file_meta.MediaStorageSOPClassUID, dataset.file_meta.MediaStorageSOPInstanceUID = (
        UID(sop_class),
        UID("1.2.3.4"),
    )
    buffer = io.BytesIO()
    with pydicom.config.disable_value_validation():
        for keyword, value in more.items():
            setattr(dataset, keyword, value)
        pydicom.dcmwrite(buffer, dataset, enforce_file_format=True)
    return buffer.getvalue()


def ishne_file(
    rows: Rows = TWO_LEADS,
    *,
    counted: int | None = None,
    codes: Sequence[int] = (5, 6),
    step: int = 5000,
    block: bytes = b"",
    last_name: str = "Example",
    sampling_rate: int = 500,
    announced: int | None = None,
) -> bytes:
    """Return an ISHNE Holter file."""
    data = np.array(list(rows.values()))
    num_samples = data.shape[1] if counted is None else counted
    head = struct.pack(
        "<iiiih40s40s20s", len(block), num_samples, 522, 522 + len(block), 1, b"Anna", last_name.encode(), b"H-77"
    )
    head += struct.pack("<hh3h3h3h3h", 2, 0, 24, 12, 1950, 25, 12, 2000, 26, 12, 2000, 7, 30, 5)
    head += struct.pack("<h12h", announced or len(data), *codes, *[0] * (12 - len(codes))) + bytes(24)
    head += struct.pack("<12h", *[step] * len(data), *[0] * (12 - len(data)))
    head += struct.pack("<h40sh80s80s88s", 0, b"recorder", sampling_rate, b"made up", b"nobody", b"") + block
    return b"ISHNE1.0" + struct.pack("<H", binascii.crc_hqx(head, 0xFFFF)) + head + data.T.astype("<i2").tobytes()


def mfer_tag(tag: int, value: bytes) -> bytes:
    size = len(value)
    return bytes([tag]) + (bytes([size]) if size < 128 else b"\x84" + struct.pack(">I", size)) + value


def mfer_channel(channel: int, *definitions: bytes) -> bytes:
    value = b"".join(definitions)
    return bytes([0x3F, channel, len(value)]) + value


def mfer_file(
    rows: Rows = TWO_LEADS, *definitions: bytes, order: str = "<", kind: str = "", about: bytes = b""
) -> bytes:
    """Return an MFER file of one sequence, with a resolution of 2 uV at 500 Hz."""
    data = np.array(list(rows.values()))
    parts = [mfer_tag(0x40, b"MFR Standard 12 leads"), mfer_tag(0x01, b"\1" if order == "<" else b"\0"), about]
    parts += [mfer_tag(0x08, b"\1"), mfer_tag(0x04, struct.pack(order + "I", data.shape[1]))]
    parts += [mfer_tag(0x05, bytes([len(data)])), mfer_tag(0x0B, b"\1\xfd" + struct.pack(order + "h", 2))]
    parts += [mfer_tag(0x0C, b"\0\xfa" + struct.pack(order + "h", 2))]
    parts += [
        mfer_channel(row, mfer_tag(0x09, struct.pack(order + "H", SCP_NUMBERS[lead]))) for row, lead in enumerate(rows)
    ]
    return b"".join([*parts, *definitions, mfer_tag(0x1E, data.astype(kind or order + "i2").tobytes()), b"\x80\0"])


def atc_block(kind: bytes, content: bytes) -> bytes:
    block = kind + struct.pack("<I", len(content)) + content
    return block + struct.pack("<I", sum(block))


def atc_file(*blocks: bytes, uuid: str = "uuid-1", sampling_rate: int = 300, nanovolts: int = 500) -> bytes:
    """Return an ATC file with a resolution of 0.5 uV at 300 Hz."""
    info = struct.pack(
        "<32s40s44s32s32s32s52s", b"2020-01-02T03:04:05+01:00", uuid.encode(), b"", b"", b"", b"", b"SN=AC9,BAT=5"
    )
    form = atc_block(b"fmt ", struct.pack("<BHHB2x", 1, sampling_rate, nanovolts, 2))
    return b"".join([b"ALIVE\0\0\0\3\0\0\0", atc_block(b"info", info), form, *blocks])


def atc_leads(rows: Rows = TWO_LEADS) -> list[bytes]:
    names = [b"ecg ", b"ecg2", b"ecg3", b"ecg4", b"ecg5", b"ecg6"]
    return [
        atc_block(name, np.array(digital_values, "<i2").tobytes())
        for name, digital_values in zip(names, rows.values(), strict=False)
    ]


def edf_file(
    rows: Rows = TWO_LEADS,
    *,
    num_samples: Sequence[int] = (),
    units: Sequence[str] = (),
    limits: tuple[str, str, str, str] = ("-3276.8", "3276.7", "-32768", "32767"),
    seconds: str = "0.002",
    records: int | None = None,
    **fixed: str,
) -> bytes:
    """Return an EDF file with a resolution of 0.1 uV, by default with one sample of each signal per data record."""
    count, each = len(rows), list(num_samples) or [1] * len(rows)
    there = len(next(iter(rows.values()))) // each[0]
    about = {
        "patient": "X X X X",
        "recording": "Startdate X X X X",
        "start": "02.03.0204.05.06",
        "reserved": "",
    } | fixed
    texts = [("0", 8), (about["patient"], 80), (about["recording"], 80), (about["start"], 16)]
    texts += [(str(256 * (1 + count)), 8), (about["reserved"], 44)]
    texts += [(str(there if records is None else records), 8), (seconds, 8), (str(count), 4)]
    for values, size in ((list(rows), 16), ([""] * count, 80), (list(units) or ["uV"] * count, 8)):
        texts += [(value, size) for value in values]
    texts += [(limit, 8) for limit in limits for _ in rows]
    texts += [("", 80)] * count + [(str(value), 8) for value in each] + [("", 32)] * count
    header = "".join(text.ljust(size)[:size] for text, size in texts).encode("latin-1")
    blocks = [np.array(digital_values).reshape(there, -1) for digital_values in rows.values()]
    return header + np.hstack(blocks).astype("<i2").tobytes()


APPLE_LINES = (
    *("Name,Anna Example", 'Date of Birth,"Dec 24, 1950"', "Recorded Date,2020-12-25 07:30:05 +0100"),
    *("Classification,Sinus Rhythm", "Symptoms,Dizziness, Fatigue", "Software Version,1.51", 'Device,"Watch5,4"'),
    *("Sample Rate,512.844 hertz", "", "", "Lead,Lead I", "Unit,µV", ""),
)


def apple_file(
    values: Sequence[str] = ("-48.673", "0", "59.681", "1200.5"), lines: Sequence[str] = APPLE_LINES
) -> bytes:
    return "\n".join([*lines, *values, ""]).encode()


WRITERS: dict[str, Callable[[int], bytes]] = {
    "dicom": lambda first: dicom_file(dicom_group(with_first_sample(TWO_LEADS, first)), PatientName=PATIENT),
    "scp": lambda first: record(scp_leads(np.array(list(with_first_sample(TWO_LEADS, first).values())), name=PATIENT)),
    "edf": lambda first: edf_file(with_first_sample(TWO_LEADS, first), patient=f"X X X {PATIENT}"),
    "ishne": lambda first: ishne_file(with_first_sample(TWO_LEADS, first), last_name=PATIENT),
    "mfer": lambda first: mfer_file(with_first_sample(TWO_LEADS, first), about=mfer_tag(0x81, PATIENT.encode())),
    "alivecor": lambda first: atc_file(*atc_leads(with_first_sample(TWO_LEADS, first)), uuid=PATIENT),
    "apple-watch": lambda first: apple_file([str(first), "2", "3", "4"], [f"Name,{PATIENT}", *APPLE_LINES[1:]]),
}
"""Writers of a small file of each format, given its first sample. The file contains a patient name if possible."""
