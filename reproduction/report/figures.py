"""The paper's figures from our results. Figures without results are left out, with a note."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import save_figure
from clocs.drawing.panels import Bar, Sweep, draw_bars, draw_histograms, draw_sweep, draw_validation_curves
from reproduction.paper_numbers import Method, paper, results_of
from reproduction.report.claims import FRACTIONS, SETS, augmented, transfer_condition
from reproduction.report.distances import SOURCE, MeasuredDistances, measured_distances
from reproduction.report.estimates import Estimates, Mean, restrict_to_common_seeds
from reproduction.report.missing_cells import status_sentence
from reproduction.report.page import (
    METHOD_NAMES,
    Block,
    Heading,
    Page,
    Panels,
    Picture,
    Text,
    count_text,
    transfer_label,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AUGMENTATION_NAMES: Final = {
    "gaussian_noise": "Gaussian",
    "flip_time": "Flip Y (time)",
    "flip_amplitude": "Flip X (amplitude)",
    "spec_augment_time": "SA time",
    "spec_augment_frequency": "SA frequency",
}
SPAN: Final = (0.5, 1.0)
"""Range of an AUC axis, from chance to perfect."""
SWEPT: Final[tuple[Method, ...]] = ("random", "simclr", "cmsc", "cmlc", "cmsmlc")
EMBEDDINGS: Final = (32, 64, 128, 256)
FOLDER: Final = "images"
MOST_PAIRS: Final = 0.995
"""Fraction of the pairs between patients that the axis of figures 6 and 9 covers."""
Floats = npt.NDArray[np.floating]

NamedFigures = list[tuple[str, "Figure", str]]
"""File name without extension, figure and description, for each figure."""


class Gallery:
    """Writer of pictures, in a folder beside the pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self.made: list[Path] = []

    def panels(self, drawn: NamedFigures) -> list[Block]:
        """Write pictures and return their block, or no block without pictures."""
        pictures = []
        for name, figure, shows in drawn:
            path = self._folder / f"{name}.svg"
            save_figure(figure, path)
            self.made.append(path)
            pictures.append(Picture(f"{FOLDER}/{path.name}", shows))
        return [Panels(tuple(pictures))] if pictures else []

    def delete_stale(self) -> None:
        """Delete figures of an earlier report that this one does not have."""
        for path in self._folder.glob("figure-*.svg"):
            if path not in self.made:
                path.unlink()


def sweep(means: Sequence[Mean | None], papers: Sequence[float] | None = None) -> Sweep:
    """Return a line over several settings, with values by seed and the paper's values."""
    none = (np.nan, np.nan, np.nan)
    value, low, high = np.array([none if mean is None else (mean.value, mean.low, mean.high) for mean in means]).T
    seeds = tuple(np.array(() if mean is None or mean.deviation is None else mean.by_seed) for mean in means)
    return Sweep(value, low, high, np.full(len(means), np.nan) if papers is None else np.asarray(papers), seeds)


def figures_page(estimates: Estimates, gallery: Gallery) -> Page:
    """Return the page of figures 3 to 6 and 9."""
    blocks: list[Block] = [
        Text("Test AUC is per frame, the paper's way; thin lines through values are 95 % intervals over patients.")
    ]
    for number, (note, draw) in FIGURES.items():
        shown, status = gallery.panels(draw(estimates)), status_sentence(estimates.results, f"figure{number}")
        blocks += [Heading(_title(number)), *shown, Text(f"{note if shown else 'Left out.'} {status}")]
    for number, embeddings, methods in ((6, (128,), ("simclr", "cmsc")), (9, EMBEDDINGS, ("cmsc",))):
        kept = _first_seeds(
            each
            for each in measured_distances(estimates.results)
            if each.dataset == SOURCE and each.embedding_dim in embeddings and each.method in methods
        )
        shown = gallery.panels(_distances(number, kept))
        wanted = count_text(len(embeddings) * len(methods), "encoder")
        text = f"{len(kept)} of {wanted} measured, on the validation patients of PhysioNet 2020."
        text += f" The axis ends where {MOST_PAIRS:.1%} of the pairs between patients do.".replace("%", " %")
        blocks += [Heading(_title(number)), *shown, Text(text if shown else f"Left out. {text}")]
    return Page("figures", "Figures", tuple(blocks))


def _title(number: int) -> str:
    return f"Figure {number}. {paper().figures[number - 1].shows}"


def _figure3(estimates: Estimates) -> NamedFigures:
    drawn: NamedFigures = []
    methods: tuple[Method, ...] = ("simclr", "cmsc")
    for method in methods:
        bars = []
        runs = {names: estimates.runs(augmented(method, names)) for names in SETS}
        for names, same in restrict_to_common_seeds(runs).items():
            mean = estimates.mean(same, "frame")
            if mean is not None:
                label = " → ".join(AUGMENTATION_NAMES[name] for name in names)
                bars.append(Bar(label, mean.value, mean.low, mean.high, len(names) > 1))
        if bars:
            values = ", ".join(f"{bar.name} {bar.value:.3f}" for bar in bars)
            title = f"{METHOD_NAMES[method]} on Chapman"
            drawn.append((f"figure-3-{method}", draw_bars(bars, title, SPAN), f"Test AUC of {title}: {values}"))
    return drawn


