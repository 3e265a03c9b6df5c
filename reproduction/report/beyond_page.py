"""The page beyond the paper: the recommended encoder, few labels, transfer, ablation and scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from clocs.encoders import build_encoder
from reproduction.beyond import (
    ABLATION_STEPS,
    ABLATIONS,
    COMPARED,
    FINETUNE_LEARNING_RATE,
    GROWTH,
    GROWTH_STEPS,
    TRANSFER_DATASETS,
    ablated,
    grown,
    linear,
    recommended_encoder,
    trained,
    untrained,
)
from reproduction.cells import LEVELS, Evaluation, Pretraining
from reproduction.experiments import METHODS
from reproduction.paper_numbers import SOURCES, results
from reproduction.report.costs import status_sentence
from reproduction.report.estimates import Estimates, Seeded
from reproduction.report.few_labels import few_labels_panels, few_labels_table
from reproduction.report.gallery import Gallery
from reproduction.report.growth import growth_fitted, growth_panels
from reproduction.report.page import (
    DASH,
    DATASET_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Table,
    Text,
    auc_cell,
    duration_text,
)

TRAINING_TIME: Final = "training, time of one core"
AUC_TITLES: Final = ("", "AUC per frame", "AUC per recording", "seeds")

Kind = Callable[[str, int], Evaluation]
"""Function from dataset and seed to an evaluation."""


def beyond_page(estimates: Estimates, gallery: Gallery) -> Page:
    """Return the page of five experiments."""
    names = ("recommended", "few-labels", "transfer", "ablation", "growth")
    status = {name: status_sentence(estimates.results, name) for name in names}
    blocks: list[Block] = [
        Text(
            "This page is for readers who want to know what `clocs-small` achieves on the paper's datasets, and what "
            "contributes to it. It is the *recommended encoder* of the tables, small and for single leads. It was "
            "trained without labels on the training patients of PhysioNet 2020, Chapman and PhysioNet 2017. Its "
            "embedding is a PCA of the pooled activations of every block. The [search](search.md) shows how its "
            "settings were chosen. Results are for test patients unless stated otherwise, with four leads at the "
            "sampling rate of the data. The [benchmark](benchmark.md) has twelve leads, and `clocs-base`."
        ),
        Heading("Linear evaluation"),
        Text(
            "A linear classifier with half of the training labels. `clocs-small` is the encoder of the first seed, "
            "and the duration is that of its training, in bfloat16. Other seeds were trained in float32, which is as "
            f"good (see the ablation). {status['recommended']}"
        ),
        encoder_table(estimates),
        Heading("Few labels"),
        Text(
            "Columns are numbers of training patients with labels. The encoder has a linear classifier, or is "
            "fine-tuned; the same network is also trained from scratch. Regularization and epoch are selected on all "
            "validation patients, whose labels are not counted. Each seed draws other patients for the same encoder. "
            "The standard deviation after ±, and the dots, show the effect of this draw. A value without ± has one "
            f"seed. {status['few-labels']}"
        ),
        *gallery.pictures(few_labels_panels(estimates)),
        few_labels_table(estimates),
        Heading("Transfer"),
        Text(
            "The paper's best is its highest value for the dataset after pre-training on either source (table 2, per "
            "frame, on the paper's frames). The encoder has seen PhysioNet 2017's training recordings without labels. "
            f"{status['transfer']}"
        ),
        _transfer(estimates),
        Heading("Ablation"),
        Text(
            "Each row changes one setting of the recipe before this ablation, in which pairs across a patient's "
            f"instances weigh as much as all others together, as in the paper. Each was trained for {ABLATION_STEPS:,} "
            "steps on PhysioNet 2020 and evaluated on validation patients. With few seeds, small differences may be "
            f"chance. {status['ablation']}"
        ),
        _changed(estimates, ABLATIONS, ablated),
        Heading("Width and number of patients"),
        Text(
            f"Wider networks and fewer patients, each trained for {GROWTH_STEPS:,} steps on PhysioNet 2020 in float32 "
            f"and evaluated on validation patients. {status['growth']}"
        ),
        *gallery.pictures(growth_panels(estimates)),
        _changed(estimates, GROWTH, grown),
        *growth_fitted(estimates),
    ]
    return Page("beyond", "Beyond the paper", tuple(blocks))


def encoder_table(estimates: Estimates) -> Table:
    """Return the table of the recommended encoder and its baselines."""
    rows = []
    for dataset in SOURCES:
        for name, kind in COMPARED.items():
            cell = partial(kind, dataset)
            aucs = _auc_entries(estimates, f"{DATASET_NAMES[dataset]}: {name}", cell)
            rows.append((*aucs, Entry(f"{parameters(cell(0).start):,}"), _training_time(estimates, cell(0))))
        printed = _best_of_paper(f"{DATASET_NAMES[dataset]}: the paper's best", 1, dataset)
        rows.append((*printed, Entry(DASH), Entry(DASH)))
    return Table((*AUC_TITLES, "parameters", TRAINING_TIME), tuple(rows))


def parameters(start: Pretraining | None) -> int:
    """Return the number of parameters of an encoder without projection head. None: the paper's network."""
    values = {"name": "cnn"} if start is None else dict(start.config.get("encoder", {"name": "cnn"}))
    name = values.pop("name")
    if start is not None and start.pca:
        name, values = "pca", {"encoder": {"name": name, **values}}
    return sum(parameter.numel() for parameter in build_encoder(name, values).parameters())


