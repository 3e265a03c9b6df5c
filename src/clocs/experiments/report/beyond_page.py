"""The page beyond the paper: the recommended encoder, the labels it saves, what its parts and more of it bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from clocs.drawing.panels import Sweep, draw_sweep
from clocs.encoders import build_encoder
from clocs.experiments.beyond import (
    ABLATIONS,
    COMPARED,
    ELSEWHERE,
    FEW,
    FINE,
    GROWTH,
    MEDIUM,
    SHORT,
    ablated,
    few_frozen,
    few_tuned,
    from_scratch,
    grown,
    linear,
    one_encoder,
    trained,
    untrained,
)
from clocs.experiments.cells import Evaluation, Pretraining
from clocs.experiments.paper_numbers import SOURCES, counts, results_of
from clocs.experiments.report.claims import at
from clocs.experiments.report.comparison import SELF_SUPERVISED
from clocs.experiments.report.estimates import Estimates, Mean
from clocs.experiments.report.figures import Drawn, Gallery
from clocs.experiments.report.outstanding import sentence
from clocs.experiments.report.page import (
    DASH,
    DATASET_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Table,
    Text,
    auc_cell,
    hours,
)
from clocs.experiments.report.reading import LEVELS, Runs

MOST_SEEDS: Final = 5
"""Looked for."""
ALL: Final = "all"
TRAINING_TIME: Final = "training, time of one core"
A_MILLION: Final = 1_000_000
JUDGED: Final = ("", "AUC per frame", "AUC per recording", "seeds")

Seeded = Callable[[int], Evaluation]
"""An evaluation by its seed."""
Kind = Callable[[str, int], Evaluation]
"""An evaluation by dataset and seed."""


def beyond_page(estimates: Estimates, gallery: Gallery) -> Page:
    """Five experiments of ours."""
    names = ("recommended", "few-labels", "transfer", "ablation", "growth")
    stand = {name: sentence(estimates.results, name) for name in names}
    blocks: list[Block] = [
        Text(
            "One small encoder, trained without labels on the training patients of PhysioNet 2020, Chapman and "
            "PhysioNet 2017 together; its embedding is principal components of what all its blocks tell. How it was "
            "chosen is told with the [search](search.md). Test patients judge, unless said otherwise, at the data's "
            "physical sampling rate."
        ),
        Heading("The recommended encoder"),
        Text(f"Linear evaluation with half of the training labels. {stand['recommended']}"),
        encoder_table(estimates),
        Heading("Few labels"),
        Text(
            "The encoder with a linear classifier, and fine-tuned, beside the same network trained from scratch, all "
            "with the labels of so many training patients. They choose (regularisation, when to stop) by all "
            "validation patients, whose labels are not counted. Every seed draws other patients, for one and the same "
            "encoder: behind ± and as dots, what depends on whom it drew (no ±: one seed, of those that all lines "
            f"have). {stand['few-labels']}"
        ),
        *gallery.panels(_few_panels(estimates)),
        few_labels_table(estimates),
        Heading("Transfer"),
        Text(
            "Beside it the best that the paper has for the dataset, fine-tuned after either of its sources (Table 2, "
            f"per frame, by its own frames). PhysioNet 2017 was also trained on, without labels. {stand['transfer']}"
        ),
        _transfer(estimates),
        Heading("Ablation"),
        Text(
            "The recipe as it was before the ablation: pairs across a patient's instances weigh as much as all others "
            f"together, as in the paper. One change at a time, {SHORT:,} steps each, on PhysioNet 2020, by validation "
            f"patients. With few seeds, small differences may be chance. {stand['ablation']}"
        ),
        _changed(estimates, ABLATIONS, ablated),
        Heading("Growth"),
        Text(f"On PhysioNet 2020, {MEDIUM:,} steps each, by validation patients. {stand['growth']}"),
        _changed(estimates, GROWTH, grown),
        *_fitted(estimates),
    ]
    return Page("beyond", "Beyond the paper", tuple(blocks))


def encoder_table(estimates: Estimates) -> Table:
    """The one encoder, and what it is to be compared with: its network without pre-training, and the paper's."""
    rows = []
    for dataset in SOURCES:
        for name, kind in COMPARED.items():
            cell = partial(kind, dataset)
            judged = _judged(estimates, f"{DATASET_NAMES[dataset]}: {name}", cell)
            rows.append((*judged, Entry(f"{parameters(cell(0).start):,}"), _training_time(estimates, cell(0))))
        printed = _printed(f"{DATASET_NAMES[dataset]}: the paper's best", "linear", [(dataset, dataset)])
        rows.append((*printed, Entry(DASH), Entry(DASH)))
    return Table((*JUDGED, "parameters", TRAINING_TIME), tuple(rows))


