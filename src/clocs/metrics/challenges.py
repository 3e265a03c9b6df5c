"""Scores of ECG challenges, from their published definitions: CinC 2017, CPSC 2018, and CinC 2020 and 2021."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.metrics.ranking import Bools, Floats, check_classes, check_weights
from clocs.metrics.thresholds import Decisions

SINUS_RHYTHM: Final = "426783006"
"""SNOMED CT code of the answer of the inactive classifier of CinC 2020 and 2021."""
WEIGHT_TABLES: Final = "https://github.com/physionetchallenges/evaluation-2021 (or evaluation-2020)"
"""Repositories with the official weight tables, ``weights.csv``."""


class Challenge(Protocol):
    """Score of a challenge."""

    @property
    def exclusive(self) -> bool:
        """Return whether one class is answered per row, the one with the highest score."""

    @property
    def symmetric(self) -> frozenset[str]:
        """Return the names of scores that are not bounded by 0 and 1."""

    def __call__(self, truth: Bools, answers: Bools, weights: npt.ArrayLike | None = None) -> dict[str, Floats]:
        """Return scores by name, as scalars or of shape (B,).

        Args:
            truth: Labels of shape (N, K).
            answers: Answered classes of shape (N, K).
            weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.
        """


@dataclass(frozen=True)
class CinC2017:
    """Score of the PhysioNet/CinC Challenge 2017: the mean F1 of normal, atrial fibrillation and other rhythm.

    Noisy recordings are answers and labels like others; their F1 is not part of the mean (Clifford et al. 2017).

    Example:
        >>> score = CinC2017(("Normal", "AF", "Other", "Noisy"))
        >>> truth = np.eye(4, dtype=bool)
        >>> float(score(truth, truth)["cinc2017"])
        1.0
    """

    classes: tuple[str, ...]
    """Classes of the columns: ``Normal``, ``AF``, ``Other`` and ``Noisy`` in any order."""
    exclusive: ClassVar[bool] = True
    """One class is answered per row."""
    symmetric: ClassVar[frozenset[str]] = frozenset()
    """All scores are between 0 and 1."""

    def __call__(self, truth: Bools, answers: Bools, weights: npt.ArrayLike | None = None) -> dict[str, Floats]:
        """Return the score as ``cinc2017``, see :class:`Challenge`."""
        columns = _columns(self.classes, ("Normal", "AF", "Other"), others=("Noisy",))
        _check_single("answers", answers)
        _check_single("truth", truth)
        found = Decisions.count(truth, answers, weights)
        return {"cinc2017": np.mean([_f1(found, [column]) for column in columns[:3]], axis=0)}


@dataclass(frozen=True)
class CPSC2018:
    """Score of the China Physiological Signal Challenge 2018: the mean F1 of nine classes, with four sub-scores.

    One class is answered per recording. A recording with several labels is answered correctly by any of them, and then
    counts for this label only (Liu et al. 2018). If the answer is wrong, the recording counts for its first label in
    the challenge's order of classes; the order of the labels in the files is not known here. F1 of class i is
    2 N_ii / (N_ix + N_xi), with the recordings N_ix of the class and N_xi that are answered with it. The sub-scores add
    up numerators and denominators: AF, block (I-AVB, LBBB, RBBB), premature contraction (PAC, PVC) and ST change (STD,
    STE).
    """

    classes: tuple[str, ...]
    """Classes of the columns: the nine of ``ORDER`` in any order."""
    exclusive: ClassVar[bool] = True
    """One class is answered per row."""
    symmetric: ClassVar[frozenset[str]] = frozenset()
    """All scores are between 0 and 1."""
    ORDER: ClassVar[tuple[str, ...]] = ("Normal", "AF", "I-AVB", "LBBB", "RBBB", "PAC", "PVC", "STD", "STE")
    """Classes 1 to 9 of the challenge."""
    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "af": ("AF",),
        "block": ("I-AVB", "LBBB", "RBBB"),
        "premature_contraction": ("PAC", "PVC"),
        "st_change": ("STD", "STE"),
    }
    """Classes of the sub-scores."""

    def __call__(self, truth: Bools, answers: Bools, weights: npt.ArrayLike | None = None) -> dict[str, Floats]:
        """Return the score as ``cpsc2018`` and the sub-scores as ``cpsc2018_af`` and so on, see :class:`Challenge`."""
        columns = _columns(self.classes, self.ORDER)
        _check_single("answers", answers)
        if not truth.any(axis=1).all():
            raise ValueError("Expected at least one class per row of truth. Leave out recordings without a label.")
        labels, given = truth[:, columns], answers[:, columns]
        is_correct = (labels & given).any(axis=1, keepdims=True)
        counted = np.where(is_correct, given, np.arange(len(columns)) == labels.argmax(axis=1)[:, None])
        found = Decisions.count(counted, given, weights)
        groups = {name: [self.ORDER.index(member) for member in members] for name, members in self.GROUPS.items()}
        mean = np.mean([_f1(found, [column]) for column in range(len(columns))], axis=0)
        return {"cpsc2018": mean} | {f"cpsc2018_{name}": _f1(found, rows) for name, rows in groups.items()}


@dataclass(frozen=True)
class CinC2021:
    """Score of the PhysioNet/CinC Challenges 2020 and 2021: a weighted accuracy of answers with several classes.

    A recording with labels x and answers y adds 1 / |x or y| to each pair of a label and an answer; pairs are weighted
    by the official table. The score is 0 for a classifier that always answers sinus rhythm and 1 for one that answers
    the labels (Perez Alday et al. 2020). Classes that the table joins with ``|``, or gives a weight of 1, are
    equivalent and count once. Classes that are not in the table are not scored.
    """

    classes: tuple[str, ...]
    """SNOMED CT codes of the columns."""
    table: tuple[tuple[str, ...], ...]
    """Codes of each of the M scored classes; equivalent ones together."""
    table_weights: Floats
    """Weights of labels (first axis) and answers (second axis), of shape (M, M)."""
    exclusive: ClassVar[bool] = False
    """Classes are answered by thresholds."""
    symmetric: ClassVar[frozenset[str]] = frozenset({"cinc2021"})
    """The score may be negative."""

    @classmethod
    def read(cls, classes: Sequence[str], path: Path | str | None) -> CinC2021:
        """Read the official table of weights.

        Args:
            classes: SNOMED CT codes of the columns of labels and answers.
            path: Path of ``weights.csv``: codes in the first row and column, weights in the others.

        Returns:
            The score.

        Raises:
            ConfigError: The table is missing or invalid, or has none of the classes.
        """
        where = f"Get weights.csv from {WEIGHT_TABLES} and pass its path."
        if path is None:
            raise ConfigError(f"The score of CinC 2020 and 2021 needs the official table of weights. {where}")
        try:
            with open(path, newline="", encoding="utf-8") as file:
                header, *rows = [row for row in csv.reader(file) if row]
            weights = np.array([[float(cell) for cell in row[1:]] for row in rows])
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} is no table of weights: {error}. {where}") from error
        codes = [tuple(cell.strip().split("|")) for cell in header[1:]]
        if weights.shape != (len(codes), len(codes)) or [tuple(row[0].strip().split("|")) for row in rows] != codes:
            raise ConfigError(f"{path} is no table of weights: rows and columns have different classes. {where}")
        known = {code for group in codes for code in group}
        if SINUS_RHYTHM not in known or not known & set(classes):
            raise ConfigError(f"{path} does not fit the classes. Pass SNOMED CT codes as classes. {where}")
        return cls(tuple(classes), *_join_equivalent(codes, weights))

    def __call__(self, truth: Bools, answers: Bools, weights: npt.ArrayLike | None = None) -> dict[str, Floats]:
        """Return the score as ``cinc2021``, see :class:`Challenge`; NaN if the labels are sinus rhythm alone."""
        check_classes(truth, answers)
        weight = check_weights(len(truth), weights)
        labels, given = (self._scored(side) for side in (truth, answers))
        inactive = np.zeros_like(given)
        inactive[:, [SINUS_RHYTHM in group for group in self.table]] = True
        score, lowest, highest = (self._gains(labels, each) @ weight for each in (given, inactive, labels))
        with np.errstate(invalid="ignore", divide="ignore"):
            return {"cinc2021": np.where(highest == lowest, np.nan, (score - lowest) / (highest - lowest))}

    def _scored(self, columns: Bools) -> Bools:
        """Return labels or answers of the scored classes, of shape (N, M)."""
        members = np.array([[code in group for code in self.classes] for group in self.table])
        return np.asarray(columns.astype(np.int64) @ members.T > 0)

    def _gains(self, labels: Bools, answers: Bools) -> Floats:
        """Return what each row adds to the score, of shape (N,)."""
        pairs = (labels @ self.table_weights * answers).sum(axis=1)
        return np.asarray(pairs / np.maximum((labels | answers).sum(axis=1), 1))


def _join_equivalent(codes: list[tuple[str, ...]], weights: Floats) -> tuple[tuple[tuple[str, ...], ...], Floats]:
    """Join classes with a weight of 1 between them; the first one's weights are kept."""
    is_first, joined = [], []
    for index, group in enumerate(codes):
        same = [other for other in range(len(codes)) if weights[index, other] == weights[other, index] == 1]
        is_first.append(min([index, *same]) == index)
        joined.append(group + tuple(code for other in same if other != index for code in codes[other]))
    kept = np.flatnonzero(is_first)
    return tuple(joined[index] for index in kept), weights[np.ix_(kept, kept)]


def _columns(classes: Sequence[str], needed: Sequence[str], *, others: Sequence[str] = ()) -> list[int]:
    if sorted(classes) != sorted([*needed, *others]):
        raise ConfigError(f"Expected the classes {', '.join([*needed, *others])}, got {', '.join(classes)}.")
    return [list(classes).index(name) for name in (*needed, *others)]


def _f1(found: Decisions, rows: list[int]) -> Floats:
    """Return F1 of a group of classes; NaN if they are neither labels nor answers."""
    numbers = (found.predicted + found.positives)[rows].sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * found.true_positives[rows].sum(axis=0) / numbers)


def _check_single(name: str, classes: Bools) -> None:
    if not (classes.sum(axis=1) == 1).all():
        raise ValueError(f"Expected one class per row of {name}.")
