"""The classifiers of the shipped encoders: which stores and leads they are fitted on."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.publishing.publish import publish
from clocs.training.shipped import shipped_encoders


@dataclass(frozen=True)
class FittedOn:
    """Data of the classifiers of an encoder."""

    datasets: tuple[str, ...]
    """Datasets of the classifiers, the one that the encoder prefers first."""
    leads: tuple[str, ...] = ()
    """Leads; empty: all that most recordings have."""
    tasks: tuple[str, ...] = ()
    """Tasks, the one that the encoder prefers first; empty: the classes of each dataset."""


SHIPPED_CLASSIFIERS: Final = {
    "clocs-base": FittedOn(
        ("ptbxl", "physionet2020", "chapman"), tasks=("super", "rhythm", "sub", "cpsc2018", "chapman-groups")
    ),
    "clocs-small": FittedOn(("physionet2020", "chapman", "physionet2017")),
    "cmsc-chapman": FittedOn(("chapman",), ("I", "II")),
}
"""Classifiers by encoder. Every store has a split ``default`` without test patients that the encoder has seen."""


def fit_shipped_classifiers(name: str, stores: Path, cache: Path | None = None) -> Path:
    """Fit the classifiers of a shipped encoder again, and publish it in its place.

    Args:
        name: Name of the encoder.
        stores: Folder with a store of twelve leads for each dataset, by its name, with the split ``default``.
        cache: Folder of cached features of recordings. None: nothing is saved.

    Returns:
        Folder of the encoder.

    Raises:
        ConfigError: The encoder has no classifiers.
        LeakError: The encoder has seen test patients.
    """
    if name not in SHIPPED_CLASSIFIERS:
        raise ConfigError(f"Encoder '{name}' has no classifiers; {', '.join(SHIPPED_CLASSIFIERS)} have.")
    fitted_on, folder = SHIPPED_CLASSIFIERS[name], shipped_encoders()[name]
    first, *others = (stores / dataset for dataset in fitted_on.datasets)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / name
        publish(name, first, made, name, extra_stores=others, tasks=fitted_on.tasks, leads=fitted_on.leads, cache=cache)
        shutil.rmtree(folder)
        shutil.copytree(made, folder)
    return folder
