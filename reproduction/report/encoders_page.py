"""The page of the shipped encoders: linear evaluation, neighbors, distances, groups and privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reproduction.cells import LEVELS, Evaluation
from reproduction.paper_numbers import SOURCES
from reproduction.report.costs import status_sentence
from reproduction.report.estimates import Estimates
from reproduction.report.page import DASH, DATASET_NAMES, Block, Entry, Heading, Page, Table, Text, value_entry
from reproduction.report.results import Results
from reproduction.shipped_encoders import (
    COMPARED,
    LINEAR,
    OWN_FRAMES,
    SIMCLR,
    SMALL,
    TRAINED_ON,
    apart,
    audited,
    grouped,
    neighbours,
)

NOTHING: Final = Entry(DASH)
UNSEEN: Final = Entry("not trained on these patients")
MAX_LABELS: Final = 3
"""Maximum number of labels of a group."""
MIN_ENRICHMENT: Final = 1.05
"""Minimum ratio of a label's frequency in a group to that in all patients."""
AUDITED: Final = {
    "rank 1": ("any_segment", "rank_1"),
    "rank 10": ("any_segment", "rank_10"),
    "equal error rate": ("any_segment", "equal_error_rate"),
}


def encoders_page(estimates: Estimates) -> Page:
    """Return the page, whose tables the documentation also uses."""
    results = estimates.results
    blocks: list[Block] = [
        Text(
            "This page is for readers who compare the encoders of single leads that come with `clocs`, with each other "
            "and with random weights. Intervals are 95 % intervals over test patients. "
            f"{status_sentence(results, 'in-use')}"
        ),
        Heading("A linear classifier on the paper's network"),
        Text("With half of the labels, on test patients and the paper's frames unless a row says otherwise."),
        linear_table(results),
        Heading("Classes of the nearest patients"),
        Text(
            "The share of the ten nearest test patients who have the same class (precision at 10). Segments have 5 s "
            "at 500 Hz unless a row says otherwise. [Neighbors](../background/patient-map.md) has the method."
        ),
    ]
    for dataset in SOURCES:
        blocks += [Text(neighbours_text(results, dataset)), neighbours_table(results, dataset)]
    blocks += [
        Text("Classes by `clocs-small`:"),
        classes_table(results),
        Heading("Distances within and between patients"),
        distances_table(results),
        Heading("Groups"),
        groups_table(results),
        Heading("Privacy"),
        Text(
            "Re-identification and membership. The [privacy audit](../background/privacy-audit.md) describes the "
            "measurement and what it does not cover."
        ),
    ]
    for dataset in SOURCES:
        blocks += [Text(audit_text(results, dataset)), audit_table(results, dataset)]
    return Page("encoders", "Encoders of single leads", tuple(blocks))


def linear_table(results: Results) -> Table:
    """Return the table of shipped encoders with the paper's network, and random weights."""
    rows = []
    for name, cell in LINEAR.items():
        found = results.get(cell)
        rows.append((Entry(name), *(value_entry(None if found is None else found.auc(level)) for level in LEVELS)))
    return Table(("", "AUC per frame", "AUC per recording"), tuple(rows))


def neighbours_text(results: Results, dataset: str) -> str:
    """Return a sentence on the number of patients, and the agreement of random neighbors."""
    found = _found(results, neighbours(SMALL, dataset), "neighbours")
    if found is None:
        return f"{DATASET_NAMES[dataset]}: no results yet."
    chance = found["chance"]
    return (
        f"{DATASET_NAMES[dataset]}, {len(found['classes'])} classes, {found['patients']:,} test patients; chance "
        f"{chance['macro']:.3f} macro, {chance['micro']:.3f} micro:"
    )


def neighbours_table(results: Results, dataset: str) -> Table:
    """Return encoders by the fraction of neighbors that agree, the best first."""
    cells = {name: neighbours(encoder, dataset) for name, encoder in COMPARED.items()}
    if dataset == TRAINED_ON:
        cells[f"{SIMCLR}, on its own frames of 10 s"] = neighbours(COMPARED[SIMCLR], dataset, OWN_FRAMES)
    rows = []
    for name, cell in cells.items():
        found = _found(results, cell, "neighbours")
        rows.append((Entry(name), *(value_entry(found and found[kind]) for kind in ("macro", "micro"))))
    ranked = sorted(rows, key=lambda row: (row[1] != NOTHING, row[1].text), reverse=True)
    return Table(("encoder", "macro", "micro"), tuple(ranked))


