"""Shares of recordings whose classes are withheld: noise, paced recordings, children, poor quality, ordinary patients.

Measure, then write the tables of the docs page from the committed results:

    python benchmarks/abstention.py measure STORES CINC2011 MITDB [STEP] [PART ...]
    python benchmarks/abstention.py page

``STORES`` has stores of PTB-XL, CPSC 2018 (``physionet2020``) and Chapman with their twelve leads, whose split
``default`` has PTB-XL's fold 9 for validation and fold 10 for testing. ``CINC2011`` is a folder with set A of the
challenge of 2011, ``MITDB`` has the records of MIT-BIH. Every ``STEP``-th ordinary patient is measured. Odd records of
the challenge and PTB-XL's folds 1 to 8 were used to choose constants; even records and folds 9 and 10 are reported.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from abstention_tables import TABLES
from gate_effect import TRUTH, auc_before_and_now, classified, summary, without_gate
from page_tables import write_tables

import clocs
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS
from clocs.inference.abstention import PACED, judge_patient, judge_signal
from clocs.inference.recordings import as_recording
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.store import Store

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "abstention.json", ROOT / "docs" / "how-to" / "abstention.md"
SIGNALS_PER_KIND = 10
SPEED_RECORDINGS = 100
MITDB_PACED = ("102", "104", "107", "217")
"""Records of MIT-BIH with paced beats."""
Array = npt.NDArray[np.float64]


def made_signals() -> Iterator[tuple[str, Recording]]:
    """Iterate over signals that are no ECG, by kind."""
    seconds = np.arange(5000) / 500
    for number in range(SIGNALS_PER_KIND):
        random = np.random.default_rng(number)
        scale, noise = random.uniform(0.2, 1, (12, 1)), random.normal(0, 1, (12, 5000))
        wander = np.sin(2 * np.pi * random.uniform(0.4, 1) * seconds)
        waves = np.sin(2 * np.pi * random.uniform(4, 7) * seconds + 1.5 * wander) * (1 + 0.4 * wander)
        kinds = {
            "white noise": random.uniform(0.05, 0.5) * noise,
            "hum": scale * np.sin(2 * np.pi * random.choice((50, 60)) * seconds) + 0.01 * noise,
            "waves as in ventricular fibrillation": scale * waves + 0.01 * noise,
        }
        for kind, signal in kinds.items():
            one, two = signal[:2]
            limbs = [one, two, two - one, -(one + two) / 2, one - two / 2, two - one / 2]
            whole = np.concatenate([limbs, signal[6:]])
            yield kind, as_recording(whole, sampling_rate=500, leads=STANDARD_LEADS, unit="mV")


def shuffled(recordings: Iterable[Recording]) -> Iterator[Recording]:
    """Iterate over recordings whose leads have each other's names."""
    for number, recording in enumerate(recordings):
        order = np.random.default_rng(number).permutation(len(recording.leads))
        yield replace(recording.select([recording.leads[row] for row in order]), leads=recording.leads)


@dataclass(frozen=True)
class Inputs:
    """Data to measure on."""

    stores: Path
    cinc2011: Path
    mitdb: Path
    step: int

    def rows(self, name: str, step: int) -> tuple[Store, npt.NDArray[np.int64]]:
        """Return a store and every ``step``-th of its test recordings."""
        store = clocs.open_store(self.stores / name)
        return store, np.flatnonzero(store.split("default").mask("test"))[::step]


def no_ecg(inputs: Inputs) -> dict[str, Any]:
    """Classify signals that are no ECG."""
    encoder = clocs.load_encoder()
    signals = list(made_signals())
    kinds = dict.fromkeys(kind for kind, _ in signals)
    found = {kind: summary(classified(encoder, [one for name, one in signals if name == kind])) for kind in kinds}
    store, rows = inputs.rows("ptbxl", 4 * inputs.step)
    moved = shuffled(store.recording(int(row)) for row in rows)
    found["shuffled leads of PTB-XL"] = summary(classified(encoder, moved))
    return found


def ordinary(inputs: Inputs) -> dict[str, Any]:
    """Classify every ``step``-th test recording of each dataset, with and without the gate."""
    encoder, found = clocs.load_encoder(), {}
    for name, truth in TRUTH.items():
        store, rows = inputs.rows(name, inputs.step)
        outcomes = list(classified(encoder, (store.recording(int(row)) for row in rows)))
        found[name] = summary(outcomes) | {"auc": auc_before_and_now(outcomes, truth)}
    return found


