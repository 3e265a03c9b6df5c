"""The paper's claims as statistical tests on our results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from reproduction.cells import Level
from reproduction.experiments import AUGMENTATIONS, TRANSFERS
from reproduction.paper_numbers import SOURCES, Condition, Method, paper
from reproduction.report.claim_tests import MethodComparison, Outcome, Pair, evaluate_pairs, evaluate_win_count
from reproduction.report.distances import evaluate_distances
from reproduction.report.estimates import Estimates
from reproduction.report.results import condition
from reproduction.report.tables_page import SELF_SUPERVISED

CLOCS: Final[tuple[Method, ...]] = ("cmsc", "cmlc", "cmsmlc")
RIVALS: Final[tuple[Method, ...]] = ("mtssl", "byol", "simclr")
FRACTIONS: Final = (0.25, 0.5, 0.75, 1.0)
SETS: Final = (*((name,) for name in AUGMENTATIONS), *((AUGMENTATIONS[0], name) for name in AUGMENTATIONS[1:]))
"""Sets of augmentations in figure 3."""


@dataclass(frozen=True)
class ClaimTest:
    """A claim of the paper, and its test."""

    says: str
    """The claim."""
    section: str
    """Section of the paper."""
    line: int
    """Line of the paper's source."""
    evaluate: Callable[[Estimates, Level], Outcome]
    """Test of the claim on our results."""
    note: str = ""
    """Remark for readers."""


def all_claim_tests() -> tuple[ClaimTest, ...]:
    """Return the tests of all claims that our results cover."""
    return (*linear_claim_tests(), *_transfer(), *_labels(), *_others())


def _claim_test(
    name: str, evaluate: Callable[[Estimates, Level], Outcome], note: str = "", says: str = ""
) -> ClaimTest:
    """Return the test of a claim by its id. ``says`` replaces a wording that cannot be tested."""
    (claim,) = (each for each in paper().claims if each.id == name)
    return ClaimTest(says or claim.says, claim.section, claim.line, evaluate, note)


def _pairs(pairs: Sequence[Pair]) -> Callable[[Estimates, Level], Outcome]:
    return partial(evaluate_pairs, pairs=tuple(pairs))


def _method_pairs(firsts: Sequence[Method], seconds: Sequence[Method], places: Sequence[dict[str, Any]]) -> list[Pair]:
    """Return pairs of all first methods with all second ones, for each transfer."""
    return [
        Pair(transfer_condition(first, **place), transfer_condition(second, **place))
        for place in places
        for first, second in product(firsts, seconds)
    ]


def transfer_condition(method: Method, *, source: str, target: str, **values: Any) -> Condition:
    """Return an experiment of a method that is trained on one dataset and evaluated on another."""
    return condition(method, target, None if method == "random" else source, **values)


def linear_claim_tests() -> list[ClaimTest]:
    """Return the tests of claims about table 1."""
    places = [{"source": name, "target": name} for name in SOURCES]
    return [
        _claim_test(
            "linear-chapman",
            _pairs(_method_pairs(["cmsc"], ["simclr"], places[:1])),
            "The paper's difference: 0.158.",
            "CMSC is above SimCLR on Chapman.",
        ),
        _claim_test("linear-both", _pairs(_method_pairs(["cmsc"], ["byol", "simclr"], places))),
        _claim_test(
            "linear-always",
            _pairs(_method_pairs(CLOCS, ["simclr"], places)),
            "Here with four leads at E = 128 and F = 0.5 alone. The paper's own tables contradict it for CMLC.",
        ),
        ClaimTest(
            "The CLOCS methods are above MT-SSL, BYOL and SimCLR in linear evaluation.",
            "7",
            333,
            _pairs(_method_pairs(CLOCS, RIVALS, places)),
            "The paper says so of BYOL and SimCLR; MT-SSL is in the same table.",
        ),
    ]


def transfer_over_random() -> ClaimTest:
    """Return the test that fine-tuning after pre-training is above training from scratch."""
    comparisons = [
        MethodComparison((each[method],), (each["random"],)) for each in _table2_columns() for method in SELF_SUPERVISED
    ]
    return _claim_test(
        "transfer-over-random",
        partial(evaluate_win_count, comparisons=comparisons, chance=1 / 2, stated=None),
        "In the paper's own table 2 it is so in 19 of 36.",
    )


def _table2_transfers() -> list[dict[str, Any]]:
    """Return the transfers of table 2."""
    return [{"source": a, "target": b, "protocol": "finetune"} for a, b in TRANSFERS]


def _table2_columns() -> list[dict[Method, Condition]]:
    """Return the methods of each column of table 2."""
    methods: tuple[Method, ...] = ("random", *SELF_SUPERVISED)
    return [{method: transfer_condition(method, **place) for method in methods} for place in _table2_transfers()]


