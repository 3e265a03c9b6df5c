"""Reading each format, against the library that reads it, used bare: samples in millivolt and names of leads.

Both ways take turns over the same files on disk; processor time, medians of ratios.
"""

from __future__ import annotations

import contextlib
import statistics
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import DATA, line, processor_seconds, scratch

import clocs

ROUNDS = 21
LEAST = 0.9
Bare = Callable[[Path], object]


@dataclass(frozen=True)
class Rival:
    """A library, and the files to read with it."""

    name: str
    read: Bare
    files: str
    least: float = LEAST
    """Smallest ratio that holds over runs."""


def _ecgdatakit(path: Path) -> object:
    from ecgdatakit import FileParser

    found = {}
    for lead in FileParser().parse(path).leads:
        if lead.label.startswith("Code"):  # of MFER: no lead of an ECG
            continue
        scaled = lead.to_physical() if lead.is_raw else lead
        found[lead.label] = np.asarray(scaled.samples, np.float64) * (1e-3 if scaled.units == "uV" else 1.0)
    return found


def _pydicom(path: Path) -> object:
    import pydicom

    dataset = pydicom.dcmread(path)
    group = dataset.WaveformSequence[0]
    names = [channel.ChannelSourceSequence[0].CodeMeaning for channel in group.ChannelDefinitionSequence]
    return names, dataset.waveform_array(0) / 1000


def _pyedflib(path: Path) -> object:
    import pyedflib

    with pyedflib.EdfReader(str(path)) as reader:
        labels = reader.getSignalLabels()
        return {label: reader.readSignal(row) / 1000 for row, label in enumerate(labels) if "Annot" not in label}


def _wfdb(path: Path) -> object:
    import wfdb

    record = wfdb.rdrecord(str(path.with_suffix("")))
    return record.sig_name, record.p_signal


def _sierraecg(path: Path) -> object:
    import sierraecg

    return {lead.label: np.asarray(lead.samples) / 1000 * 5 for lead in sierraecg.read_file(str(path)).leads}


def _pandas(path: Path) -> object:
    import pandas as pd

    table = pd.read_csv(path, comment="#")
    return list(table.columns), table.to_numpy().T


def _pandas_bare(path: Path) -> object:
    import pandas as pd

    return pd.read_csv(path, header=None).to_numpy().T / 1000


RIVALS = {
    "wfdb": Rival("wfdb", _wfdb, "published/*.hea"),
    "muse-xml": Rival("ecgdatakit", _ecgdatakit, "muse/*.xml"),
    "aecg": Rival("ecgdatakit", _ecgdatakit, "aecg/*.xml"),
    "philips-xml": Rival("ecgdatakit", _ecgdatakit, "philips/*"),
    "philips-xml, again": Rival("sierraecg", _sierraecg, "philips/*"),
    "dicom": Rival("pydicom", _pydicom, "dicom/*.dcm", 0.8),
    "scp": Rival("ecgdatakit", _ecgdatakit, "scp/*.scp"),
    "edf": Rival("pyedflib", _pyedflib, "written/*.edf"),
    "ishne": Rival("ecgdatakit", _ecgdatakit, "ishne/*.ecg"),
    "mfer": Rival("ecgdatakit", _ecgdatakit, "mfer/*.mwf"),
    "chapman-csv": Rival("pandas", _pandas_bare, "published/*.csv", 0.75),
    "clocs-csv": Rival("pandas", _pandas, "written/*.csv", 0.75),
}
"""CardioSoft, Schiller, AliveCor, Apple Watch and iRhythm files have no library."""


def _unpack(folder: Path) -> None:
    """Unpack sample files and some published ones."""
    with zipfile.ZipFile(DATA / "formats.zip") as archive:
        archive.extractall(folder)
    (folder / "published").mkdir()
    (folder / "written").mkdir()
    with zipfile.ZipFile(DATA / "originals.zip") as archive:
        for name in archive.namelist():
            if name.startswith(
                ("ptbxl/records500/", "cpsc2018/Training_WFDB/A00", "chapman/ECGDataDenoised/MUSE_201801")
            ):
                (folder / "published" / Path(name).name).write_bytes(archive.read(name))
    for path in sorted((folder / "published").glob("*_hr.hea")):
        recording = clocs.read(path, derive_leads=False)
        for ending in (".edf", ".csv"):
            clocs.write(recording, folder / "written" / f"{path.stem}{ending}")


def _ours(path: Path) -> Any:
    recording = clocs.read(path, derive_leads=False)
    return recording.leads, recording.signal


def _both_read(files: list[Path], rival: Rival) -> list[Path]:
    """Return the files that clocs and the library can read. This also imports the libraries."""
    found = []
    for path in files:
        with contextlib.suppress(Exception):  # libraries raise whatever they like
            _ours(path), rival.read(path)
            found.append(path)
    return found


def _spent(read: Bare, files: list[Path]) -> float:
    return processor_seconds(lambda: [read(path) for path in files])


def reading_speed() -> None:
    """Compare the processor time of clocs with that of the library, for each format."""
    warnings.simplefilter("ignore")
    with scratch() as folder:
        _unpack(folder)
        for name, rival in RIVALS.items():
            files = _both_read(sorted(folder.glob(rival.files)), rival)
            pairs = [(_spent(rival.read, files), _spent(_ours, files)) for _ in range(ROUNDS)]
            theirs, ours = (1e3 * statistics.median(times) / len(files) for times in zip(*pairs, strict=True))
            print(f"  {name}: {len(files)} files, {rival.name} {theirs:.2f} ms, clocs {ours:.2f} ms a file")
            line(f"{name} / {rival.name}", statistics.median(a / b for a, b in pairs), rival.least, unit="x")
