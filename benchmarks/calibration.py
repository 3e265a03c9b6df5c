"""Coverage of prediction sets and calibration of probabilities, on own and external test patients, after the gate.

Classify, then write the tables of the docs pages from the committed results:

    python benchmarks/calibration.py measure STORES [STEP [ENCODER]]
    python benchmarks/calibration.py page

``STORES`` has stores of Chapman, PTB-XL and CPSC 2018 (``physionet2020``) with their twelve leads, whose split
``default`` has no test patient that the encoder has seen. Every ``STEP``-th test patient is classified by the rhythms
of Chapman. For the calibration in a hospital, PTB-XL is the hospital: labels of its training part calibrate, its test
part judges.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from page_tables import table, write_tables

import clocs
from clocs.core.errors import ClocsError
from clocs.core.seeds import generator
from clocs.metrics.calibration import brier_score, expected_calibration_error
from clocs.metrics.intervals import binomial_interval
from clocs.metrics.local_calibration import adjust_classes, choose_methods, fit_class_adjustments
from clocs.store.store import Store

ROOT = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "results" / "calibration.json"
COVERAGE_PAGE, CALIBRATION_PAGE = (
    ROOT / "docs" / "how-to" / "abstention.md",
    ROOT / "docs" / "reference" / "evaluation.md",
)
CLASSIFIER: Final = "chapman"
RHYTHMS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "chapman": {
        "AFIB": ("AFIB", "AF"),
        "GSVT": ("SVT", "AT", "SAAWR", "ST", "AVNRT", "AVRT"),
        "SB": ("SB",),
        "SR": ("SR", "SA"),
    },
    "ptbxl": {
        "AFIB": ("AFIB", "AFLT"),
        "GSVT": ("STACH", "SVTAC", "PSVT"),
        "SB": ("SBRAD",),
        "SR": ("SR", "SARRH"),
    },
    "physionet2020": {"AFIB": ("AF",), "SR": ("Normal",)},
}
"""Labels of each dataset that mean a class of the classifier. Recordings with none or several are left out."""
HOSPITAL: Final = "ptbxl"
NUM_LABELS: Final = (100, 400)
"""Numbers of labelled patients of the hospital."""
Array = npt.NDArray[Any]


def classified(encoder: clocs.PretrainedEncoder, store: Store, name: str, rows: Array) -> Iterator[dict[str, Any]]:
    """Classify the recordings whose rhythm is known and exclusive, if the gate lets them pass."""
    labels = store.table("labels")["labels"].to_pylist()
    for row in rows.tolist():
        groups = [group for group, words in RHYTHMS[name].items() if not set(words).isdisjoint(labels[row] or ())]
        if len(groups) != 1:
            continue
        try:
            found = encoder.classify(store.recording(row), classifier=CLASSIFIER)
        except ClocsError:
            continue
        if found.prediction_set is not None:
            probabilities = {item.name: item.probability for item in found.classes}
            yield {"truth": groups[0], "set": list(found.prediction_set), "probabilities": probabilities}


def one_a_patient(store: Store, records: Array) -> Array:
    """Return the first recording of each patient of a part, in random order."""
    rows = np.flatnonzero(records)
    rows = rows[np.unique(store.patient_codes()[0][rows], return_index=True)[1]]
    return generator(0, "calibration-benchmark").permutation(rows)


def measure(stores: Path, step: int, encoder_name: str) -> dict[str, Any]:
    """Classify test patients of each dataset, and labelled patients of the hospital."""
    encoder, found = clocs.load_encoder(encoder_name), {}
    for name in RHYTHMS:
        store = clocs.open_store(stores / name)
        rows = one_a_patient(store, store.split("default").mask("test"))
        found[name] = list(classified(encoder, store, name, rows[: len(rows) // step]))
        print(name, len(found[name]), flush=True)
    store = clocs.open_store(stores / HOSPITAL)
    rows = one_a_patient(store, store.split("default").mask("train"))
    labelled = []
    for one in classified(encoder, store, HOSPITAL, rows):
        labelled.append(one)
        if len(labelled) == max(NUM_LABELS):
            break
    names = [item.name for item in encoder.classifier(CLASSIFIER).card.classes]
    coverage = {name: _coverage(names, rows) for name, rows in found.items()}
    return {"coverage": coverage, "hospital": _hospital(names, labelled, found[HOSPITAL])}


def _coverage(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return coverage and size of sets, and the error of probabilities, by class."""
    truth, probabilities = _arrays(names, rows)
    errors = expected_calibration_error(truth, probabilities)
    result = {}
    for index, name in enumerate(names):
        sets = [row["set"] for row in rows if row["truth"] == name]
        if not sets:
            continue
        interval = binomial_interval(sum(name in one for one in sets), len(sets))
        result[name] = {
            "patients": len(sets),
            "coverage": interval.as_dict(),
            "single": float(np.mean([one == [name] for one in sets])),
            "empty": float(np.mean([not one for one in sets])),
            "size": float(np.mean([len(one) for one in sets])),
            "calibration_error": float(errors[index]),
        }
    return result


