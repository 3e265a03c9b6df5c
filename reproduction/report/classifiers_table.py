"""Table of the classifiers that come with the package."""

from __future__ import annotations

from clocs.inference.classification import format_set
from clocs.inference.classifier import ClassifierCard, load_classifiers
from clocs.signals.leads import LEAD_SETS
from clocs.training.encoder_folder import read_config
from clocs.training.shipped import shipped_encoders
from reproduction.report.page import DASH, Entry, Table


def classifiers_table() -> Table:
    """Return the macro AUC on test recordings, by classifier and set of leads."""
    rows = []
    for name, folder in shipped_encoders().items():
        for task, classifier in load_classifiers(folder, read_config(folder).get("classifiers")).items():
            number = len(classifier.card.classes)
            rows.append((Entry(f"`{name}`"), Entry(f"`{task}`"), Entry(f"{number}"), *_entries(classifier.card)))
    titles = ("encoder", "classifier", "classes", *map(format_set, LEAD_SETS), "lead ECG")
    return Table(titles, tuple(rows))


def _entries(card: ClassifierCard) -> list[Entry]:
    found = {item.leads: item.test_auc for item in card.lead_sets}
    aucs = [found.get(leads) for leads in (*LEAD_SETS, ("ECG",))]
    return [Entry(DASH if auc is None else f"{auc:.3f}") for auc in aucs]
