"""Errors of ``clocs.measure``: LUDB's marks, Chapman's device values, MIT-BIH's beats, synthetic truth, absent values.

Measure with the full data, then write the tables of the docs page from the committed results:

    python benchmarks/measurements.py measure TWELVE CHAPMAN_STORE [PART ...]
    python benchmarks/measurements.py files ARCHIVE
    python benchmarks/measurements.py page

``TWELVE`` has the folders ``ludb``, ``mitdb`` and ``chapman`` as their publishers lay them out. Odd records of LUDB and
Chapman's training part were used to choose constants, even records and the test part are reported. ``ARCHIVE`` is a
folder or zip archive of ECG files that state measurements.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measurement_files import measure_files
from measurement_references import CSE_SD, ReferenceBeat, chapman_values, ludb_record, mitdb_record
from measurement_tables import write_page

import clocs
from clocs.datasets.synthetic import SyntheticOptions, truth
from clocs.measurements.axes import angle_difference
from clocs.measurements.filtering import filter_signal
from clocs.measurements.qrs_detection import detect_qrs, qrs_curve
from clocs.measurements.results import Measurements
from clocs.signals.leads import STANDARD_LEADS

Array = npt.NDArray[np.float64]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "measurements.json"
CHAPMAN_COLUMNS = {
    "heart_rate": "VentricularRate",
    "qrs_duration": "QRSDuration",
    "qt_interval": "QTInterval",
    "qtc_bazett": "QTCorrected",
    "qrs_axis": "RAxis",
    "t_axis": "TAxis",
}
RHYTHM_GROUPS = {
    "all": None,
    "sinus": ("SR", "SB", "ST", "SA"),
    "AF": ("AFIB",),
    "flutter": ("AF",),
    "SVT": ("SVT", "AT", "AVNRT", "AVRT", "SAAWR"),
}
"""Rhythms of Chapman by group. In Chapman, AF is atrial flutter."""
WINDOW = 0.15
"""Seconds within which a detected beat matches a beat of MIT-BIH."""


def errors(values: Array, thresholds: tuple[float, ...] = (10, 20)) -> dict[str, Any]:
    """Return number, bias, standard deviation and shares within limits of errors, without NaN."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {"n": 0}
    shares = {f"within_{limit:g}": float((np.abs(known) <= limit).mean()) for limit in thresholds}
    return {"n": len(known), "bias": float(known.mean()), "sd": float(known.std()), **shares}


def ludb(twelve: Path, store: Path) -> dict[str, Any]:
    """Measure LUDB: errors of marks by part, and PR intervals of records without P waves."""
    found: dict[str, Any] = {}
    records = {number: ludb_record(twelve / "ludb", number) for number in range(1, 201)}
    measured = {number: clocs.measure(recording) for number, (recording, _, _) in records.items()}
    for part, parity in (("odd", 1), ("even", 0)):
        numbers = [number for number in records if number % 2 == parity]
        found[part] = {}
        for name, limit in CSE_SD.items():
            lists = [_mark_errors(measured[number], records[number][1], name) for number in numbers]
            scatter = [beat.scatter[name] for number in numbers for beat in records[number][1]]
            reference = sum(bool(np.isfinite([beat.marks[name] for beat in records[n][1]]).any()) for n in numbers)
            found[part][name] = {
                "beats": errors(np.concatenate(lists)),
                "records": errors(np.array([np.median(row) for row in lists if len(row)])),
                "records_with_reference": reference,
                "scatter": 1000 * float(np.nanmedian(scatter)),
                "cse_sd": limit,
            }
        without = [number for number in numbers if not records[number][2]]
        given = [number for number in without if measured[number].pr_interval.value is not None]
        found[part]["without_p"] = {"records": len(without), "with_pr": given}
    return found


def _mark_errors(measured: Measurements, beats: list[ReferenceBeat], name: str) -> Array:
    """Return the errors in ms of a mark, one per beat of the median beat that has a reference."""
    median = measured.beat
    if median is None or name not in median.marks:
        return np.empty(0)
    offset = (median.marks[name] - median.middle) / median.sampling_rate
    at = np.array(median.positions)
    rows = []
    for beat in beats:
        nearest = at[np.argmin(np.abs(at - beat.middle))]
        if abs(nearest - beat.middle) < 0.12 and np.isfinite(beat.marks[name]):
            rows.append(1000 * (nearest + offset - beat.marks[name]))
    return np.array(rows)