def _arrays(names: list[str], rows: list[dict[str, Any]]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    truth = np.array([[row["truth"] == name for name in names] for row in rows], bool)
    return truth, np.array([[row["probabilities"][name] for name in names] for row in rows])


def _hospital(names: list[str], labelled: list[dict[str, Any]], tested: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the errors on test patients of the hospital, as published and with labels of other patients."""
    truth, published = _arrays(names, tested)
    results = []
    for count in (0, *NUM_LABELS):
        methods: dict[str, str] = {}
        values = published
        if count:
            known, before = _arrays(names, labelled[:count])
            chosen = choose_methods(known, np.arange(len(known)))
            methods = dict(zip(names, chosen, strict=True))
            values = adjust_classes(published, fit_class_adjustments(known, before, chosen, False), False)
        results.append(
            {
                "labels": min(count, len(labelled)),
                "methods": methods,
                "patients": len(tested),
                "calibration_error": float(expected_calibration_error(truth, values).mean()),
                "brier": float(brier_score(truth, values).mean()),
            }
        )
    return results


def _coverage_table(results: dict[str, Any]) -> str:
    rows = [
        [
            dataset,
            name,
            str(one["patients"]),
            f"{one['coverage']['value']:.1%} ({one['coverage']['low']:.1%} to {one['coverage']['high']:.1%})",
            f"{one['single']:.1%}",
            f"{one['size']:.2f}",
            f"{one['calibration_error']:.3f}",
        ]
        for dataset, classes in results["coverage"].items()
        for name, one in classes.items()
    ]
    titles = ["test patients", "class", "patients", "class is in the set", "alone in it", "mean size", "error"]
    return table(titles, rows)


def _hospital_table(results: dict[str, Any]) -> str:
    rows = [
        [
            str(one["labels"]),
            ", ".join(f"{name} {method}" for name, method in one["methods"].items()) or "as published",
            f"{one['calibration_error']:.3f}",
            f"{one['brier']:.4f}",
        ]
        for one in results["hospital"]
    ]
    return table(["labelled patients", "calibration", "calibration error", "Brier score"], rows)


def main(arguments: list[str]) -> None:
    """Measure, or write the pages."""
    if arguments[:1] == ["measure"] and len(arguments) in (2, 3, 4):
        stores, step, encoder = (*arguments[1:], *("1", "clocs-small")[len(arguments) - 2 :])
        RESULTS.write_text(json.dumps(measure(Path(stores), int(step), encoder), indent=1, sort_keys=True) + "\n")
    elif arguments == ["page"]:
        results = json.loads(RESULTS.read_text())
        write_tables(COVERAGE_PAGE, {"coverage": _coverage_table(results)})
        write_tables(CALIBRATION_PAGE, {"hospital": _hospital_table(results)})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
