"""The paper's numbers as data, each with its place: results, counts, settings, figures, claims.

They stand in ``paper_numbers.json``, a row for each cell of a table. A line is one of the LaTeX source; tables,
figures and sections have the numbers that the source gives them when it is set. Figures are images, so only their
conditions are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from clocs.core.errors import ConfigError

Protocol = Literal["linear", "finetune"]
Method = Literal["random", "supervised", "mtssl", "byol", "simclr", "cmsc", "cmlc", "cmsmlc"]
DatasetName = Literal["chapman", "physionet2020", "physionet2017", "cardiology"]

SOURCES = ("chapman", "physionet2020")
"""Datasets that the paper pre-trains on."""
SINGLE_LEAD = frozenset({"physionet2017", "cardiology"})


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PretrainingCondition(_Frozen):
    """What tells one pre-training from another, but for its seed."""

    method: Method
    dataset: DatasetName
    embedding_dim: int
    leads: Literal[4, 12]
    decay: float | None
    augmentations: tuple[str, ...] | None


class _Varied(_Frozen):
    """What the paper varies."""

    protocol: Protocol
    method: Method
    pretraining: DatasetName | None
    """None with random weights."""
    evaluation: DatasetName
    embedding_dim: int
    label_fraction: float = Field(gt=0, le=1)
    """Of the labelled training data."""
    leads: Literal[1, 4, 12]
    """Of the datasets that have several."""
    decay: float | None = None
    """BYOL's, of its delayed copy."""
    augmentations: tuple[str, ...] | None
    """In order, by this package's names; of MT-SSL, its tasks. None: the paper does not say which."""


class Condition(_Varied):
    """What tells one evaluation from another, but for its seed.

    ``leads`` is 1 where no dataset with several takes part: random weights on a single-lead dataset. Tables for
    4 and for 12 leads print these again.
    """

    @property
    def pretrained(self) -> PretrainingCondition | None:
        """The pre-training it needs; None with random weights."""
        if self.pretraining is None or self.leads == 1:
            return None
        return PretrainingCondition(
            method=self.method,
            dataset=self.pretraining,
            embedding_dim=self.embedding_dim,
            leads=self.leads,
            decay=self.decay,
            augmentations=self.augmentations,
        )


class Result(_Varied):
    """A cell that holds a test AUC: the mean over seeds and its standard deviation."""

    table: int
    part: Literal["", "a", "b", "c", "d"]
    line: int
    column: int
    """From 1, without that of the methods."""
    value: float = Field(ge=0, le=1)
    deviation: float = Field(ge=0)
    printed: str
    bold: bool
    """The paper's mark of the best method of a column, random weights and supervision left aside."""
    note: str

    @model_validator(mode="after")
    def _is_what_is_printed(self) -> Self:
        if not re.fullmatch(r"0\.\d+ ± 0\.\d+", self.printed):
            raise ValueError(f"'{self.printed}' is not mean ± deviation")
        if tuple(map(float, self.printed.split(" ± "))) != (self.value, self.deviation):
            raise ValueError(f"{self.value} and {self.deviation} are not '{self.printed}'")
        return self

    @property
    def condition(self) -> Condition:
        """What was done to get it."""
        return _condition({name: getattr(self, name) for name in _Varied.model_fields})


class Count(_Frozen):
    """A cell of the tables of data, 3 and 4."""

    table: int
    line: int
    column: int
    quantity: Literal["instances", "patients"]
    dataset: DatasetName
    split: Literal["train", "validation", "test"]
    method: Method | None
    """None: training on the downstream task."""
    form: Literal["", "S", "2S", "S x L", "2S x L"]
    """Of one instance: samples, and leads where it has several."""
    value: int = Field(gt=0)
    printed: str


Value = int | float | str


class Setting(_Frozen):
    """An option the paper states, in a table or in its text."""

    subject: str
    """What it applies to: a dataset, a method, a layer, ``encoder``, or ``all``."""
    name: str
    value: Value | tuple[Value, ...]
    printed: str
    """As in the source."""
    section: str
    line: int
    table: int | None
    note: str


class Table(_Frozen):
    """A table of the paper."""

    number: int
    label: str
    """Two labels are used twice."""
    section: str
    line: int
    last_line: int
    quantity: str
    shows: str
    note: str


class Panel(_Frozen):
    """A part of a figure: every combination of these values is in it. What is missing, the paper does not say."""

    part: str
    varies: dict[str, tuple[Any, ...]]

    def conditions(self) -> Iterator[Condition]:
        """None where a panel shows no evaluation, or the paper does not say enough."""
        needed = {name for name, field in _Varied.model_fields.items() if field.is_required()}
        if needed <= self.varies.keys():
            for values in product(*self.varies.values()):
                yield _condition(dict(zip(self.varies, values, strict=True)))