def _figure4(estimates: Estimates) -> NamedFigures:
    drawn: NamedFigures = []
    for part, source, target in (("a", "physionet2020", "cardiology"), ("b", "chapman", "physionet2017")):
        curves = {}
        given: dict[str, Any] = {"source": source, "target": target, "protocol": "finetune"}
        kinds: tuple[tuple[Method, float], ...] = (("cmsc", 0.25), ("random", 1.0), ("cmsc", 1.0), ("random", 0.25))
        for method, label_fraction in kinds:
            runs = estimates.results.evaluations(
                transfer_condition(method, **given, label_fraction=label_fraction)
            ).values()
            seen = [np.asarray(run.row["curves"]["validation_auc"]) for run in runs if _has_curve(run.row)]
            if seen:
                curves[f"{METHOD_NAMES[method]}, F = {label_fraction:g}"] = seen
        if curves:
            title = transfer_label(transfer_condition("cmsc", **given))
            ends = ", ".join(
                f"{name} ends at {np.mean([run[-1] for run in runs]):.3f}" for name, runs in curves.items()
            )
            drawn.append((f"figure-4{part}", draw_validation_curves(curves, f"({part}) {title}"), f"{title}: {ends}"))
    return drawn


def _has_curve(body: Any) -> bool:
    return bool(body.get("curves", {}).get("validation_auc"))


def _figure5(estimates: Estimates) -> NamedFigures:
    usual: dict[str, Any] = {"source": "chapman", "target": "cardiology", "protocol": "finetune"}
    by_embedding = [{**usual, "embedding_dim": embedding_dim, "label_fraction": 0.25} for embedding_dim in EMBEDDINGS]
    by_fraction = [{**usual, "embedding_dim": 64, "label_fraction": label_fraction} for label_fraction in FRACTIONS]
    panels = (
        ("a", by_embedding, [str(each) for each in EMBEDDINGS], "length of the embedding, E", "F = 0.25"),
        ("b", by_fraction, [f"{each:g}" for each in FRACTIONS], "share of the labels, F", "E = 64"),
    )
    drawn: NamedFigures = []
    for part, places, settings, label, fixed in panels:
        lines = {METHOD_NAMES[method]: _by_setting(estimates, method, places) for method in SWEPT}
        lines = {name: line for name, line in lines.items() if np.isfinite(line.value).any()}
        if lines:
            title = f"({part}) Chapman → Cardiology, {fixed}"
            drawn.append(
                (f"figure-5{part}", draw_sweep(lines, settings, label, title), f"Test AUC by {label}; {fixed}")
            )
    return drawn


def _by_setting(estimates: Estimates, method: Method, places: Sequence[dict[str, Any]]) -> Sweep:
    conditions = [transfer_condition(method, **place) for place in places]
    printed = [results_of(condition) for condition in conditions]
    papers = [found[0].value if found else np.nan for found in printed]
    return sweep([estimates.auc(condition, "frame") for condition in conditions], papers)


def _first_seeds(found: Iterable[MeasuredDistances]) -> list[MeasuredDistances]:
    """Return the first seed of each encoder."""
    kept: dict[tuple[str, int], MeasuredDistances] = {}
    for each in found:
        kept.setdefault((each.method, each.embedding_dim), each)
    return list(kept.values())


def _distances(number: int, found: Sequence[MeasuredDistances]) -> NamedFigures:
    """Draw distances with a common axis."""
    drawn: NamedFigures = []
    bins = [
        [np.asarray(each.values["histogram"][kind], float) for kind in ("edges", "intra", "inter")] for each in found
    ]
    reach = max((_reach(edges, inter) for edges, _, inter in bins), default=None)
    for each, (edges, intra, inter) in zip(found, bins, strict=True):
        means = (each.values["intra"]["mean"], each.values["inter"]["mean"])
        shows = f"{each.title}: mean {means[0]:.3g} within patients, {means[1]:.3g} between"
        name = f"figure-{number}-{each.method}-e{each.embedding_dim}"
        drawn.append((name, draw_histograms(edges, intra, inter, means, each.title, reach), shows))
    return drawn


def _reach(edges: Floats, inter: Floats) -> float:
    """Return the distance that a fraction ``MOST_PAIRS`` of the pairs do not exceed."""
    return float(edges[1:][np.searchsorted(np.cumsum(inter), MOST_PAIRS * inter.sum())])


FIGURES: Final[dict[int, tuple[str, Callable[[Estimates], NamedFigures]]]] = {
    3: (
        "Ours is on Chapman, the paper's on PhysioNet 2020; each panel over the seeds that all its bars have.",
        _figure3,
    ),
    4: ("Bold: the mean over seeds, as far as all of them go; thin: each seed.", _figure4),
    5: ("Dashed and hollow: the paper's values.", _figure5),
}
"""Figures by number: a note for readers, and the function that draws it."""
