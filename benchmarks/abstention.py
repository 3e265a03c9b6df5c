"""Shares of recordings whose classes are withheld: noise, paced recordings, children, poor quality, ordinary patients.

Measure, then write the tables of the docs page from the committed results:

    python benchmarks/abstention.py measure STORES CINC2011 [STEP] [PART ...]
    python benchmarks/abstention.py page

``STORES`` has stores of PTB-XL, CPSC 2018 (``physionet2020``) and Chapman with their twelve leads, whose split
``default`` has PTB-XL's fold 9 for validation and fold 10 for testing. ``CINC2011`` is a folder with set A of the
challenge of 2011. Every ``STEP``-th ordinary patient is measured. Odd records of it and PTB-XL's folds 1 to 8
were used to choose constants; even records and folds 9 and 10 are reported.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from page_tables import table, write_tables

import clocs
from clocs.core.errors import ClocsError
from clocs.core.recording import Recording
from clocs.core.sources import open_source
from clocs.datasets import DATASETS
from clocs.inference.abstention import PACED, judge_patient, judge_signal
from clocs.inference.input_checks import lead_faults
from clocs.inference.preparation import prepare
from clocs.inference.recordings import as_recording
from clocs.signals.leads import STANDARD_LEADS, available_leads

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "abstention.json", ROOT / "docs" / "how-to" / "abstention.md"
REASONS = {
    "heartbeats": "no clear heartbeats",
    "no lead": "no usable lead",
    "lead_equations": "lead equations",
    "no classifier": "no set of usable leads",
    "the patient": "under 16",
    "paced": "paced",
    "heart rate": "heart rate",
    "unlike": "distance",
}
"""Reasons by the words that their sentences have."""
SIGNALS_PER_KIND = 10
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


def classes_before(encoder: clocs.PretrainedEncoder, recording: Recording) -> bool:
    """Return whether a recording got classes before there was a gate."""
    faults = lead_faults(recording)
    sound = tuple(lead for lead in recording.leads if lead not in faults)
    for classifier in encoder.classifiers.values():
        for index in classifier.card.usable_sets(available_leads(sound)):
            try:
                prepare(recording, encoder.input, only_leads=classifier.card.lead_sets[index].leads)
            except ClocsError:
                return False
            return True
    return False


def summary(encoder: clocs.PretrainedEncoder, recordings: Iterable[Recording]) -> dict[str, Any]:
    """Classify recordings. Return their number, those with classes before and now, and counts of reasons."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    spent = 0.0
    for recording in recordings:
        counts["recordings"] += 1
        counts["before"] += classes_before(encoder, recording)
        begin = time.process_time()
        judge_signal(recording)
        spent += time.process_time() - begin
        found = encoder.classify(recording)
        counts["now"] += bool(found.classes)
        counts["leads_dropped"] += bool(found.classes) and len(found.leads) < 12
        named = {title for words, title in REASONS.items() for reason in found.withheld if words in reason}
        reasons.update(named or ({"other"} if found.withheld else ()))
        counts["withheld_not_paced_or_child"] += bool(named - {"paced", "under 16"}) or (
            bool(found.withheld) and not named
        )
    return {**counts, "reasons": dict(reasons), "gate_ms": 1000 * spent / max(1, counts["recordings"])}


def no_ecg(stores: Path, cinc2011: Path, step: int) -> dict[str, Any]:
    """Classify signals that are no ECG."""
    encoder = clocs.load_encoder()
    signals = list(made_signals())
    kinds = dict.fromkeys(kind for kind, _ in signals)
    found = {kind: summary(encoder, [one for name, one in signals if name == kind]) for kind in kinds}
    store = clocs.open_store(stores / "ptbxl")
    rows = np.flatnonzero(store.split("default").mask("test"))[:: 4 * step]
    found["shuffled leads of PTB-XL"] = summary(encoder, shuffled(store.recording(int(row)) for row in rows))
    return found