def parameters(start: Pretraining | None) -> int:
    """Of an encoder, without classifier and projection head; None: the paper's network."""
    told = {"name": "cnn"} if start is None else dict(start.config.get("encoder", {"name": "cnn"}))
    if start is not None and start.principal:
        told["pooling"] = "every"
    return sum(each.numel() for each in build_encoder(told.pop("name"), told).parameters())


def _training_time(estimates: Estimates, cell: Evaluation) -> Entry:
    """Of the pre-training, or of training with labels."""
    taught = cell if cell.protocol == "finetune" else cell.start
    if taught is None or not taught.epochs:
        return Entry("none")
    found = estimates.results.of(taught)
    return Entry(DASH if found is None or found.seconds is None else hours(found.seconds))


def few_labels_table(estimates: Estimates) -> Table:
    """AUC per recording, by patients with labels; and how many training from scratch needs for what the encoder has."""
    rows = []
    for dataset in SOURCES:
        lines = _few_lines(estimates, dataset)
        rows += [(Entry(f"{DATASET_NAMES[dataset]}: {name}"), *map(auc_cell, line)) for name, line in lines.items()]
        for name in ("linear", "fine-tuned"):
            needed = (labels_needed(mean, lines["from scratch"]) for mean in lines[f"recommended encoder, {name}"])
            said = f"{DATASET_NAMES[dataset]}: patients that from scratch needs for what {name} has"
            rows.append((Entry(said), *map(Entry, needed)))
    return Table(("AUC per recording", *(f"{count:,}" for count in FEW), ALL), tuple(rows))


def labels_needed(aim: Mean | None, scratch: Sequence[Mean | None]) -> str:
    """Patients at which a curve over ``COUNTS`` first has an AUC, on straight lines over the logarithm."""
    known = [(count, mean.value) for count, mean in zip(COUNTS, scratch, strict=True) if mean is not None]
    if aim is None or not known:
        return DASH
    reached = next((place for place, (_, value) in enumerate(known) if value >= aim.value), None)
    if reached is None:
        last, _ = known[-1]
        return "more than there are" if last is None else f"over {last:,}"
    count, value = known[reached]
    if reached == 0:
        return ALL if count is None else f"{count:,} or fewer"
    before, lower = known[reached - 1]
    if count is None or before is None:
        return f"{before:,} to {ALL}"
    share = (aim.value - lower) / (value - lower)
    return f"{before * (count / before) ** share:,.0f}"


COUNTS: Final = (*FEW, None)
"""None: all."""
FEW_LABELS: Final = {
    "recommended encoder, linear": few_frozen,
    "recommended encoder, fine-tuned": few_tuned,
    "from scratch": from_scratch,
}


def _few_lines(estimates: Estimates, dataset: str) -> dict[str, list[Mean | None]]:
    """Over ``COUNTS``; each over the seeds that all have who have any, for much depends on whom a seed drew."""
    lines: dict[str, list[Mean | None]] = {name: [] for name in FEW_LABELS}
    for count in COUNTS:
        runs = {name: _few_runs(estimates, kind, dataset, count) for name, kind in FEW_LABELS.items()}
        known = [set(each) for each in runs.values() if each]
        shared = set.intersection(*known) if known else set()
        for name, each in runs.items():
            same = {seed: run for seed, run in each.items() if seed in shared}
            lines[name].append(estimates.mean(same, "recording"))
    return lines


def _few_runs(
    estimates: Estimates, kind: Callable[[str, int, int | None], Evaluation], dataset: str, count: int | None
) -> Runs:
    return _runs(estimates, lambda seed: kind(dataset, seed, count))


def _few_panels(estimates: Estimates) -> Drawn:
    drawn: Drawn = []
    settings = [*(f"{count:,}" for count in FEW), ALL]
    for dataset in SOURCES:
        lines = {name: _sweep(line) for name, line in _few_lines(estimates, dataset).items() if any(line)}
        if lines:
            title = DATASET_NAMES[dataset]
            figure = draw_sweep(lines, settings, "patients with labels", f"{title}, AUC per recording")
            drawn.append((f"figure-few-labels-{dataset}", figure, f"{title}: test AUC by patients with labels"))
    return drawn


