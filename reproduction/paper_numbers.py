"""The paper's numbers as data: results, counts, settings and claims, each with its location in the paper.

They are stored in ``paper_numbers.json``, a row for each cell of a table. Line numbers are of the LaTeX source; tables
and sections have their printed numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Annotated, Literal, Self, TypeVar

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


class Result(_Frozen):
    """A table cell with a test AUC: mean and standard deviation over seeds."""

    protocol: Protocol
    method: Method
    pretraining: DatasetName | None
    """Dataset of pre-training. None: random weights."""
    evaluation: DatasetName
    embedding_dim: int
    label_fraction: float = Field(gt=0, le=1)
    """Fraction of the labelled training data."""
    leads: Literal[1, 4, 12]
    """Number of leads of datasets with several leads."""
    decay: float | None = None
    """Decay of BYOL's target network."""
    augmentations: tuple[str, ...] | None
    """Augmentations in order, by their names in this package; for MT-SSL, its tasks. None: not stated."""
    table: int
    part: Literal["", "a", "b", "c", "d"]
    line: int
    column: int
    """Column number from 1, without the column of methods."""
    value: float = Field(ge=0, le=1)
    deviation: float = Field(ge=0)
    printed: str
    bold: bool
    """True if the paper marks it as the best self-supervised method of a column."""
    note: str

    @model_validator(mode="after")
    def _agrees_with_printed(self) -> Self:
        if not re.fullmatch(r"0\.\d+ ± 0\.\d+", self.printed):
            raise ValueError(f"'{self.printed}' is not mean ± deviation")
        if tuple(map(float, self.printed.split(" ± "))) != (self.value, self.deviation):
            raise ValueError(f"{self.value} and {self.deviation} are not '{self.printed}'")
        return self


class Count(_Frozen):
    """A cell of tables 3 and 4, which describe the data."""

    table: int
    line: int
    column: int
    quantity: Literal["instances", "patients"]
    dataset: DatasetName
    split: Literal["train", "validation", "test"]
    method: Method | None
    """Method. None: training on the downstream task."""
    form: Literal["", "S", "2S", "S x L", "2S x L"]
    """Shape of an instance: samples, and leads if there are several."""
    value: int = Field(gt=0)
    printed: str


Value = int | float | str


class Setting(_Frozen):
    """An option that the paper states, in a table or in its text."""

    subject: str
    """Part that it applies to: a dataset, a method, a layer, ``encoder``, or ``all``."""
    name: str
    value: Value | tuple[Value, ...]
    printed: str
    """Text of the LaTeX source."""
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


class StatedNumber(_Frozen):
    """A number of a claim, and the same number in the tables."""

    what: str
    printed: str
    """Text of the LaTeX source."""
    value: float | None
    """Value in the sentence. None: the sentence has no number."""
    relation: Literal["equal", "at least"] = "equal"
    within: float = 0.0
    """Tolerance for rounding."""
    found: tuple[float, ...] = ()
    """Values in the tables. Empty: no table has them."""
    where: tuple[dict[str, Value], ...] = ()
    """Filters of results: one for their values, two for the difference of the first from the second in points."""

    @property
    def holds(self) -> bool | None:
        """True if the tables confirm it. None: they do not have it."""
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
    numbers: tuple[StatedNumber, ...]
    note: str

    @property
    def holds(self) -> bool | None:
        """True if the tables confirm all of its numbers. None: they have none of them."""
        known = [number.holds for number in self.numbers if number.holds is not None]
        return all(known) if known else None


def _rows(given: object) -> object:
    """Convert columns and rows to a mapping for each row."""
    if isinstance(given, Mapping) and given.keys() == {"columns", "rows"}:
        return [dict(zip(given["columns"], row, strict=True)) for row in given["rows"]]
    return given


class Paper(_Frozen):
    """The content of ``paper_numbers.json``."""

    title: str
    reference: str
    seeds: int
    """Number of seeds of every mean."""
    tables: tuple[Table, ...]
    results: Annotated[tuple[Result, ...], BeforeValidator(_rows)]
    counts: Annotated[tuple[Count, ...], BeforeValidator(_rows)]
    settings: tuple[Setting, ...]
    claims: tuple[Claim, ...]


@lru_cache(maxsize=1)
def paper() -> Paper:
    """Read the file, once."""
    raw = (resources.files("reproduction") / "paper_numbers.json").read_text(encoding="utf-8")
    return Paper.model_validate_json(raw)


def results(**where: object) -> tuple[Result, ...]:
    """Return results by field values, such as ``results(table=9, method="cmsc", label_fraction=0.25)``."""
    return _matching(Result, paper().results, where)


def counts(**where: object) -> tuple[Count, ...]:
    """Return counts of instances and patients by field values."""
    return _matching(Count, paper().counts, where)


def settings(**where: object) -> tuple[Setting, ...]:
    """Return settings by field values, such as ``settings(subject="chapman", name="batch")``."""
    return _matching(Setting, paper().settings, where)


Row = TypeVar("Row", Result, Count, Setting)


def _matching(kind: type[Row], rows: tuple[Row, ...], where: Mapping[str, object]) -> tuple[Row, ...]:
    unknown = sorted(where.keys() - kind.model_fields.keys())
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: no field of a {kind.__name__}; it has {', '.join(kind.model_fields)}")
    return tuple(row for row in rows if all(getattr(row, name) == value for name, value in where.items()))
