"""Classes of 46 half-hours with known rhythms: judged and pooled as a whole, in parts, and minute by minute.

    python benchmarks/long_recordings.py measure MITDB
    python benchmarks/long_recordings.py page

``MITDB`` is the folder of the MIT-BIH arrhythmia database. The lead MLII is taken for lead II, and the classifier
``rhythm`` of clocs-base estimates atrial fibrillation. A recording has it if it lasts at least half of the time.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from measuring import ROOT
from page_tables import table, write_tables

import clocs
from clocs.core.sources.source import open_source
from clocs.inference import long_recordings
from clocs.inference.classification import JudgedRecording

RESULTS, PAGE = ROOT / "results" / "long-recordings.json", ROOT / "docs" / "how-to" / "abstention.md"
ENCODER, CLASSIFIER, CLASS, LEAD = "clocs-base", "rhythm", "AFIB", "II"
WAYS = {
    "as a whole": (math.inf, 1_000_000),
    "in parts as long as training recordings": (math.inf, None),
    "in such parts, judged minute by minute": (long_recordings.SECONDS, None),
}
"""Seconds that are judged at a time, and frames that are pooled at once; None: those of the classifier."""


def measure(folder: Path) -> dict[str, Any]:
    """Return the share of time in atrial fibrillation and its probabilities, by recording."""
    encoder = clocs.load_encoder(ENCODER)
    known = encoder.classifier(CLASSIFIER)
    dataset, source = clocs.DATASETS.get("mitdb"), open_source(folder)
    options = dataset.parse_options({})
    found: dict[str, Any] = {}
    for entry in dataset.entries(source, options):
        recording = dataset.load(source, entry, options)
        recording = replace(recording, leads=tuple(LEAD if lead == "MLII" else lead for lead in recording.leads))
        if LEAD not in recording.leads:
            continue
        inside = [episode for episode in recording.episodes if episode.label == CLASS]
        share = sum(episode.end - episode.start for episode in inside) / recording.num_samples
        row: dict[str, Any] = {"share": round(share, 4)}
        for name, (seconds, most) in WAYS.items():
            card = known.card if most is None else known.card.model_copy(update={"max_frames": most})
            with patch.object(long_recordings, "SECONDS", seconds):
                judged = JudgedRecording(recording.select([LEAD]), encoder.input, encoder.embed_prepared)
                (done,) = judged.classify({CLASSIFIER: replace(known, card=card)})
            classes = {item.name: item.probability for item in done.classes}
            row[name] = round(classes[CLASS], 4) if classes else None
        found[entry.record_id] = row
    return found


def page_table(found: dict[str, Any]) -> str:
    """Return the table of the page."""
    rows = []
    for name in WAYS:
        given = [row for row in found.values() if row[name] is not None]
        groups = [[row for row in given if (row["share"] >= 0.5) == with_class] for with_class in (True, False)]
        cells = [f"{sum(row[name] > 0.5 for row in group)} of {len(group)}" for group in groups]
        rows.append((name, *cells, f"{len(found) - len(given)} of {len(found)}"))
    return table(
        ("recordings are pooled", "above 50 %, with fibrillation", "above 50 %, without", "classes withheld"), rows
    )


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if arguments[:1] == ["measure"] and len(arguments) == 2:
        RESULTS.write_text(json.dumps(measure(Path(arguments[1])), indent=1) + "\n")
    elif arguments == ["page"]:
        write_tables(PAGE, {"long": page_table(json.loads(RESULTS.read_text()))})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
