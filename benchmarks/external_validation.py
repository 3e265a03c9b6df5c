"""Classifiers of one hospital's labels, judged on the test patients of other hospitals.

Measure, then write the tables of the docs page from the committed results:

    python benchmarks/external_validation.py measure STORES CACHE [ENCODER]
    python benchmarks/external_validation.py page

``STORES`` has the stores of ``HOSPITALS`` with their twelve leads and a split ``default``, and ``CACHE`` gets features
of recordings (that of ``clocs evaluate publish`` has them already). ``shared_findings.json`` says which labels of two
hospitals mean the same. A classifier is a logistic regression on the embedding of twelve leads: its own hospital's
training part fits it, and the validation part selects its regularization. The encoder may know the signals of all
training parts, never their labels.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from page_tables import table, write_tables

import clocs
from clocs.core.seeds import generator
from clocs.evaluation.benchmark.embedders import load_embedder
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.linear_probe import LinearProbe, fit_probe
from clocs.evaluation.recording_classifier import features_by_lead_set
from clocs.evaluation.scoring import format_interval
from clocs.metrics.local_calibration import adjust_classes, choose_methods, fit_class_adjustments
from clocs.metrics.task_scores import score_task
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.store import Store
from clocs.store.task_targets import task_targets

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "external-validation.json", ROOT / "docs" / "reference" / "evaluation.md"
FINDINGS: Final = json.loads(Path(__file__).with_name("shared_findings.json").read_text())
HOSPITALS: Final = {"ptbxl": "PTB-XL", "physionet2020": "CPSC 2018", "chapman": "Chapman"}
NUM_LOCAL_PATIENTS: Final = 100
"""Patients of the other hospital's validation part whose labels calibrate."""
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Hospital:
    """Recordings of a hospital with the findings that it names."""

    store: Store
    features: Array
    """Embeddings of recordings, (N, D)."""
    findings: tuple[str, ...]
    truth: Array
    """Findings of recordings, (N, findings)."""

    def rows(self, part: str) -> Array:
        """Return the mask (N,) of the recordings of a part that have features."""
        return np.asarray(self.store.split("default").mask(part) & np.isfinite(self.features).all(1))

    def columns(self, findings: Sequence[str]) -> Array:
        """Return the labels (N, K) of some findings."""
        return np.asarray(self.truth[:, [self.findings.index(name) for name in findings]])


@dataclass(frozen=True)
class Classifier:
    """A fitted classifier of a hospital's findings."""

    findings: tuple[str, ...]
    scale: Standardization
    probe: LinearProbe

    def probabilities(self, features: Array, findings: Sequence[str]) -> Array:
        """Return the probabilities (N, K) of some findings for embeddings (N, D)."""
        found = self.probe.scores(self.scale.transform(features))
        return np.asarray(found[:, [self.findings.index(name) for name in findings]])


def load(store: Store, name: str, encoder: str, cache: Path) -> Hospital:
    """Return a hospital with the features and findings of its recordings."""
    leads = STANDARD_LEADS
    found = features_by_lead_set(load_embedder(encoder), store, allow_missing_leads=True, sets=(leads,), cache=cache)
    named = {finding: labels[name] for finding, labels in FINDINGS.items() if name in labels}
    truth = np.stack([_labelled(store, labels) for labels in named.values()], axis=1)
    return Hospital(store, found[leads].values, tuple(named), truth)


def _labelled(store: Store, labels: Mapping[str, Sequence[str]]) -> Array:
    """Return which recordings have one of the labels, which are given by task."""
    found = np.zeros(len(store), np.bool_)
    for task, names in labels.items():
        targets = task_targets(store, task)
        found |= targets.truth[:, [targets.classes.index(name) for name in names]].any(1)
    return found


def fit(hospital: Hospital) -> Classifier:
    """Fit the classifier of a hospital."""
    train, validation = hospital.rows("train"), hospital.rows("validation")
    scale = Standardization.fit(hospital.features[train])
    values = scale.transform(hospital.features)
    probe = fit_probe(values, hospital.truth, kind="multi-label", train=train, validation=validation)
    return Classifier(hospital.findings, scale, probe)


