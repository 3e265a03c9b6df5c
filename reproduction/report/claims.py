"""The paper's claims as tests on our results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from reproduction.cells import Level
from reproduction.experiments import AUGMENTATIONS, TRANSFERS
from reproduction.paper_numbers import SOURCES, Condition, Method, paper
from reproduction.report.claim_tests import Contest, Outcome, Pair, judge_count, judge_pairs
from reproduction.report.distances import judge_distances
from reproduction.report.estimates import Estimates
from reproduction.report.results import condition
from reproduction.report.tables_page import SELF_SUPERVISED

CLOCS: Final[tuple[Method, ...]] = ("cmsc", "cmlc", "cmsmlc")
RIVALS: Final[tuple[Method, ...]] = ("mtssl", "byol", "simclr")
FRACTIONS: Final = (0.25, 0.5, 0.75, 1.0)
SETS: Final = (*((name,) for name in AUGMENTATIONS), *((AUGMENTATIONS[0], name) for name in AUGMENTATIONS[1:]))
"""Of augmentations, in figure 3."""


@dataclass(frozen=True)
class Question:
    """A sentence of the paper, and how it is tested."""

    says: str
    section: str
    line: int
    """Of the paper's source."""
    judge: Callable[[Estimates, Level], Outcome]
    note: str = ""


def questions() -> tuple[Question, ...]:
    """Every claim that our results can speak to."""
    return (*linear_questions(), *_transfer(), *_labels(), *_others())


def _claimed(name: str, judge: Callable[[Estimates, Level], Outcome], note: str = "", says: str = "") -> Question:
    """A claim by its name in the paper's numbers; ``says``: in words that can be true or false, where those cannot."""
    (claim,) = (each for each in paper().claims if each.id == name)
    return Question(says or claim.says, claim.section, claim.line, judge, note)


def _pairs(pairs: Sequence[Pair]) -> Callable[[Estimates, Level], Outcome]:
    return partial(judge_pairs, pairs=tuple(pairs))


def _each_above(firsts: Sequence[Method], seconds: Sequence[Method], places: Sequence[dict[str, Any]]) -> list[Pair]:
    """All of the first methods against all of the second, at each place."""
    return [
        Pair(at(first, **place), at(second, **place)) for place in places for first, second in product(firsts, seconds)
    ]


def at(method: Method, *, source: str, target: str, **values: Any) -> Condition:
    """A method trained on one dataset and judged on another; random weights come from none."""
    return condition(method, target, None if method == "random" else source, **values)


def linear_questions() -> list[Question]:
    """About table 1."""
    places = [{"source": name, "target": name} for name in SOURCES]
    return [
        _claimed(
            "linear-chapman",
            _pairs(_each_above(["cmsc"], ["simclr"], places[:1])),
            "The paper's difference: 0.158.",
            "CMSC is above SimCLR on Chapman.",
        ),
        _claimed("linear-both", _pairs(_each_above(["cmsc"], ["byol", "simclr"], places))),
        _claimed(
            "linear-always",
            _pairs(_each_above(CLOCS, ["simclr"], places)),
            "Here with four leads at E = 128 and F = 0.5 alone. The paper's own tables contradict it for CMLC.",
        ),
        Question(
            "The CLOCS methods are above MT-SSL, BYOL and SimCLR in linear evaluation.",
            "7",
            333,
            _pairs(_each_above(CLOCS, RIVALS, places)),
            "The paper says so of BYOL and SimCLR; MT-SSL is in the same table.",
        ),
    ]


def transfer_over_random() -> Question:
    """Whether a pre-training is worth anything once all weights are trained on."""
    contests = [Contest((each[method],), (each["random"],)) for each in _columns() for method in SELF_SUPERVISED]
    return _claimed(
        "transfer-over-random",
        partial(judge_count, contests=contests, chance=1 / 2, stated=None),
        "In the paper's own table 2 it is so in 19 of 36.",
    )


def _places() -> list[dict[str, Any]]:
    """Of table 2."""
    return [{"source": a, "target": b, "protocol": "finetune"} for a, b in TRANSFERS]


def _columns() -> list[dict[Method, Condition]]:
    """Of table 2: the methods at each place."""
    methods: tuple[Method, ...] = ("random", *SELF_SUPERVISED)
    return [{method: at(method, **place) for method in methods} for place in _places()]