def chapman(twelve: Path, store: Path) -> dict[str, Any]:
    """Compare with the values of the device on Chapman's test part, by rhythm."""
    opened = clocs.open_store(store)
    stated = chapman_values(twelve / "chapman")
    rows = np.flatnonzero(opened.split("default").mask("test"))
    measured, rhythms, device = [], [], []
    spent = 0.0
    for row in rows:
        recording = opened.recording(int(row))
        before = time.process_time()
        measured.append(clocs.measure(recording).as_dict())
        spent += time.process_time() - before
        device.append(stated[recording.record_id])
        rhythms.append(stated[recording.record_id]["Rhythm"])
    found: dict[str, Any] = {
        "recordings": len(rows),
        "processor_ms": 1000 * spent / len(rows),
    }
    kinds = np.array(rhythms)
    for name, column in CHAPMAN_COLUMNS.items():
        ours = np.array([_or_nan(values[name]["value"]) for values in measured])
        theirs = np.array([float(values[column]) for values in device])
        difference = angle_difference(ours, theirs) if name.endswith("axis") else ours - theirs
        found[name] = {}
        for group, members in RHYTHM_GROUPS.items():
            chosen = np.ones(len(kinds), np.bool_) if members is None else np.isin(kinds, members)
            found[name][group] = {"recordings": int(chosen.sum()), **errors(difference[chosen])}
    has_pr = np.array([values["pr_interval"]["value"] is not None for values in measured])
    found["pr_given"] = {
        rhythm: {"recordings": int((kinds == rhythm).sum()), "share": float(has_pr[kinds == rhythm].mean())}
        for rhythm in sorted(set(rhythms))
    }
    return found


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def mitdb(twelve: Path, store: Path) -> dict[str, Any]:
    """Count detected beats in the first channel of MIT-BIH, without episodes of ventricular flutter."""
    records: dict[str, dict[str, int]] = {}
    for header in sorted((twelve / "mitdb").glob("*.hea")):
        recording, beats, flutter = mitdb_record(header)
        filtered = filter_signal(recording.signal[:1], recording.sampling_rate)
        rate = filtered.slope_rate
        found = detect_qrs(qrs_curve(filtered.slopes, rate), rate) / rate
        for start, end in flutter:
            found, beats = (at[(at < start - WINDOW) | (at > end + WINDOW)] for at in (found, beats))
        matched = _matches(found, beats)
        records[header.stem] = {"beats": len(beats), "missed": len(beats) - matched, "extra": len(found) - matched}
    total, missed, extra = (sum(row[key] for row in records.values()) for key in ("beats", "missed", "extra"))
    hit = total - missed
    return {"beats": total, "sensitivity": hit / total, "ppv": hit / (hit + extra), "records": records}


def _matches(found: Array, beats: Array) -> int:
    """Count pairs of detected and reference beats within the window, each used once."""
    first = second = count = 0
    while first < len(found) and second < len(beats):
        gap = found[first] - beats[second]
        if abs(gap) <= WINDOW:
            count, first, second = count + 1, first + 1, second + 1
        elif gap < 0:
            first += 1
        else:
            second += 1
    return count