class Figure(_Frozen):
    """A figure of the paper, without its numbers."""

    number: int
    label: str
    section: str
    line: int
    quantity: str
    """Empty: it shows no results."""
    shows: str
    panels: tuple[Panel, ...]
    note: str


class Stated(_Frozen):
    """One number of a claim, and the same number from the tables."""

    what: str
    printed: str
    """As in the source."""
    value: float | None
    """What the sentence says; None: nothing countable."""
    relation: Literal["equal", "at least"] = "equal"
    within: float = 0.0
    """What rounding explains."""
    found: tuple[float, ...] = ()
    """What the tables say; empty: it is printed nowhere."""
    where: tuple[dict[str, Value], ...] = ()
    """Which results: one choice for their values, two for the difference of one from another in points."""

    @property
    def holds(self) -> bool | None:
        """Whether the tables bear it out; None: they cannot tell."""
        stated, slack = self.value, self.within + 1e-9
        if stated is None or not self.found:
            return None
        if self.relation == "at least":
            return all(found >= stated - slack for found in self.found)
        return all(abs(found - stated) <= slack for found in self.found)


class Claim(_Frozen):
    """A sentence of the paper that states, or implies, a number."""

    id: str
    section: str
    """Empty: the abstract."""
    line: int
    says: str
    numbers: tuple[Stated, ...]
    note: str

    @property
    def holds(self) -> bool | None:
        """False where a number is contradicted by the tables; None where they tell of no number."""
        known = [number.holds for number in self.numbers if number.holds is not None]
        return all(known) if known else None


def _rows(given: object) -> object:
    """Rows under one list of columns, to a mapping a row."""
    if isinstance(given, Mapping) and given.keys() == {"columns", "rows"}:
        return [dict(zip(given["columns"], row, strict=True)) for row in given["rows"]]
    return given


class Paper(_Frozen):
    """All of ``paper_numbers.json``."""

    title: str
    reference: str
    seeds: int
    """Of every mean."""
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    results: Annotated[tuple[Result, ...], BeforeValidator(_rows)]
    counts: Annotated[tuple[Count, ...], BeforeValidator(_rows)]
    settings: tuple[Setting, ...]
    claims: tuple[Claim, ...]


Number = Result | Count | Setting


@lru_cache(maxsize=1)
def paper() -> Paper:
    """The file, read once."""
    raw = (resources.files("reproduction") / "paper_numbers.json").read_text(encoding="utf-8")
    return Paper.model_validate_json(raw)


def paper_numbers(table: int | None = None) -> tuple[Number, ...]:
    """Every number of one table, or of all tables with the settings that the text states."""
    known = paper()
    if table is not None and table not in {each.number for each in known.tables}:
        raise ConfigError(f"the paper has no table {table}; its tables are 1 to {len(known.tables)}")
    every: tuple[Number, ...] = (*known.results, *known.counts, *known.settings)
    return tuple(number for number in every if table is None or number.table == table)


def results(**where: object) -> tuple[Result, ...]:
    """Results whose fields have these values, such as ``results(table=9, method="cmsc", fraction=0.25)``."""
    return _matching(Result, paper().results, where)


def results_of(condition: Condition) -> tuple[Result, ...]:
    """Every cell with this condition: the paper prints some up to six times, with the same value."""
    return _results_by_condition().get(condition, ())


def counts(**where: object) -> tuple[Count, ...]:
    """Counts of instances and patients whose fields have these values."""
    return _matching(Count, paper().counts, where)


def settings(**where: object) -> tuple[Setting, ...]:
    """Settings whose fields have these values, such as ``settings(subject="chapman", name="batch")``."""
    return _matching(Setting, paper().settings, where)


def _condition(fields: Mapping[str, Any]) -> Condition:
    """Random weights come from no dataset, and know no leads but those of what they are evaluated on."""
    values = dict(fields)
    if values["method"] == "random":
        values["pretraining"] = None
        values["leads"] = 1 if values["evaluation"] in SINGLE_LEAD else values["leads"]
    return Condition.model_validate(values)


@lru_cache(maxsize=1)
def _results_by_condition() -> dict[Condition, tuple[Result, ...]]:
    found: dict[Condition, tuple[Result, ...]] = {}
    for result in paper().results:
        found[result.condition] = (*found.get(result.condition, ()), result)
    return found


Row = TypeVar("Row", Result, Count, Setting)


def _matching(kind: type[Row], rows: tuple[Row, ...], where: Mapping[str, object]) -> tuple[Row, ...]:
    unknown = sorted(where.keys() - kind.model_fields.keys())
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: no field of a {kind.__name__}; it has {', '.join(kind.model_fields)}")
    return tuple(row for row in rows if all(getattr(row, name) == value for name, value in where.items()))
