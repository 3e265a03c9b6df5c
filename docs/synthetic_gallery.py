"""Draw an example of every label of the ``synthetic`` dataset, and the page that shows them.

Sphinx calls ``make_gallery`` when a build begins. The pictures follow from the seed below, so they are not committed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

import clocs
from clocs.core.sources.source import open_source
from clocs.datasets.synthetic import MEANINGS, RHYTHMS

DATASET = clocs.DATASETS.get("synthetic")

SEED = 7
NUM_RECORDS = 5000
SECONDS = 6.0
RHYTHM_LEADS = ("II", "V1")
LEADS = {
    "LBBB": ("I", "V1", "V6"),
    "RBBB": ("I", "V1", "V6"),
    "LVH": ("V1", "V5", "aVL"),
    "RVH": ("I", "V1", "V6"),
    "PACE": ("II", "V1", "V6"),
    "STE-ANT": ("V2", "V3", "V4"),
    "STE-INF": ("II", "III", "aVF"),
    "STE-LAT": ("I", "aVL", "V6"),
    "STD-ANT": ("V2", "V3", "V4"),
    "STD-INF": ("II", "III", "aVF"),
    "STD-LAT": ("I", "aVL", "V6"),
}
"""The leads in which a finding is seen best; rhythms are drawn in ``RHYTHM_LEADS``."""
INTRODUCTION = """# Synthetic ECGs

This page is for readers who want to see what the `synthetic` dataset contains before they use it in tests, tutorials
or trials of methods. Each picture is one recording with the label above it, in the leads that show it best. The signals
come from a moving heart vector, so all twelve leads are consistent. [](datasets.md) lists the options and what is known
of each recording. They only look plausible: results on them say nothing about patients.

A synthetic recording in sinus rhythm, and below it a real one (PTB-XL, record 1):

![Synthetic sinus rhythm, twelve leads](../synthetic/twelve-leads.png)

![A real recording of PTB-XL, twelve leads](../images/ptbxl-12-leads.png)

"""


def make_gallery(folder: Path) -> None:
    """Write ``reference/synthetic.md`` and its pictures below a folder.

    Args:
        folder: Folder of the documentation's sources.
    """
    pictures = folder / "synthetic"
    pictures.mkdir(exist_ok=True)
    page = [INTRODUCTION]
    for label, meaning in MEANINGS.items():
        _draw(example(label), LEADS.get(label, RHYTHM_LEADS), SECONDS, pictures / f"{label}.png")
        page.append(f"## {label}: {meaning}\n\n![{meaning}](../synthetic/{label}.png)\n")
    _draw(example("SR"), None, 10.0, pictures / "twelve-leads.png")
    (folder / "reference" / "synthetic.md").write_text("\n".join(page))


def example(label: str) -> clocs.Recording:
    """Return the first recording that has a label, and beside it no other finding."""
    labels = (label,) if label in RHYTHMS else ("SR", label)
    source, options = open_source(Path()), DATASET.parse_options({"num_records": NUM_RECORDS, "seed": SEED})
    entry = next(entry for entry in DATASET.entries(source, options) if entry.labels == labels)
    return DATASET.load(source, entry, options)


def _draw(recording: clocs.Recording, leads: tuple[str, ...] | None, seconds: float, path: Path) -> None:
    figure = clocs.plot(recording, leads=leads, seconds=seconds, title=recording.record_id)
    figure.savefig(path, dpi=70)
    plt.close(figure)