def synthetic(twelve: Path, store: Path) -> dict[str, Any]:
    """Compare with the true intervals and axes of 300 synthetic recordings with usual noise."""
    options = SyntheticOptions(num_records=300, seed=7, recordings_per_patient=1)
    differences: dict[str, list[float]] = {}
    false_pr = without_p = 0
    for recording in _synthetic_recordings(options):
        measured, real = clocs.measure(recording), truth(recording.record_id, options)
        if "AFIB" in recording.labels:
            without_p += 1
            false_pr += measured.pr_interval.value is not None
        usual = np.array([kind != "ventricular" for kind in real.kinds])
        expected = {
            "pr_interval": 1000 * _median(real.pr[usual]) if "2AVB" not in recording.labels else np.nan,
            "p_duration": 1000 * real.p_duration,
            "qrs_duration": 1000 * _median(real.qrs[usual]),
            "qt_interval": 1000 * _median(real.qt[usual]),
            "qrs_axis": real.qrs_axis,
            "t_axis": real.t_axis,
        }
        for name, value in expected.items():
            ours = _or_nan(getattr(measured, name).value)
            error = angle_difference(ours, value) if name.endswith("axis") else ours - value
            differences.setdefault(name, []).append(float(error))
    rows = {name: errors(np.array(values)) for name, values in differences.items()}
    return {"recordings": options.num_records, **rows, "af": {"recordings": without_p, "with_pr": false_pr}}


def _synthetic_recordings(options: SyntheticOptions) -> Iterator[clocs.Recording]:
    from clocs.core.sources.source import Source
    from clocs.datasets.synthetic import SYNTHETIC

    source: Source = None  # type: ignore[assignment]
    for entry in SYNTHETIC.entries(source, options):
        yield SYNTHETIC.load(source, entry, options)


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def absent(twelve: Path, store: Path) -> dict[str, Any]:
    """Count recordings without beats that get a heart rate or any interval, of 100 each with 1 and 12 leads."""
    random = np.random.default_rng(0)
    found = {}
    for name, make in SIGNALS_WITHOUT_BEATS.items():
        for num_leads in (1, 12):
            rates = intervals = 0
            for _ in range(100):
                values = clocs.measure(make(num_leads, random), 500, STANDARD_LEADS[:num_leads]).values()
                given = {key for key, value in values.items() if value.value is not None}
                rates += "heart_rate" in given
                intervals += bool(given - {"heart_rate", "rr_variation"})
            found[f"{name}, {num_leads} leads"] = {"recordings": 100, "with_rate": rates, "with_interval": intervals}
    return found


TIME = np.arange(5000) / 500


def _white_noise(num_leads: int, random: np.random.Generator) -> Array:
    return np.asarray(random.normal(0, 0.2, (num_leads, len(TIME))))


def _hum(num_leads: int, random: np.random.Generator) -> Array:
    phases = random.uniform(0, 2 * np.pi, (num_leads, 1))
    return np.asarray(0.5 * np.sin(2 * np.pi * 50.05 * TIME + phases) + random.normal(0, 0.01, (num_leads, len(TIME))))


def _fibrillation_waves(num_leads: int, random: np.random.Generator) -> Array:
    """Return waves like ventricular fibrillation: 4 to 6 Hz, with changing frequency and amplitude."""
    swing = np.sin(2 * np.pi * random.uniform(0.2, 0.5) * TIME + random.uniform(0, 2 * np.pi))
    phase = 2 * np.pi * np.cumsum(random.uniform(4, 6) + swing) / 500
    size = 0.6 * (1 + 0.4 * np.sin(2 * np.pi * 0.4 * TIME + random.uniform(0, 2 * np.pi)))
    weights, shifts = random.uniform(0.4, 1.2, (num_leads, 1)), random.uniform(-0.5, 0.5, (num_leads, 1))
    return np.asarray(weights * size * np.sin(phase + shifts) + random.normal(0, 0.02, (num_leads, len(TIME))))


SIGNALS_WITHOUT_BEATS: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "white noise": _white_noise,
    "hum": _hum,
    "waves like ventricular fibrillation": _fibrillation_waves,
}
PARTS = {"ludb": ludb, "chapman": chapman, "mitdb": mitdb, "synthetic": synthetic, "absent": absent}


def main(arguments: list[str]) -> None:
    """Run a command."""
    if arguments[:1] == ["measure"] and len(arguments) >= 3:
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        for part in arguments[3:] or PARTS:
            results[part] = PARTS[part](Path(arguments[1]), Path(arguments[2]))
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    elif arguments[:1] == ["files"] and len(arguments) == 2:
        results = json.loads(RESULTS.read_text()) | {"files": measure_files(Path(arguments[1]))}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    elif arguments == ["page"]:
        write_page(json.loads(RESULTS.read_text()))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
