"""Tasks: what is predicted from a recording. A dataset names its tasks, and a benchmark scores encoders on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TaskKind = Literal["multi-label", "multi-class", "binary", "regression"]
"""``multi-label``: any number of classes. ``multi-class``: exactly one. ``binary``: one class or not. ``regression``: a
number."""


class Task(BaseModel):
    """Classes or a number to predict from a recording.

    Values come from a column of the store. A recording takes part unless

    - its column is empty (for ``labels`` and ``episodes``, an empty list is no label, not an empty column),
    - it has none of the classes, and ``keep_others`` is false, or
    - it has several classes of a multi-class task.

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
    """Column of the store with the values: ``labels``, ``episodes`` (labels of parts of a recording), ``age``, ``sex``
    or an extra column."""
    classes: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Values of each class. A recording has a class if it has any of these values. Empty for a regression."""
    keep_others: bool = False
    """True: a recording with none of the classes is a negative. False: it is left out of the task. Do not use it where
    recordings without labels were never labelled."""

    @model_validator(mode="after")
    def _has_classes(self) -> Self:
        if self.kind == "regression":
            if self.classes or self.column in ("labels", "episodes"):
                raise ValueError("a regression needs a column of numbers and no classes")
        elif self.kind == "binary":
            if len(self.classes) != 1:
                raise ValueError(f"a binary task needs one class, its positive one, not {len(self.classes)}")
            if not self.keep_others:
                raise ValueError("a binary task needs keep_others=True, because the others are its negatives")
        elif len(self.classes) < 2:
            raise ValueError(f"a {self.kind} task needs at least two classes, not {len(self.classes)}")
        if self.kind == "multi-class" and self.keep_others:
            raise ValueError("a multi-class task has no negatives. Name the others as a class, or drop keep_others")
        return self


AGE: Final = Task(title="Age in years", kind="regression", column="age")
"""Task of the age, for datasets that give it."""
SEX: Final = Task(title="Sex", kind="binary", column="sex", classes={"female": ("female",)}, keep_others=True)
"""Task of the sex, for datasets that give it."""


def user_tasks(classes: Mapping[str, tuple[str, ...]], tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return the tasks of a user's own data.

    Args:
        classes: Classes of the user. They become the task ``classes``, in which recordings without any are negatives.
        tasks: Tasks of the user by name.

    Returns:
        Tasks by name.
    """
    kind: TaskKind = "binary" if len(classes) == 1 else "multi-label"
    own = (
        {"classes": Task(title="Classes of the store", kind=kind, classes=classes, keep_others=True)} if classes else {}
    )
    return {**own, **tasks}


def read_tasks(path: Path) -> Any:
    """Read a YAML or JSON file of tasks by name.

    Raises:
        ValueError: The file cannot be read.
    """
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: cannot be read as tasks: {error}") from error