def _transfer() -> list[ClaimTest]:
    column = _table2_columns()
    either = [MethodComparison((each["cmsc"], each["cmsmlc"]), (each["byol"], each["simclr"])) for each in column]
    below = [MethodComparison((each["cmsc"], each["cmsmlc"]), (each["cmlc"],), all_methods=True) for each in column]
    cardiology = [
        place for place in _table2_transfers() if (place["source"], place["target"]) == ("chapman", "cardiology")
    ]
    return [
        transfer_over_random(),
        _claim_test("transfer-either", partial(evaluate_win_count, comparisons=either, chance=1 / 2, stated=6)),
        _claim_test(
            "transfer-cardiology",
            _pairs(_method_pairs(["cmsmlc"], ["simclr"], cardiology)),
            "The paper's difference: 0.041.",
            "CMSMLC is above SimCLR, from Chapman to Cardiology.",
        ),
        _claim_test(
            "cmlc-below",
            partial(evaluate_win_count, comparisons=below, chance=1 / 3, stated=6),
            "Of three methods that are alike, any one is the lowest in a third of the experiments.",
        ),
        *_counts_of_24(),
    ]


def _counts_of_24() -> list[ClaimTest]:
    """Return the tests of the counts of appendix E.1: six transfers, four fractions, for each E."""
    found = []
    for claim in paper().claims:
        if claim.id.startswith("transfer-4-e") and claim.numbers[0].value is not None:
            embedding_dim, stated = int(claim.id.removeprefix("transfer-4-e")), int(claim.numbers[0].value)
            comparisons = [_clocs_against_simclr(embedding_dim, *place) for place in product(TRANSFERS, FRACTIONS)]
            evaluate = partial(evaluate_win_count, comparisons=comparisons, chance=3 / 4, stated=stated)
            says = f"CLOCS is above SimCLR in {stated} of {len(comparisons)} experiments at E = {embedding_dim}."
            found.append(_claim_test(claim.id, evaluate, CHANCE_OF_BEST, says))
    return found


def _clocs_against_simclr(embedding_dim: int, transfer: tuple[str, str], label_fraction: float) -> MethodComparison:
    """Return the comparison of the CLOCS methods with SimCLR."""
    values: dict[str, Any] = {"embedding_dim": embedding_dim, "label_fraction": label_fraction, "protocol": "finetune"}
    simclr, *clocs = (
        transfer_condition(method, source=transfer[0], target=transfer[1], **values) for method in ("simclr", *CLOCS)
    )
    return MethodComparison(tuple(clocs), (simclr,))


CHANCE_OF_BEST: Final = "Of four methods that are alike, the best of three is above the fourth in 3 of 4 experiments."


def _labels() -> list[ClaimTest]:
    panels = (("physionet2020", "cardiology"), ("chapman", "physionet2017"))
    fewer = [
        Pair(
            transfer_condition("cmsc", source=source, target=target, label_fraction=0.25, protocol="finetune"),
            transfer_condition("random", source=source, target=target, label_fraction=1.0, protocol="finetune"),
        )
        for source, target in panels
    ]
    usual: dict[str, Any] = {"source": "chapman", "target": "cardiology", "protocol": "finetune"}
    by_fraction = [{**usual, "embedding_dim": 64, "label_fraction": label_fraction} for label_fraction in FRACTIONS]
    longer = Pair(
        transfer_condition("cmsc", **usual, embedding_dim=128, label_fraction=0.25),
        transfer_condition("cmsc", **usual, embedding_dim=32, label_fraction=0.25),
    )
    methods: tuple[Method, ...] = ("random", "simclr", "cmsc", "cmlc", "cmsmlc")
    more = [
        Pair(transfer_condition(method, **by_fraction[-1]), transfer_condition(method, **by_fraction[0]))
        for method in methods
    ]
    return [
        _claim_test("less-labels", _pairs(fewer), "By test AUC; the paper shows validation AUC (figure 4)."),
        _claim_test("embedding-cmsc", _pairs([longer]), "The paper's difference: 0.030."),
        _claim_test(
            "label_fraction",
            _pairs(_method_pairs(["cmsmlc"], ["simclr"], [by_fraction[0], by_fraction[-1]])),
            "The paper's differences: 0.023 and 0.014.",
            "CMSMLC is above SimCLR at E = 64 with a quarter and with all of the labels, from Chapman to Cardiology.",
        ),
        _claim_test(
            "fraction-all",
            _pairs([*more, *_method_pairs(["cmsmlc"], ["random", "simclr", "cmsc", "cmlc"], by_fraction)]),
            "Five gains from F = 0.25 to 1, and CMSMLC against four others at four fractions.",
        ),
    ]


def _others() -> list[ClaimTest]:
    note = "On Chapman, all of CMSC's sets against all of SimCLR's; the paper: PhysioNet 2020, 0.661 against 0.636."
    every = [Pair(augmented("cmsc", first), augmented("simclr", second)) for first, second in product(SETS, SETS)]
    return [
        _claim_test("augmentations", _pairs(every), note),
        ClaimTest(
            "Distances within a patient are shorter than between patients after CMSC, and the two are further apart "
            "than after SimCLR.",
            "6.6",
            330,
            evaluate_distances,
            "On validation patients, by the chance that a distance between patients is the longer one. The difference "
            "is taken as of different patients: its interval is too wide if anything.",
        ),
    ]


def augmented(method: Method, names: tuple[str, ...]) -> Condition:
    """Return an experiment of figure 3. SimCLR with noise alone is its usual training."""
    usual = method == "simclr" and names == (AUGMENTATIONS[0],)
    values: dict[str, Any] = {} if usual else {"augmentations": names}
    return transfer_condition(method, source="chapman", target="chapman", **values)
