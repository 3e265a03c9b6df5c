"""One real file of each format that the service must accept."""

from __future__ import annotations

import zipfile
from pathlib import Path

from clocs.service.uploads import Upload
from tests.service.uploading import upload_of

Files = dict[str, bytes]

SAMPLES: dict[str, tuple[str, ...]] = {
    "chapman-csv": ("originals.zip", "chapman/ECGDataDenoised/MUSE_20180111_155115_19000.csv"),
    "ptbxl": (
        "originals.zip",
        "ptbxl/records100/00000/00001_lr.hea",
        "ptbxl/records100/00000/00001_lr.dat",
    ),
    "cpsc": ("originals.zip", "cpsc2018/Training_WFDB/A0002.hea", "cpsc2018/Training_WFDB/A0002.mat"),
    "cinc2017": ("originals.zip", "cinc2017/training2017/A00001.hea", "cinc2017/training2017/A00001.mat"),
    "muse-xml": ("formats.zip", "muse/braveheart_example1.xml"),
    "aecg": ("formats.zip", "aecg/hl7_example_aecg.xml"),
    "dicom": ("formats.zip", "dicom/pydicom_waveform_ecg_scrubbed.dcm"),
    "scp": ("formats.zip", "scp/ecgtoolkit_Example.scp"),
}
"""Archive of the real data, and the files in it."""
FORMATS = {"ptbxl": "wfdb", "cpsc": "wfdb", "cinc2017": "wfdb"}
"""Names of the readers, if they differ from the names of the samples."""
UNTRAINED = {"cinc2017"}
"""Samples whose only lead no shipped encoder was trained on."""


def sample(data: Path, name: str) -> Files:
    archive, *members = SAMPLES[name]
    with zipfile.ZipFile(data / archive) as opened:
        return {member.rsplit("/", 1)[-1]: opened.read(member) for member in members}


def sample_upload(data: Path, name: str) -> Upload:
    return upload_of(sample(data, name))
