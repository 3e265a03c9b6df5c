"""Challenge scores compared with slow computations, recording by recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import ConfigError
from clocs.metrics.challenges import CPSC2018, SINUS_RHYTHM, Challenge, CinC2017, CinC2021

Bools = npt.NDArray[np.bool_]
RHYTHMS = ("AF", "Noisy", "Normal", "Other")
NINE = tuple(sorted(CPSC2018.ORDER))


def draw_labels(seed: int, rows: int, classes: int, share: float = 0.3) -> Bools:
    """Return labels of shape (N, K), at least one per row."""
    random = np.random.default_rng(seed)
    labels = random.random((rows, classes)) < share
    labels[np.arange(rows), random.integers(0, classes, rows)] = True
    return labels


def draw_answers(seed: int, rows: int, classes: int) -> Bools:
    """Return one answer per row, of shape (N, K)."""
    return np.eye(classes, dtype=bool)[np.random.default_rng(seed).integers(0, classes, rows)]


def test_cinc2017_equals_counts_of_recordings() -> None:
    truth, answers = draw_answers(0, 60, 4), draw_answers(1, 60, 4)
    expected = []
    for name in ("Normal", "AF", "Other"):
        both = labels = given = 0
        for row in range(60):
            label, answer = RHYTHMS[int(truth[row].argmax())], RHYTHMS[int(answers[row].argmax())]
            both += label == answer == name
            labels += label == name
            given += answer == name
        expected.append(2 * both / (labels + given))
    assert CinC2017(RHYTHMS)(truth, answers)["cinc2017"] == pytest.approx(sum(expected) / 3, abs=1e-12)


def slow_cpsc2018(truth: Bools, answers: Bools) -> dict[str, float]:
    """Fill the table of reference and answered classes, one recording after the other."""
    table: Counter[tuple[str, str]] = Counter()
    for labels, given in zip(truth, answers, strict=True):
        names = {name for name, has in zip(NINE, labels, strict=True) if has}
        (answer,) = (name for name, has in zip(NINE, given, strict=True) if has)
        reference = answer if answer in names else next(name for name in CPSC2018.ORDER if name in names)
        table[reference, answer] += 1

    def f1(*group: str) -> float:
        """Return F1 of a group. A recording of one of its classes, answered by another one, is an error."""
        both = sum(table[name, name] for name in group)
        rows = sum(number for (reference, _), number in table.items() if reference in group)
        columns = sum(number for (_, answer), number in table.items() if answer in group)
        return 2 * both / (rows + columns)

    return {
        "cpsc2018": sum(f1(name) for name in NINE) / 9,
        "cpsc2018_af": f1("AF"),
        "cpsc2018_block": f1("I-AVB", "LBBB", "RBBB"),
        "cpsc2018_premature_contraction": f1("PAC", "PVC"),
        "cpsc2018_st_change": f1("STD", "STE"),
    }


def test_cpsc2018_equals_a_table_of_recordings() -> None:
    truth, answers = draw_labels(2, 200, 9, 0.1), draw_answers(3, 200, 9)
    assert (truth.sum(axis=1) > 1).sum() > 50, "several labels occur"
    assert CPSC2018(NINE)(truth, answers) == pytest.approx(slow_cpsc2018(truth, answers), abs=1e-12)


def test_the_order_of_columns_does_not_matter() -> None:
    truth, answers, order = draw_labels(4, 50, 9), draw_answers(5, 50, 9), np.random.default_rng(0).permutation(9)
    shuffled = CPSC2018(tuple(NINE[index] for index in order))(truth[:, order], answers[:, order])
    for name, value in CPSC2018(NINE)(truth, answers).items():
        assert shuffled[name] == pytest.approx(value, abs=1e-12)


CODES = ["1", "2", "3", "4", SINUS_RHYTHM]
EQUIVALENT = ["1|11", "2", "3", "4", SINUS_RHYTHM]


def write_table(path: Path, header: list[str], seed: int = 0) -> npt.NDArray[np.float64]:
    """Write a made-up table of weights in the official layout and return the weights."""
    weights = np.random.default_rng(seed).uniform(0.1, 0.5, (len(header), len(header))).round(4)
    np.fill_diagonal(weights, 1)
    lines = [",".join(["", *header])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(header, weights.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return weights


def slow_cinc2021(truth: Bools, answers: Bools, weights: npt.NDArray[np.float64], normal: int) -> float:
    def total(given: Bools) -> float:
        score = 0.0
        for row in range(len(truth)):
            labels, outputs = set(np.flatnonzero(truth[row])), set(np.flatnonzero(given[row]))
            for label in labels:
                for output in outputs:
                    score += weights[label, output] / len(labels | outputs)
        return score

    inactive = np.zeros_like(truth)
    inactive[:, normal] = True
    lowest = total(inactive)
    return (total(answers) - lowest) / (total(truth) - lowest)


def test_cinc2021_equals_a_sum_over_pairs(tmp_path: Path) -> None:
    weights = write_table(tmp_path / "weights.csv", CODES)
    truth, answers = draw_labels(6, 80, 5), np.random.default_rng(7).random((80, 5)) < 0.3
    assert not answers.any(axis=1).all(), "a recording without an answer occurs"
    score = CinC2021.read(CODES, tmp_path / "weights.csv")
    found = score(truth, answers)["cinc2021"]
    assert found == pytest.approx(slow_cinc2021(truth, answers, weights, 4), abs=1e-12)
    assert score(truth, truth)["cinc2021"] == pytest.approx(1, abs=1e-12)
    inactive = np.zeros_like(truth)
    inactive[:, 4] = True
    assert score(truth, inactive)["cinc2021"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("joined", [True, False], ids=["by a bar", "by a weight of 1"])
def test_equivalent_classes_count_once_and_others_not_at_all(tmp_path: Path, joined: bool) -> None:
    """Column 11 is equivalent to 1; column 99 is not in the table."""
    path, codes = tmp_path / "weights.csv", [*CODES, "11", "99"]
    if joined:
        weights = write_table(path, EQUIVALENT)
    else:
        weights = write_table(path, [*CODES, "11"])
        weights[:, 5], weights[5] = weights[:, 0], weights[0]
        weights[[0, 5, 0, 5], [5, 0, 0, 5]] = 1
        rows = [",".join([name, *map(str, row)]) for name, row in zip([*CODES, "11"], weights.tolist(), strict=True)]
        path.write_text("\n".join([",".join(["", *CODES, "11"]), *rows]), encoding="utf-8")
    truth, answers = draw_labels(8, 60, 7), draw_labels(9, 60, 7)
    merged = [np.column_stack([side[:, 0] | side[:, 5], side[:, 1:5]]) for side in (truth, answers)]
    found = CinC2021.read(codes, path)(truth, answers)["cinc2021"]
    assert found == pytest.approx(slow_cinc2021(merged[0], merged[1], weights[:5, :5], 4), abs=1e-12)


def test_the_weight_table_is_required_and_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="physionetchallenges/evaluation-2021"):
        CinC2021.read(CODES, None)
    with pytest.raises(ConfigError, match="physionetchallenges/evaluation-2021"):
        CinC2021.read(CODES, tmp_path / "absent.csv")
    path = tmp_path / "weights.csv"
    write_table(path, CODES)
    with pytest.raises(ConfigError, match="SNOMED CT codes"):
        CinC2021.read(["AF", "PVC"], path)
    path.write_text(",1,2\n1,1,0.5\n2,0.5\n")
    with pytest.raises(ConfigError, match="no table of weights"):
        CinC2021.read(CODES, path)
    path.write_text(",1,2\n2,1,0.5\n1,0.5,1\n")
    with pytest.raises(ConfigError, match="rows and columns"):
        CinC2021.read(CODES, path)


@pytest.mark.parametrize("name", ["cinc2017", "cpsc2018", "cinc2021"])
def test_an_integer_weight_equals_repeated_recordings(name: str, tmp_path: Path) -> None:
    write_table(tmp_path / "weights.csv", CODES)
    scores: dict[str, Challenge] = {
        "cinc2017": CinC2017(RHYTHMS),
        "cpsc2018": CPSC2018(NINE),
        "cinc2021": CinC2021.read(CODES, tmp_path / "weights.csv"),
    }
    score, classes = scores[name], {"cinc2017": 4, "cpsc2018": 9, "cinc2021": 5}[name]
    truth, answers = draw_answers(10, 300, classes), draw_answers(11, 300, classes)
    times = np.random.default_rng(12).integers(0, 4, (300, 2))
    found = score(truth, answers, times)[name]
    for index in range(2):
        rows = np.repeat(np.arange(300), times[:, index])
        assert found[index] == pytest.approx(score(truth[rows], answers[rows])[name], abs=1e-12)


def test_invalid_classes_and_answers_are_rejected() -> None:
    with pytest.raises(ConfigError, match="Expected the classes Normal, AF, Other, Noisy"):
        CinC2017(("N", "A", "O", "~"))(draw_answers(0, 5, 4), draw_answers(1, 5, 4))
    with pytest.raises(ValueError, match="one class per row of answers"):
        CPSC2018(NINE)(draw_answers(0, 5, 9), np.zeros((5, 9), bool))
    with pytest.raises(ValueError, match="at least one class"):
        CPSC2018(NINE)(np.zeros((5, 9), bool), draw_answers(0, 5, 9))
