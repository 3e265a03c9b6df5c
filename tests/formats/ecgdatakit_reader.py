"""Read files with the independent library ecgdatakit, which needs them on disk."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ecgdatakit import FileParser

from clocs.core.recording import Recording

IN_MILLIVOLT = {"uV": 1e-3, "mV": 1.0}


@dataclass(frozen=True)
class Reading:
    """Leads in millivolt by name, in the order of the file, and their metadata."""

    leads: dict[str, npt.NDArray[np.float64]]
    sampling_rate: float
    age: float | None
    sex: str | None


def read_with_ecgdatakit(raw: bytes, folder: Path, name: str = "independent.xml") -> Reading:
    path = folder / name
    path.write_bytes(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = FileParser().parse(path)
    leads = {}
    for lead in record.leads:
        scaled = lead.to_physical() if lead.is_raw else lead
        leads[lead.label] = np.asarray(scaled.samples, np.float64) * IN_MILLIVOLT[scaled.units]
    rates = {lead.sampling_rate for lead in record.leads}
    assert len(rates) == 1
    sex = {"M": "male", "F": "female"}.get(record.patient.sex)
    return Reading(leads, float(rates.pop()), record.patient.age, sex)


def assert_same_recording(recording: Recording, reading: Reading) -> None:
    """Assert equal leads, order, sampling rate and demographics, and millivolts equal to 1e-12."""
    assert recording.leads == tuple(reading.leads)
    assert (recording.sampling_rate, recording.age, recording.sex) == (reading.sampling_rate, reading.age, reading.sex)
    values = (recording.digital - recording.baseline[:, None].astype(np.float64)) / recording.gain[:, None]
    np.testing.assert_allclose(values, np.stack(list(reading.leads.values())), rtol=0, atol=1e-12)