def paced(inputs: Inputs) -> dict[str, Any]:
    """Count recordings with pacing spikes in PTB-XL's folds 9 and 10: those with the statement PACE, and others."""
    store = clocs.open_store(inputs.stores / "ptbxl")
    labels = store.table("labels")["labels"].to_pylist()
    is_paced = np.array(["PACE" in (row or ()) for row in labels])
    split = store.split("default")
    judged = split.mask("validation") | split.mask("test")
    found = {}
    for name, rows in (
        ("PACE", np.flatnonzero(judged & is_paced)),
        ("others", np.flatnonzero(judged & ~is_paced)[:: inputs.step]),
    ):
        flags = [PACED in judge_signal(store.recording(int(row))).findings for row in rows]
        found[name] = {"recordings": len(rows), "paced": int(sum(flags))}
    return found


def paced_mitdb(inputs: Inputs) -> dict[str, Any]:
    """Count parts of 10 s with pacing spikes in MIT-BIH: of its four records with paced beats, and of the others."""
    found: dict[str, dict[str, int]] = {}
    for header in sorted(inputs.mitdb.glob("*.hea")):
        whole = clocs.read(header)
        length = round(10 * whole.sampling_rate)
        begins = range(0, whole.num_samples - length + 1, length * (1 if header.stem in MITDB_PACED else 10))
        parts = [replace(whole, digital=whole.digital[:, begin : begin + length]) for begin in begins]
        flags = [PACED in judge_signal(part).findings for part in parts]
        name = header.stem if header.stem in MITDB_PACED else "others"
        counts = found.setdefault(name, {"recordings": 0, "paced": 0})
        counts["recordings"] += len(flags)
        counts["paced"] += int(sum(flags))
    return found


def speed(inputs: Inputs) -> dict[str, Any]:
    """Measure the processor time of measuring, gating and classifying test recordings, in milliseconds."""
    encoder = clocs.load_encoder(num_threads=1)
    found: dict[str, dict[str, Any]] = {}
    for name in TRUTH:
        store, rows = inputs.rows(name, 1)
        recordings = [store.recording(int(row)) for row in rows[:: max(1, len(rows) // SPEED_RECORDINGS)]]
        works: dict[str, Callable[[Recording], object]] = {
            "measuring": clocs.measure,
            "gate, signal": judge_signal,
            "classes without the gate": functools.partial(without_gate, encoder),
            "classes with the gate": encoder.classify,
        }
        found[name] = {
            work: _milliseconds([_processor_ms(call, recording) for recording in recordings])
            for work, call in works.items()
        }
        found[name]["recordings"] = len(recordings)
    return found


def _processor_ms(call: Callable[[Recording], object], recording: Recording) -> float:
    begin = time.process_time()
    call(recording)
    return 1000 * (time.process_time() - begin)


def _milliseconds(spent: list[float]) -> dict[str, float]:
    return {"median": float(np.median(spent)), "p95": float(np.quantile(spent, 0.95))}


def children(inputs: Inputs) -> dict[str, Any]:
    """Count the patients under 16, and those of them whose classes are withheld."""
    found = {}
    for name in ("ptbxl", "chapman"):
        store = clocs.open_store(inputs.stores / name)
        ages = np.array([np.nan if age is None else age for age in store.table("age")["age"].to_pylist()])
        rows = np.flatnonzero(ages < 16)
        withheld = [bool(judge_patient(store.recording(int(row)))[0]) for row in rows]
        found[name] = {"recordings": len(rows), "withheld": int(sum(withheld))}
    return found


def quality(inputs: Inputs) -> dict[str, Any]:
    """Judge the even records of the challenge of 2011: rejected, or with leads left out."""
    dataset, source = DATASETS.get("physionet2011"), open_source(inputs.cinc2011)
    options = dataset.parse_options({})
    found: dict[str, Counter[str]] = {"acceptable": Counter(), "unacceptable": Counter()}
    for entry in dataset.entries(source, options):
        if not entry.labels or int(entry.record_id) % 2:
            continue
        verdict, counts = judge_signal(dataset.load(source, entry, options)), found[entry.labels[0]]
        counts["recordings"] += 1
        counts["rejected"] += bool(verdict.reasons)
        counts["leads_dropped"] += not verdict.reasons and len(verdict.leads) < 12
        counts["called_paced"] += PACED in verdict.findings
    return {name: dict(counts) for name, counts in found.items()}


PARTS: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "no_ecg": no_ecg,
    "paced": paced,
    "paced_mitdb": paced_mitdb,
    "children": children,
    "quality": quality,
    "ordinary": ordinary,
    "speed": speed,
}


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if arguments[:1] == ["measure"]:
        stores, cinc2011, mitdb, *rest = arguments[1:]
        step = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
        inputs = Inputs(Path(stores), Path(cinc2011), Path(mitdb), step)
        for part in rest or PARTS:
            found = PARTS[part](inputs)
            results = json.loads(RESULTS.read_text()) | {part: found}
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    elif arguments == ["page"]:
        results = json.loads(RESULTS.read_text())
        write_tables(PAGE, {name: make(results) for name, make in TABLES.items()})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
