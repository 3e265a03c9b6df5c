"""References for measurements: marks of LUDB, beats of MIT-BIH and the device's values of Chapman."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import clocs
from clocs.core.recording import Recording
from clocs.formats.wfdb.annotations import parse_annotations

Array = npt.NDArray[np.float64]

WAVE_CODES = {24: "p", 1: "qrs", 27: "t"}
ONSET, OFFSET = 39, 40
FLUTTER_START, FLUTTER_END = 32, 33
BEAT_CODES = {*range(1, 14), 25, 30, 34, 35, 38, 41}
"""Codes of WFDB annotations that mark a beat."""
CONFIRMED_WITHIN = {"p_onset": 4, "p_offset": 4, "qrs_onset": 6, "qrs_offset": 10, "t_offset": 12}
"""Milliseconds within which three more leads confirm a mark of LUDB."""
CSE_SD = {"p_onset": 10.2, "p_offset": 12.7, "qrs_onset": 6.5, "qrs_offset": 11.6, "t_offset": 30.6}
"""Acceptable standard deviations of errors in ms (CSE working party)."""


@dataclass(frozen=True)
class ReferenceBeat:
    """A beat of LUDB: its middle in seconds, and marks and their scatter over leads in seconds, NaN if unconfirmed."""

    middle: float
    marks: dict[str, float]
    scatter: dict[str, float]


def ludb_record(folder: Path, number: int) -> tuple[Recording, list[ReferenceBeat], bool]:
    """Return a recording of LUDB, its reference beats, and whether any P wave is marked."""
    recording = clocs.read(folder / "data" / f"{number}.hea")
    leads = [_lead_waves((folder / "data" / f"{number}.{lead.lower()}").read_bytes()) for lead in recording.leads]
    seconds = [{wave: rows / recording.sampling_rate for wave, rows in lead.items()} for lead in leads]
    peaks = np.sort(np.concatenate([lead["qrs"][:, 1] for lead in seconds]))
    groups = np.split(peaks, np.flatnonzero(np.diff(peaks) > 0.1) + 1)
    middles = [float(np.median(group)) for group in groups if len(group) >= 4]
    beats = [_reference_beat(seconds, middles, index) for index in range(len(middles))]
    return recording, beats, any(len(lead["p"]) for lead in seconds)


def _lead_waves(data: bytes) -> dict[str, Array]:
    """Return onset, peak and offset of the waves of a lead, of shape (waves, 3) each, in samples."""
    found: dict[str, list[tuple[float, float, float]]] = {wave: [] for wave in WAVE_CODES.values()}
    items = parse_annotations(data, "LUDB")
    for before, item, after in zip([None, *items[:-1]], items, [*items[1:], None], strict=True):
        if wave := WAVE_CODES.get(item.code):
            onset = before.sample if before is not None and before.code == ONSET else np.nan
            offset = after.sample if after is not None and after.code == OFFSET else np.nan
            found[wave].append((onset, item.sample, offset))
    return {wave: np.array(rows, np.float64).reshape(-1, 3) for wave, rows in found.items()}


def _reference_beat(leads: list[dict[str, Array]], middles: list[float], index: int) -> ReferenceBeat:
    middle = middles[index]
    before = middles[index - 1] if index else middle - 1.2
    after = middles[index + 1] if index + 1 < len(middles) else middle + 1.2
    spans = {
        "p": (max(before, middle - 0.4), middle),
        "qrs": (middle - 0.15, middle + 0.15),
        "t": (middle, min(after, middle + 0.7)),
    }
    marks, scatter = {}, {}
    for name, tolerance in CONFIRMED_WITHIN.items():
        wave, _, side = name.partition("_")
        values = np.array([_nearest(lead[wave], spans[wave], middle, 0 if side == "onset" else 2) for lead in leads])
        values = values[~np.isnan(values)]
        marks[name] = _confirmed(values, tolerance / 1000, latest=side == "offset")
        scatter[name] = float(values.std()) if len(values) >= 4 else np.nan
    return ReferenceBeat(middle, marks, scatter)


def _nearest(waves: Array, span: tuple[float, float], middle: float, column: int) -> float:
    """Return a mark of the wave in a span whose peak is nearest to the middle of QRS, NaN without one."""
    inside = waves[(waves[:, 1] > span[0]) & (waves[:, 1] < span[1])]
    return float(inside[np.argmin(np.abs(inside[:, 1] - middle)), column]) if len(inside) else np.nan


def _confirmed(values: Array, tolerance: float, *, latest: bool) -> float:
    """Return the earliest or latest mark that at least three more leads confirm."""
    ordered = np.sort(values)[::-1] if latest else np.sort(values)
    for value in ordered:
        if (np.abs(ordered - value) <= tolerance + 1e-9).sum() >= 4:
            return float(value)
    return np.nan


def mitdb_record(header: Path) -> tuple[Recording, Array, list[tuple[float, float]]]:
    """Return a record of MIT-BIH, its beats in seconds, and episodes of ventricular flutter."""
    recording = clocs.read(header)
    items = parse_annotations(header.with_suffix(".atr").read_bytes(), header.name)
    rate = recording.sampling_rate
    beats = np.array([item.sample for item in items if item.code in BEAT_CODES]) / rate
    starts = [item.sample / rate for item in items if item.code == FLUTTER_START]
    ends = [item.sample / rate for item in items if item.code == FLUTTER_END]
    return recording, beats, list(zip(starts, ends, strict=True))


def chapman_values(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the values of the device and the rhythm of each recording of Chapman."""
    import openpyxl

    sheet = openpyxl.load_workbook(folder / "Diagnostics.xlsx", read_only=True).active
    rows = sheet.iter_rows(values_only=True)
    names = next(rows)
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}