def _sweep(means: Sequence[Mean | None]) -> Sweep:
    none = (np.nan, np.nan, np.nan)
    value, low, high = np.array([none if mean is None else (mean.value, mean.low, mean.high) for mean in means]).T
    seeds = tuple(np.array(() if mean is None or mean.deviation is None else mean.by_seed) for mean in means)
    return Sweep(value, low, high, paper=np.full(len(means), np.nan), seeds=seeds)


def _transfer(estimates: Estimates) -> Table:
    kinds: dict[str, Kind] = {
        "recommended encoder, linear": lambda data, seed: linear(one_encoder(seed), data, seed),
        "recommended encoder, fine-tuned": lambda data, seed: trained(
            one_encoder(seed), data, seed, learning_rate=FINE
        ),
        "from scratch": lambda data, seed: trained(untrained("physionet2020", seed), data, seed),
    }
    rows = []
    for dataset in ELSEWHERE:
        rows += _of_dataset(estimates, dataset, kinds)
        name = f"{DATASET_NAMES[dataset]}: the paper's best, fine-tuned"
        rows.append(_printed(name, "finetune", [(source, dataset) for source in SOURCES]))
    return Table(JUDGED, tuple(rows))


def _of_dataset(estimates: Estimates, dataset: str, kinds: Mapping[str, Kind]) -> list[tuple[Entry, ...]]:
    return [
        _judged(estimates, f"{DATASET_NAMES[dataset]}: {name}", partial(kind, dataset)) for name, kind in kinds.items()
    ]


def _changed(estimates: Estimates, changes: Iterable[str], cell: Callable[[str, int], Evaluation]) -> Table:
    """A row a change, with what its pre-training took."""
    rows = []
    for name in changes:
        judged = _judged(estimates, name, partial(cell, name))
        rows.append((*judged, _training_time(estimates, cell(name, 0))))
    return Table((*JUDGED, TRAINING_TIME), tuple(rows))


def _fitted(estimates: Estimates) -> list[Block]:
    """A straight line through AUC over the logarithm of the patients, where it leads and at what cost; the caveat."""
    shares = {"10 % of the patients": 0.1, "30 % of the patients": 0.3, "as recommended": 1.0}
    means = [estimates.mean(_runs(estimates, partial(grown, name)), "recording") for name in shares]
    start = grown("as recommended", 0).start
    whole = None if start is None else estimates.results.of(start)
    if any(mean is None for mean in means) or start is None or whole is None or whole.seconds is None:
        return []
    values = [mean.value for mean in means if mean is not None]
    slope, at_all = np.polyfit(np.log10(list(shares.values())), values, 1)
    (patients,) = (count.value for count in counts(table=4, split="train", dataset=start.dataset, quantity="patients"))
    more = A_MILLION / patients
    return [
        Text(
            f"Per recording, ten times as many unlabelled patients bring {slope:+.3f} on a straight line over the "
            f"logarithm of their number. A million recordings, {more:,.0f} times as many as there are here, would be "
            f"at {at_all + slope * np.log10(more):.3f} on it; to see each as often would take "
            f"{hours(whole.seconds * more)} of one core. Three points within one source say little of a million "
            "recordings from another: the same steps see each patient less often, AUC cannot pass 1, "
            "and other hospitals bring other noise. Read it as a direction."
        )
    ]


def _judged(estimates: Estimates, name: str, kind: Seeded) -> tuple[Entry, ...]:
    runs = _runs(estimates, kind)
    means = (estimates.mean(runs, level) for level in LEVELS)
    return (Entry(name), *map(auc_cell, means), Entry(str(len(runs)) if runs else DASH))


def _printed(name: str, protocol: str, places: Iterable[tuple[str, str]]) -> tuple[Entry, ...]:
    """The best of the paper's self-supervised methods at E = 128, F = 0.5."""
    printed = [
        result.value
        for source, target in places
        for method in SELF_SUPERVISED
        for result in results_of(at(method, source=source, target=target, protocol=protocol))
    ]
    return (Entry(name), Entry(f"{max(printed):.3f}" if printed else DASH), Entry(DASH), Entry(DASH))


def _runs(estimates: Estimates, kind: Seeded) -> Runs:
    found = {seed: estimates.results.of(kind(seed)) for seed in range(MOST_SEEDS)}
    return {seed: each for seed, each in found.items() if each is not None}