def classes_table(results: Results) -> Table:
    """Return how often neighbors by the default encoder share each class."""
    rows = []
    for dataset in SOURCES:
        found = _found(results, neighbours(SMALL, dataset), "neighbours")
        for name, of_class in (found["classes"] if found else {}).items():
            chance = Entry(f"{of_class['chance']:.3f}")
            patients = Entry(f"{of_class['patients']:,}")
            rows.append(
                (Entry(f"{DATASET_NAMES[dataset]}: {name}"), value_entry(of_class["precision"]), chance, patients)
            )
    return Table(("class", "precision at 10", "chance", "patients"), tuple(rows))


def distances_table(results: Results) -> Table:
    """Return mean distances of validation patients, and their separation."""
    rows = []
    for name, encoder in COMPARED.items():
        row = [Entry(name)]
        for dataset in SOURCES:
            found = _found(results, apart(encoder, dataset), "distances")
            means = [NOTHING if found is None else Entry(f"{found[kind]['mean']:.3g}") for kind in ("intra", "inter")]
            row += [*means, value_entry(found and found["separation"])]
        rows.append(tuple(row))
    titles = (
        f"{DATASET_NAMES[dataset]}: {word}" for dataset in SOURCES for word in ("within", "between", "separation")
    )
    return Table(("encoder", *titles), tuple(rows))


def groups_table(results: Results) -> Table:
    """Return groups of test patients, coarse and fine, with their stability."""
    rows = [row for dataset in SOURCES for fine in (False, True) for row in _groups(results, dataset, fine=fine)]
    titles = (
        "patients of",
        "group",
        "patients",
        "labels (frequency divided by that in all patients)",
        "median age",
    )
    return Table((*titles, "female", "stability"), tuple(rows))


def _groups(results: Results, dataset: str, *, fine: bool) -> Iterator[tuple[Entry, ...]]:
    found = _found(results, grouped(dataset, fine=fine), "groups")
    for place, group in enumerate(found["groups"] if found else ()):
        first = place == 0
        where = f"{DATASET_NAMES[dataset]}{', fine' if fine else ''}" if first else ""
        again = f"{found['stability']:.2f}" if first and found and found["stability"] is not None else ""
        ratios = {
            name: ratio for name, ratio in group["enrichment"].items() if ratio is not None and ratio >= MIN_ENRICHMENT
        }
        frequent = sorted(ratios, key=lambda name: -ratios[name])[:MAX_LABELS]
        labels = ", ".join(f"{name} {_percent(group['shares'][name])} ({ratios[name]:.1f})" for name in frequent)
        yield (
            Entry(where),
            Entry("none" if group["number"] < 0 else str(group["number"])),
            Entry(f"{group['patients']:,}"),
            Entry(labels),
            Entry(DASH if group["median_age"] is None else f"{group['median_age']:.0f}"),
            Entry(DASH if group["female"] is None else _percent(group["female"])),
            Entry(again),
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def audit_text(results: Results, dataset: str) -> str:
    """Return a sentence on the number of patients and segments, and the chance level."""
    found = _found(results, audited(SMALL, dataset), "audit")
    if found is None:
        return f"{DATASET_NAMES[dataset]}: no results yet."
    values = found["reidentification"]["any_segment"]
    chance = values["chance"]
    return (
        f"{DATASET_NAMES[dataset]}: {found['patients']:,} test patients, {values['segments']:,} segments. Chance: "
        f"rank 1 {chance['rank_1']:.4f}, rank 10 {chance['rank_10']:.3f}, error 0.5, AUC 0.5, found 0.01."
    )


def audit_table(results: Results, dataset: str) -> Table:
    """Return the results of the privacy audit by encoder."""
    rows = []
    for name, encoder in COMPARED.items():
        found = _found(results, audited(encoder, dataset), "audit")
        again = [value_entry(found and found["reidentification"][kind][key]) for kind, key in AUDITED.values()]
        rows.append((Entry(name), *again, *_membership(found)))
    return Table(("encoder", *AUDITED, "membership AUC", "found at 1 %"), tuple(rows))


def _membership(found: Mapping[str, Any] | None) -> Sequence[Entry]:
    if found is None:
        return NOTHING, NOTHING
    values = found["membership"]
    return (
        (UNSEEN, Entry("")) if values is None else (value_entry(values["auc"]), value_entry(values["true_positives"]))
    )


def _found(results: Results, cell: Evaluation, what: str) -> Mapping[str, Any] | None:
    """Return the result of a measure, or None if it is not computed."""
    known = results.get(cell)
    return None if known is None else known.result[what]
