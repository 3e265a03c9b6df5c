"""Patients that a search hides because they are too distant: of ordinary recordings, and of signals that are no ECG.

Measure, then write the tables of the docs page from the committed results:

    python benchmarks/neighbor_limit.py measure INDEX
    python benchmarks/neighbor_limit.py page

``INDEX`` has a limit of distance (``clocs index limit``). Queries are the test recordings of its first store, by the
split from whose validation recordings the limit was chosen.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from abstention import made_signals
from page_tables import table, write_tables

import clocs
from clocs.core.errors import ClocsError
from clocs.core.recording import Recording
from clocs.inference.recordings import as_recording
from clocs.store.store import Store

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "neighbor-limit.json", ROOT / "docs" / "how-to" / "similarity.md"
EVERY = 20
"""Every such test recording is changed to a signal that no patient has."""
K = 10


def changed(recording: Recording, number: int) -> Iterator[tuple[str, Recording]]:
    """Iterate over versions of a recording that no patient has, by kind."""
    signal = np.nan_to_num(recording.physical())
    random = np.random.default_rng(number)
    phase = (np.arange(signal.shape[1]) / recording.sampling_rate * random.uniform(0.8, 1.8)) % 1
    sizes = random.uniform(0.5, 1.2, (len(signal), 1))
    kinds: dict[str, npt.NDArray[np.floating]] = {
        "ECGs in the wrong unit: ten times too large": 10 * signal,
        "ECGs reversed in time": signal[:, ::-1],
        "rectangular pulses of a calibration": sizes * (phase < 0.05) + random.normal(0, 0.01, signal.shape),
        "pressure waves": sizes * 5 * phase * np.exp(-5 * phase),
    }
    for kind, values in kinds.items():
        rate, leads = recording.sampling_rate, recording.leads
        yield kind, as_recording(np.clip(values, -30, 30), sampling_rate=rate, leads=leads, unit="mV")


def summary(index: clocs.PatientIndex, queries: Iterable[str | Recording]) -> dict[str, int]:
    """Search for each query. Return counts of queries, neighbors, and neighbors that share a label."""
    counts: Counter[str] = Counter()
    for query in queries:
        counts["queries"] += 1
        try:
            found = index.similar(query, K)
        except ClocsError:
            counts["rejected"] += 1
            continue
        counts["without"] += not found.neighbors
        counts["fewer"] += found.num_hidden > 0
        counts["shown"] += len(found.neighbors)
        counts["hidden"] += found.num_hidden
    return dict(counts)


def agreement(index: clocs.PatientIndex, store: Store, rows: Iterable[int]) -> dict[str, dict[str, int]]:
    """Count neighbors of recordings that share a label with them, shown and hidden."""
    archive, limit = clocs.open_archive(index.folder / index.manifest.archives[0].folder), index.manifest.limit
    assert limit is not None
    known = archive.table(["record_id", "patient_id", "labels"]).to_pylist()
    position = {row["record_id"]: number for number, row in enumerate(known)}
    labels = {row["patient_id"] or row["record_id"]: set(row["labels"]) for row in known}
    names = store.table(["record_id"]).column(0).to_pylist()
    own = [known[position[names[row]]] for row in rows if names[row] in position]
    found = index.search(archive.vectors(np.array([position[row["record_id"]] for row in own])), K + 1)
    counts = {"shown": Counter[str](), "hidden": Counter[str]()}
    for query, patients, cosines in zip(own, found.patient_ids, found.cosines, strict=True):
        others = [pair for pair in zip(patients, cosines, strict=True) if pair[0] != query["patient_id"]][:K]
        for patient, cosine in others:
            kind = counts["hidden" if 1 - cosine > limit.distance else "shown"]
            kind["neighbors"] += 1
            kind["agree"] += bool(labels[patient] & set(query["labels"]))
    return {kind: dict(count) for kind, count in counts.items()}


def measure(folder: Path) -> dict[str, Any]:
    """Search an index for all kinds of queries."""
    index = clocs.open_index(folder)
    limit = index.manifest.limit
    if limit is None:
        raise SystemExit(f"{folder} has no limit. Choose one: clocs index limit {folder}")
    store = clocs.open_archive(folder / index.manifest.archives[0].folder).open_store()
    rows = np.flatnonzero(store.split(limit.split).mask("test")).tolist()
    names = store.table(["record_id"]).column(0).to_pylist()
    kinds: dict[str, list[str | Recording]] = {"test recordings": [names[row] for row in rows]}
    for kind, recording in made_signals():
        kinds.setdefault(kind, []).append(recording)
    for row in rows[::EVERY]:
        for kind, recording in changed(store.recording(row), row):
            kinds.setdefault(kind, []).append(recording)
    return {
        "encoder": index.manifest.encoder_location,
        "patients": len(index),
        "limit": limit.model_dump(),
        "queries": {kind: summary(index, queries) for kind, queries in kinds.items()},
        "agreement": agreement(index, store, rows),
    }


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,} ({count / max(1, total):.1%})"


def _query_rows(found: dict[str, dict[str, int]]) -> str:
    titles = ["queries", "rejected by the gate", "compared", "without neighbors", "with fewer than ten"]
    rows = []
    for kind, counts in found.items():
        compared = counts["queries"] - counts.get("rejected", 0)
        shares = [_share(counts.get(name, 0), compared) if compared else "" for name in ("without", "fewer")]
        rows.append([kind, _share(counts.get("rejected", 0), counts["queries"]), f"{compared:,}", *shares])
    return table(titles, rows)


def _agreement_rows(found: dict[str, dict[str, int]]) -> str:
    rows = [[kind, f"{row['neighbors']:,}", f"{row['agree'] / row['neighbors']:.1%}"] for kind, row in found.items()]
    return table(["ten nearest of test recordings", "neighbors", "share a label with the query"], rows)


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if len(arguments) == 2 and arguments[0] == "measure":
        RESULTS.write_text(json.dumps(measure(Path(arguments[1])), indent=1) + "\n")
    elif arguments == ["page"]:
        results = json.loads(RESULTS.read_text())
        tables = {"limit": _query_rows(results["queries"]), "agreement": _agreement_rows(results["agreement"])}
        write_tables(PAGE, tables)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