def _transfer() -> list[Question]:
    column = _columns()
    either = [Contest((each["cmsc"], each["cmsmlc"]), (each["byol"], each["simclr"])) for each in column]
    below = [Contest((each["cmsc"], each["cmsmlc"]), (each["cmlc"],), every=True) for each in column]
    cardiology = [place for place in _places() if (place["source"], place["target"]) == ("chapman", "cardiology")]
    return [
        transfer_over_random(),
        _claimed("transfer-either", partial(judge_count, contests=either, chance=1 / 2, stated=6)),
        _claimed(
            "transfer-cardiology",
            _pairs(_each_above(["cmsmlc"], ["simclr"], cardiology)),
            "The paper's difference: 0.041.",
            "CMSMLC is above SimCLR, from Chapman to Cardiology.",
        ),
        _claimed(
            "cmlc-below",
            partial(judge_count, contests=below, chance=1 / 3, stated=6),
            "Of three methods that are alike, any one is the lowest in a third of the experiments.",
        ),
        *_of_24(),
    ]


def _of_24() -> list[Question]:
    """The counts of appendix E.1: six transfers, four fractions, for each E."""
    found = []
    for claim in paper().claims:
        if claim.id.startswith("transfer-4-e") and claim.numbers[0].value is not None:
            embedding_dim, stated = int(claim.id.removeprefix("transfer-4-e")), int(claim.numbers[0].value)
            contests = [_family(embedding_dim, *place) for place in product(TRANSFERS, FRACTIONS)]
            judge = partial(judge_count, contests=contests, chance=3 / 4, stated=stated)
            says = f"CLOCS is above SimCLR in {stated} of {len(contests)} experiments at E = {embedding_dim}."
            found.append(_claimed(claim.id, judge, CHANCE_OF_BEST, says))
    return found


def _family(embedding_dim: int, transfer: tuple[str, str], label_fraction: float) -> Contest:
    """The best of CLOCS against SimCLR."""
    values: dict[str, Any] = {"embedding_dim": embedding_dim, "label_fraction": label_fraction, "protocol": "finetune"}
    simclr, *clocs = (at(method, source=transfer[0], target=transfer[1], **values) for method in ("simclr", *CLOCS))
    return Contest(tuple(clocs), (simclr,))


CHANCE_OF_BEST: Final = "Of four methods that are alike, the best of three is above the fourth in 3 of 4 experiments."


def _labels() -> list[Question]:
    panels = (("physionet2020", "cardiology"), ("chapman", "physionet2017"))
    fewer = [
        Pair(
            at("cmsc", source=source, target=target, label_fraction=0.25, protocol="finetune"),
            at("random", source=source, target=target, label_fraction=1.0, protocol="finetune"),
        )
        for source, target in panels
    ]
    usual: dict[str, Any] = {"source": "chapman", "target": "cardiology", "protocol": "finetune"}
    by_fraction = [{**usual, "embedding_dim": 64, "label_fraction": label_fraction} for label_fraction in FRACTIONS]
    longer = Pair(
        at("cmsc", **usual, embedding_dim=128, label_fraction=0.25),
        at("cmsc", **usual, embedding_dim=32, label_fraction=0.25),
    )
    methods: tuple[Method, ...] = ("random", "simclr", "cmsc", "cmlc", "cmsmlc")
    more = [Pair(at(method, **by_fraction[-1]), at(method, **by_fraction[0])) for method in methods]
    return [
        _claimed("less-labels", _pairs(fewer), "By test AUC; the paper shows validation AUC (figure 4)."),
        _claimed("embedding-cmsc", _pairs([longer]), "The paper's difference: 0.030."),
        _claimed(
            "label_fraction",
            _pairs(_each_above(["cmsmlc"], ["simclr"], [by_fraction[0], by_fraction[-1]])),
            "The paper's differences: 0.023 and 0.014.",
            "CMSMLC is above SimCLR at E = 64 with a quarter and with all of the labels, from Chapman to Cardiology.",
        ),
        _claimed(
            "fraction-all",
            _pairs([*more, *_each_above(["cmsmlc"], ["random", "simclr", "cmsc", "cmlc"], by_fraction)]),
            "Five gains from F = 0.25 to 1, and CMSMLC against four others at four fractions.",
        ),
    ]


def _others() -> list[Question]:
    note = "On Chapman, all of CMSC's sets against all of SimCLR's; the paper: PhysioNet 2020, 0.661 against 0.636."
    every = [Pair(augmented("cmsc", first), augmented("simclr", second)) for first, second in product(SETS, SETS)]
    return [
        _claimed("augmentations", _pairs(every), note),
        Question(
            "Distances within a patient are shorter than between patients after CMSC, and the two are further apart "
            "than after SimCLR.",
            "6.6",
            330,
            judge_distances,
            "On validation patients, by the chance that a distance between patients is the longer one. The difference "
            "is taken as of different patients: its interval is too wide if anything.",
        ),
    ]


def augmented(method: Method, names: tuple[str, ...]) -> Condition:
    """An experiment of figure 3. SimCLR with noise alone is how it is trained everywhere else."""
    usual = method == "simclr" and names == (AUGMENTATIONS[0],)
    values: dict[str, Any] = {} if usual else {"augmentations": names}
    return at(method, source="chapman", target="chapman", **values)