def _training_time(estimates: Estimates, cell: Evaluation) -> Entry:
    """Return the time of pre-training, or of training with labels."""
    training = cell if cell.protocol == "finetune" else cell.start
    if training is None or not training.max_epochs:
        return Entry("none")
    seconds = estimates.results.training_seconds(training)
    return Entry(DASH if seconds is None else duration_text(seconds))


def _transfer(estimates: Estimates) -> Table:
    kinds: dict[str, Kind] = {
        "recommended encoder, linear": lambda data, seed: linear(recommended_encoder(seed), data, seed),
        "recommended encoder, fine-tuned": lambda data, seed: trained(
            recommended_encoder(seed), data, seed, learning_rate=FINETUNE_LEARNING_RATE
        ),
        "from scratch": lambda data, seed: trained(untrained("physionet2020", seed), data, seed),
    }
    rows = []
    for dataset in TRANSFER_DATASETS:
        rows += _dataset_rows(estimates, dataset, kinds)
        name = f"{DATASET_NAMES[dataset]}: the paper's best, fine-tuned"
        rows.append(_best_of_paper(name, 2, dataset))
    return Table(AUC_TITLES, tuple(rows))


def _dataset_rows(estimates: Estimates, dataset: str, kinds: Mapping[str, Kind]) -> list[tuple[Entry, ...]]:
    return [
        _auc_entries(estimates, f"{DATASET_NAMES[dataset]}: {name}", partial(kind, dataset))
        for name, kind in kinds.items()
    ]


def _changed(estimates: Estimates, changes: Iterable[str], cell: Callable[[str, int], Evaluation]) -> Table:
    """Return a table with a row for each change, and the time of its pre-training."""
    rows = []
    for name in changes:
        aucs = _auc_entries(estimates, name, partial(cell, name))
        rows.append((*aucs, _training_time(estimates, cell(name, 0))))
    return Table((*AUC_TITLES, TRAINING_TIME), tuple(rows))


def _auc_entries(estimates: Estimates, name: str, kind: Seeded) -> tuple[Entry, ...]:
    runs = estimates.results.seeds(kind)
    means = (estimates.mean(runs, level) for level in LEVELS)
    return (Entry(name), *map(auc_cell, means), Entry(str(len(runs)) if runs else DASH))


def _best_of_paper(name: str, table: int, dataset: str) -> tuple[Entry, ...]:
    """Return the best of the paper's self-supervised methods in a table."""
    best = max(each.value for each in results(table=table, evaluation=dataset) if each.method in METHODS)
    return (Entry(name), Entry(f"{best:.3f}"), Entry(DASH), Entry(DASH))
