"""Figures and extrapolation of the scaling experiments: wider networks and more unlabelled patients."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from clocs.drawing.panels import draw_sweep
from reproduction.beyond import grown
from reproduction.cells import LEVELS, Level
from reproduction.paper_numbers import counts
from reproduction.report.estimates import Estimates, Mean
from reproduction.report.gallery import NamedFigures, sweep
from reproduction.report.page import Block, Text, duration_text

WIDTHS: Final = {"width 12": "12", "as recommended": "24", "width 48": "48"}
SHARES: Final = {"10 % of the patients": 0.1, "30 % of the patients": 0.3, "as recommended": 1.0}
A_MILLION: Final = 1_000_000


def growth_panels(estimates: Estimates) -> NamedFigures:
    """Return a figure by network width, and one by number of patients."""
    shares = {name: f"{share * _patients():,.0f}" for name, share in SHARES.items()}
    panels = (("width", WIDTHS, "channels of the first block"), ("patients", shares, "unlabelled patients"))
    drawn: NamedFigures = []
    for kind, settings, label in panels:
        found = {f"per {level}": [_mean(estimates, name, level) for name in settings] for level in LEVELS}
        lines = {name: sweep(means) for name, means in found.items() if any(means)}
        if lines:
            figure = draw_sweep(lines, list(settings.values()), label, "PhysioNet 2020", "validation")
            drawn.append((f"figure-growth-{kind}", figure, f"PhysioNet 2020: validation AUC by {label}"))
    return drawn


def growth_fitted(estimates: Estimates) -> list[Block]:
    """Return sentences on log-linear fits over width and patients."""
    return [*_by_width(estimates), *_by_patients(estimates)]


def _by_width(estimates: Estimates) -> list[Block]:
    """Return a sentence on AUC and time for each doubling of the channels."""
    found = [[_mean(estimates, name, level) for name in WIDTHS] for level in LEVELS]
    times = [_seconds(estimates, name) for name in WIDTHS]
    if None in times or any(mean is None for means in found for mean in means):
        return []
    doublings = np.log2([float(width) for width in WIDTHS.values()])
    slopes = [np.polyfit(doublings, [mean.value for mean in means if mean is not None], 1)[0] for means in found]
    more_time = 2 ** np.polyfit(doublings, np.log2([time for time in times if time is not None]), 1)[0]
    gains = " and ".join(f"{slope:+.3f} per {level}" for slope, level in zip(slopes, LEVELS, strict=True))
    return [
        Text(
            f"A straight line over the logarithm of the width gains {gains} when the width doubles. Training "
            f"then takes {more_time:.1f} times as long."
        )
    ]


def _by_patients(estimates: Estimates) -> list[Block]:
    """Return a sentence on AUC by patients, with an extrapolation to a million recordings."""
    means = [_mean(estimates, name, "recording") for name in SHARES]
    time = _seconds(estimates, "as recommended")
    if any(mean is None for mean in means) or time is None:
        return []
    values = [mean.value for mean in means if mean is not None]
    tenfolds = np.log10(list(SHARES.values()))
    slope, at_all = np.polyfit(tenfolds, values, 1)
    last_slope = (values[-1] - values[-2]) / (tenfolds[-1] - tenfolds[-2])
    more = A_MILLION / _patients()
    return [
        Text(
            f"Per recording, a straight line over the logarithm of the number of patients gains {slope:+.3f} for ten "
            f"times as many. A million recordings are {more:,.0f} times as many as here. This line would reach "
            f"{at_all + slope * np.log10(more):.3f} there, and a line through the last two points "
            f"({last_slope:+.3f} for ten times as many) {values[-1] + last_slope * np.log10(more):.3f}. Training that "
            f"sees each recording as often would take {duration_text(time * more)} of one core. These are three points "
            "from one source, so the extrapolation is a direction and not a forecast."
        )
    ]


def _seconds(estimates: Estimates, name: str) -> float | None:
    """Return the seconds of a pre-training on one core."""
    start = grown(name, 0).start
    return None if start is None else estimates.results.training_seconds(start)


def _mean(estimates: Estimates, name: str, level: Level) -> Mean | None:
    return estimates.mean(estimates.results.seeds(partial(grown, name)), level)


def _patients() -> int:
    """Return the number of training patients in the paper's table 4."""
    (patients,) = (each.value for each in counts(table=4, split="train", dataset="physionet2020", quantity="patients"))
    return patients