def judge(classifier: Classifier, hospital: Hospital, findings: Sequence[str]) -> dict[str, Any]:
    """Score a classifier on the test patients of a hospital, as it is and calibrated there."""
    patients = hospital.store.patient_codes()[0]
    local, test = _some_patients(hospital.rows("validation"), patients), hospital.rows("test")
    truth = hospital.columns(findings)
    as_is, of_local = (classifier.probabilities(hospital.features[rows], findings) for rows in (test, local))
    methods = choose_methods(truth[local], patients[local])
    adjustments = fit_class_adjustments(truth[local], of_local, methods, multi_label=True)
    scores = [
        score_task("multi-label", truth[test], probabilities, patients[test], classes=findings)["recording"]
        for probabilities in (as_is, adjust_classes(as_is, adjustments, multi_label=True))
    ]
    return {
        "auc": scores[0]["macro"]["auc"],
        "auc_by_finding": {name: scores[0]["classes"][name]["auc"] for name in findings},
        "positives": dict(zip(findings, truth[test].sum(0).tolist(), strict=True)),
        "calibration_error": [found["macro"]["calibration_error"] for found in scores],
        "methods": dict(zip(findings, methods, strict=True)),
    }


def _some_patients(rows: Array, patients: Array) -> Array:
    """Return the mask of the recordings of 100 random patients."""
    chosen = generator(0, "local patients").permutation(np.unique(patients[rows]))[:NUM_LOCAL_PATIENTS]
    return np.asarray(rows & np.isin(patients, chosen))


def measure(stores: Path, cache: Path, encoder: str) -> dict[str, Any]:
    """Judge every hospital's classifier on every hospital, on the findings that both name."""
    hospitals = {name: load(clocs.open_store(stores / name), name, encoder, cache) for name in HOSPITALS}
    classifiers = {name: fit(hospital) for name, hospital in hospitals.items()}
    pairs = []
    for fitted_on, judged_on in itertools.permutations(HOSPITALS, 2):
        target = hospitals[judged_on]
        findings = [name for name in hospitals[fitted_on].findings if name in target.findings]
        external, internal = (judge(classifiers[name], target, findings) for name in (fitted_on, judged_on))
        pairs.append({"fitted_on": fitted_on, "judged_on": judged_on, "external": external, "internal": internal})
    return {"encoder": encoder, "local_patients": NUM_LOCAL_PATIENTS, "pairs": pairs}


def hospitals_table(found: dict[str, Any]) -> str:
    """Return the table of macro averages."""
    rows = []
    for pair in found["pairs"]:
        before, after = (f"{value['value']:.3f}" for value in pair["external"]["calibration_error"])
        rows.append(
            [
                HOSPITALS[pair["fitted_on"]],
                HOSPITALS[pair["judged_on"]],
                str(len(pair["external"]["positives"])),
                format_interval(pair["external"]["auc"]),
                format_interval(pair["internal"]["auc"]),
                before,
                after,
            ]
        )
    titles = ["labels of", "test patients of", "findings", "AUC", "AUC, own labels", "calibration error", "calibrated"]
    return table(titles, rows)


def findings_table(found: dict[str, Any]) -> str:
    """Return the table of AUC by finding: a column a pair of hospitals."""
    pairs = found["pairs"]
    titles = [f"{HOSPITALS[pair['fitted_on']]} to {HOSPITALS[pair['judged_on']]}" for pair in pairs]
    rows = []
    for finding in FINDINGS:
        values = [pair["external"]["auc_by_finding"].get(finding) for pair in pairs]
        rows.append([finding, *("–" if value is None else f"{value['value']:.3f}" for value in values)])
    return table(["AUC", *titles], rows)


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if len(arguments) in (3, 4) and arguments[0] == "measure":
        stores, cache, *rest = arguments[1:]
        found = measure(Path(stores), Path(cache), rest[0] if rest else "clocs-base")
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    elif arguments == ["page"]:
        found = json.loads(RESULTS.read_text())
        tables = {"external validation": hospitals_table(found), "external findings": findings_table(found)}
        write_tables(PAGE, tables)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
