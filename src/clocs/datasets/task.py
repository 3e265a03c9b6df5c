"""Tasks: what is predicted from a recording. A dataset names its tasks, and a benchmark scores encoders on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TaskKind = Literal["multi-label", "multi-class", "binary", "regression"]
"""``multi-label``: any number of classes. ``multi-class``: exactly one. ``binary``: one class or not. ``regression``: a
number."""


class Task(BaseModel):
    """Classes or a number to predict from a recording.

    Values come from a column of the store: ``labels``, ``age``, ``sex`` or an extra column. A recording with several
    classes of a multi-class task is left out, as is one without a value.

    Example:
        >>> task = Task(title="Atrial fibrillation", kind="binary", classes={"AF": ("AFIB", "AFL")}, keep_others=True)
        >>> task.column
        'labels'
        >>> Task(title="Age in years", kind="regression", column="age").classes
        {}
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    """Description in one line."""
    kind: TaskKind
    """Kind of the task."""
    column: str = "labels"
    """Column of the store with the values: ``labels``, ``age``, ``sex`` or an extra column."""
    classes: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Values of each class. A recording has a class if it has any of these values. Empty for a regression."""
    keep_others: bool = False
    """True: a recording with none of the classes is a negative. False: it is left out of the task."""

    @model_validator(mode="after")
    def _has_classes(self) -> Self:
        if self.kind == "regression":
            if self.classes or self.column == "labels":
                raise ValueError("a regression needs a column of numbers and no classes")
        elif self.kind == "binary":
            if len(self.classes) != 1:
                raise ValueError(f"a binary task needs one class, its positive one, not {len(self.classes)}")
        elif len(self.classes) < 2:
            raise ValueError(f"a {self.kind} task needs at least two classes, not {len(self.classes)}")
        return self