def ordinary(stores: Path, cinc2011: Path, step: int) -> dict[str, Any]:
    """Classify every ``step``-th test recording of each dataset."""
    encoder, found = clocs.load_encoder(), {}
    for name in ("ptbxl", "physionet2020", "chapman"):
        store = clocs.open_store(stores / name)
        rows = np.flatnonzero(store.split("default").mask("test"))[::step]
        found[name] = summary(encoder, (store.recording(int(row)) for row in rows))
    return found


def paced(stores: Path, cinc2011: Path, step: int) -> dict[str, Any]:
    """Count recordings with pacing spikes in PTB-XL's folds 9 and 10: those with the statement PACE, and others."""
    store = clocs.open_store(stores / "ptbxl")
    labels = store.table("labels")["labels"].to_pylist()
    is_paced = np.array(["PACE" in (row or ()) for row in labels])
    split = store.split("default")
    judged = split.mask("validation") | split.mask("test")
    found = {}
    for name, rows in (
        ("PACE", np.flatnonzero(judged & is_paced)),
        ("others", np.flatnonzero(judged & ~is_paced)[::step]),
    ):
        flags = [PACED in judge_signal(store.recording(int(row))).findings for row in rows]
        found[name] = {"recordings": len(rows), "paced": int(sum(flags))}
    return found


def children(stores: Path, cinc2011: Path, step: int) -> dict[str, Any]:
    """Count the patients under 16, and those of them whose classes are withheld."""
    found = {}
    for name in ("ptbxl", "chapman"):
        store = clocs.open_store(stores / name)
        ages = np.array([np.nan if age is None else age for age in store.table("age")["age"].to_pylist()])
        rows = np.flatnonzero(ages < 16)
        withheld = [bool(judge_patient(store.recording(int(row)))[0]) for row in rows]
        found[name] = {"recordings": len(rows), "withheld": int(sum(withheld))}
    return found


def quality(stores: Path, cinc2011: Path, step: int) -> dict[str, Any]:
    """Judge the even records of the challenge of 2011: rejected, or with leads left out."""
    dataset, source = DATASETS.get("physionet2011"), open_source(cinc2011)
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


PARTS: dict[str, Callable[[Path, Path, int], dict[str, Any]]] = {
    "no_ecg": no_ecg,
    "paced": paced,
    "children": children,
    "quality": quality,
    "ordinary": ordinary,
}


def _classes_rows(rows: dict[str, Any]) -> str:
    titles = ["signals", "recordings", "with classes before", "with classes now", "reasons"]
    return table(
        titles,
        [
            [
                name,
                str(row["recordings"]),
                str(row["before"]),
                str(row["now"]),
                ", ".join(f"{reason} {count}" for reason, count in sorted(row["reasons"].items())),
            ]
            for name, row in rows.items()
        ],
    )


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({count / max(1, total):.1%})"


def _paced_rows(found: dict[str, Any]) -> str:
    rows = [[name, _share(row["paced"], row["recordings"])] for name, row in found.items()]
    return table(["PTB-XL, folds 9 and 10", "pacing spikes found"], rows)


def _quality_rows(found: dict[str, Any]) -> str:
    rows = []
    for name, row in found.items():
        either = row.get("rejected", 0) + row.get("leads_dropped", 0)
        shares = [_share(row.get(key, 0), row["recordings"]) for key in ("rejected", "leads_dropped")]
        rows.append([name, *shares, _share(either, row["recordings"])])
    return table(["quality by annotators", "rejected", "with leads left out", "either"], rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "no_ecg": lambda results: _classes_rows(results["no_ecg"]),
    "ordinary": lambda results: _classes_rows(results["ordinary"]),
    "paced": lambda results: _paced_rows(results["paced"]),
    "quality": lambda results: _quality_rows(results["quality"]),
}


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments[:1] == ["measure"]:
        stores, cinc2011, *rest = arguments[1:]
        step = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
        for part in rest or PARTS:
            results[part] = PARTS[part](Path(stores), Path(cinc2011), step)
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    elif arguments == ["page"]:
        write_tables(PAGE, {name: make(results) for name, make in TABLES.items()})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
