"""What the paper claims in words, recounted from its own tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise

import pytest

from reproduction.paper_numbers import (
    Claim,
    StatedNumber,
    counts,
    paper,
    results,
    settings,
)
from tests.reproduction.paper_tables import CLOCS, LINEAR, METHOD_NAMES, SELF_SUPERVISED, columns, told

CONTRADICTED = {
    "dataset-sizes",
    "split",
    "chapman-segments",
    "linear-always",
    "cmlc-below",
    "transfer-12-leads",
    "embedding-flat",
    "linear-12-e64",
    "transfer-4-e64",
    "transfer-4-e256",
    "transfer-12-e32",
    "transfer-12-e64",
    "transfer-12-e128",
    "transfer-12-e256",
    "transfer-12-cmsc",
    "transfer-12-e32-gap",
    "decay",
}
"""Claims that the paper's own tables do not bear out."""

Column = dict[str, float]


def number_of(tables: Iterable[int], is_so: Callable[[Column], bool], **where: object) -> int:
    """Columns, with their results by method (of table 23 and 24, by decay), of which something is so."""
    chosen = [
        {str(result.decay) if result.table > 22 else result.method: result.value for result in column}
        for column in columns(tables).values()
        if all(getattr(column[-1], name) == value for name, value in where.items())
    ]
    return sum(is_so(column) for column in chosen)


def best(method: str, among: tuple[str, ...] = SELF_SUPERVISED) -> Callable[[Column], bool]:
    """Strictly."""
    return lambda column: all(column[method] > column[other] for other in among if other in column and other != method)


def above(first: str, second: str) -> Callable[[Column], bool]:
    return lambda column: column[first] > column[second]


def family_above(column: Column) -> bool:
    return max(column[method] for method in CLOCS) > column["simclr"]


def pairs(tables: Iterable[int], methods: tuple[str, ...], rival: str) -> int:
    numbers = list(tables)
    return sum(number_of(numbers, above(method, rival)) for method in methods)


def patients(dataset: str) -> list[int]:
    return [count.value for count in counts(table=4, dataset=dataset, quantity="patients")]


def shares(part: int) -> list[float]:
    named = ("physionet2020", "chapman", "cardiology", "physionet2017")
    return [round(100 * patients(name)[part] / sum(patients(name)), 1) for name in named]


def classes(dataset: str) -> list[float]:
    (names,) = settings(subject=dataset, name="classes")
    assert isinstance(names.value, tuple)
    return [len(names.value)]


def stretches(dataset: str) -> list[float]:
    times = {"S": 1, "2S": 2, "S x L": 1, "2S x L": 8}
    rows = counts(table=3, dataset=dataset, split="train")
    assert [row.method for row in rows] == ["byol", "simclr", "cmsc", "cmlc", "cmsmlc"]
    return [row.value * times[row.form] for row in rows]


def widenings(**where: object) -> int:
    """Steps to fewer labels at which CMSC minus SimCLR grows."""
    first, second = ({r.label_fraction: r.value for r in results(method=m, **where)} for m in ("cmsc", "simclr"))
    gaps = [first[label_fraction] - second[label_fraction] for label_fraction in sorted(first, reverse=True)]
    return sum(after > before for before, after in pairwise(gaps))


def share_of(part: int, whole: int) -> float:
    return round(100 * part / whole, 1)


def rises(table: int) -> int:
    """Methods that have more with all labels than with a quarter, from Chapman to Cardiology."""
    ends = [{r.method: r.value for r in results(table=table, column=1, label_fraction=f)} for f in (0.25, 1)]
    return sum(ends[1][method] > ends[0][method] for method in ends[0])


def best_on(table: int, method: str, **where: object) -> list[float]:
    return [number_of([table], best(method), **where)]


