"""Published values of other models on tasks of the benchmark, each with its source, split and signals."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_suffix(".json")
SAME_SPLIT: Final = "published folds"
"""Split of values that can be compared with ours."""
UNKNOWN: Final = {"trained_on": "not stated", "signals": "not stated", "seen": {"": "unknown"}}


@dataclass(frozen=True)
class PublishedValue:
    """Macro AUC of a model on a task, as published."""

    model: str
    """Name of the model."""
    way: str
    """``linear``, ``attentive``, ``fine-tuned`` or ``from scratch``."""
    auc: dict[float, float]
    """Macro AUC by label fraction."""
    trained_on: str
    """Data of its pre-training."""
    signals: str
    """Length, sampling rate and leads of its input."""
    seen: str
    """Answer to "has its pre-training seen test recordings of the dataset?": no, probably or unknown."""
    split: str
    """``published folds``, or in which way the split is another one."""
    source: str
    """Source of the value."""

    @property
    def is_comparable(self) -> bool:
        """True if the test recordings are those of our split."""
        return self.split == SAME_SPLIT


def published_values(dataset: str, task: str) -> list[PublishedValue]:
    """Return the published values of a task, best first.

    Args:
        dataset: Name of the dataset.
        task: Name of its task.

    Returns:
        Values, sorted by the macro AUC with all labels; none if nothing was published.

    Example:
        >>> best = published_values("ptbxl", "super")[0]
        >>> best.model, best.way, best.auc[1.0], best.split
        ('ECGFounder', 'fine-tuned', 0.935, 'published folds')
    """
    content = _content()
    values = [
        PublishedValue(
            model=row["model"],
            way=row["way"],
            auc={float(fraction): value for fraction, value in row["auc"].items()},
            trained_on=about["trained_on"],
            signals=about["signals"],
            seen=_for_dataset(about["seen"], dataset),
            split=_for_dataset(source["split"], dataset),
            source=source["title"],
        )
        for row in content["values"].get(f"{dataset}:{task}", [])
        for source in [content["sources"][row["source"]]]
        for about in [source.get("about") or content["models"].get(row["model"], UNKNOWN)]
    ]
    return sorted(values, key=lambda value: -value.auc[1.0])


def _for_dataset(values: Mapping[str, str], dataset: str) -> str:
    """Return the value of a dataset, or the one of all others."""
    return values[dataset] if dataset in values else values[""]


@functools.cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_bytes())
    return content