@lru_cache(maxsize=1)
def recounted() -> dict[str, list[list[float]]]:
    """What the tables say to each number of a claim that is not itself a result or a difference of two."""
    return {
        "dataset-sizes": [
            [sum(patients(name))] for name in ("physionet2020", "chapman", "physionet2017", "cardiology")
        ],
        "dataset-classes": [
            classes("physionet2020"),
            [],
            classes("chapman"),
            classes("physionet2017"),
            classes("cardiology"),
        ],
        "split": [shares(0), shares(1), shares(2)],
        "chapman-segments": [[told("chapman", "recording_seconds") / 2]],
        "equal-exposure": [stretches("physionet2020"), stretches("chapman")],
        "linear-both": [[number_of([1], best("cmsc", ("cmsc", "byol", "simclr")))]],
        "linear-always": [[share_of(pairs(LINEAR, CLOCS, "simclr"), 3 * 64)]],
        "transfer-over-random": [[pairs([2], SELF_SUPERVISED, "random")]],
        "transfer-either": [[number_of([2], lambda c: max(c["cmsc"], c["cmsmlc"]) > max(c["byol"], c["simclr"]))]],
        "cmlc-below": [[number_of([2], lambda c: c["cmlc"] < min(c["cmsc"], c["cmsmlc"]))]],
        "transfer-4-leads": [[share_of(number_of(range(15, 19), family_above), 96)]],
        "transfer-12-leads": [[share_of(number_of(range(19, 23), best("cmsc")), 96)]],
        "fraction-all": [[rises(16)], [number_of([16], best("cmsmlc", tuple(METHOD_NAMES)), column=1)]],
        "supervised-best": [[number_of([17], best("supervised", tuple(METHOD_NAMES)))]],
        "linear-4-e32-best": [best_on(7, "cmsmlc", column=1), best_on(7, "cmsc", column=2)],
        "linear-4-e64-best": [best_on(8, "cmsmlc", column=1), best_on(8, "cmsc", column=2)],
        "linear-4-e128-best": [best_on(9, "cmsc")],
        "linear-4-e256-best": [best_on(10, "cmlc", column=1), best_on(10, "cmsc", column=2)],
        "linear-12-best": [[number_of(range(11, 15), best("cmsc"))]],
        "linear-12-e64": [[pairs([12], ("cmlc",), "simclr")], [pairs([12], ("cmsmlc",), "simclr")]],
        **{
            f"transfer-4-e{embedding_dim}": [
                [number_of([table], family_above)],
                [share_of(number_of([table], family_above), 24)],
                *([best_on(table, "cmsc")] if table == 15 else []),
            ]
            for table, embedding_dim in zip(range(15, 19), (32, 64, 128, 256), strict=True)
        },
        **{
            f"transfer-12-e{embedding_dim}": [
                [number_of([table], above("cmsc", "simclr"))],
                [share_of(number_of([table], above("cmsc", "simclr")), 24)],
            ]
            for table, embedding_dim in zip(range(19, 23), (32, 64, 128, 256), strict=True)
        },
        "transfer-12-cmsc": [[number_of(range(19, 23), above("cmsc", other))] for other in ("cmlc", "cmsmlc")],
        "transfer-12-e32-gap": [[], [], [], [], [], [], [widenings(table=19, column=1)]],
        "decay": [[number_of([table], best("0.9", ("0.5", "0.99")))] for table in (23, 24)],
    }


@pytest.mark.parametrize("claim", paper().claims, ids=lambda claim: claim.id)
def test_numbers_of_claims_are_those_of_the_tables(claim: Claim) -> None:
    counted = recounted().get(claim.id, [[]] * len(claim.numbers))
    assert len(counted) == len(claim.numbers)
    for number, expected in zip(claim.numbers, counted, strict=True):
        chosen = [[result.value for result in results(**where)] for where in number.where]
        if len(chosen) == 2:
            ((first,), (second,)) = chosen
            expected = [round(100 * (first - second), 1)]
        elif chosen:
            (expected,) = chosen
            assert expected
        assert list(number.found) == expected, number.what


def test_contradictions_of_the_paper_are_known() -> None:
    assert {claim.id for claim in paper().claims if claim.holds is False} == CONTRADICTED
    untold = {claim.id for claim in paper().claims if claim.holds is None}
    assert untold == {
        "few-labels-abstract",
        "equal-exposure",
        "augmentations",
        "transfer-over-random",
        "less-labels",
        "supervised-best",
        "distances-shift",
    }
    assert len({claim.id for claim in paper().claims}) == len(paper().claims)


def test_the_note_on_fewer_labels_is_correct() -> None:
    """Figure 4 is of validation AUC: CMSC with a quarter of the labels, random weights with all."""
    won = {}
    for leads in (4, 12):
        for before, after in (("physionet2020", "cardiology"), ("chapman", "physionet2017")):
            few = results(protocol="finetune", method="cmsc", leads=leads, label_fraction=0.25, pretraining=before)
            few = tuple(result for result in few if result.evaluation == after)
            full = {r.embedding_dim: r.value for r in results(method="random", label_fraction=1, evaluation=after)}
            won[leads, after] = sum(result.value > full[result.embedding_dim] for result in few)
            assert len(few) == 4
    assert won == {(4, "cardiology"): 0, (4, "physionet2017"): 0, (12, "cardiology"): 0, (12, "physionet2017"): 4}


def test_claims_hold_within_rounding_or_above_a_bound() -> None:
    def stated(found: tuple[float, ...], **more: object) -> bool | None:
        return StatedNumber.model_validate({"what": "", "printed": "", "value": 15.8, "found": found, **more}).holds

    assert stated((15.84,), within=0.05)
    assert stated((15.9,), within=0.05) is False
    assert stated((15.8, 15.7)) is False
    assert stated((99.0,), relation="at least")
    assert stated((15.7,), relation="at least") is False
    assert stated(()) is None
    assert stated((1.0,), value=None) is None
