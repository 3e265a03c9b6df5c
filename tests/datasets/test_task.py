import pytest
from pydantic import ValidationError

from clocs.datasets.task import Task


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "regression"}, "needs a column of numbers"),
        ({"kind": "regression", "column": "age", "classes": {"A": ("a",)}}, "and no classes"),
        ({"kind": "binary", "classes": {"A": ("a",), "B": ("b",)}}, "needs one class, its positive one, not 2"),
        ({"kind": "multi-label", "classes": {"A": ("a",)}}, "needs at least two classes, not 1"),
        ({"kind": "multi-class"}, "needs at least two classes, not 0"),
        ({"kind": "ordinal", "classes": {"A": ("a",)}}, "multi-label"),
    ],
)
def test_a_task_that_cannot_be_scored_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Task.model_validate({"title": "made up", **values})


def test_a_task_survives_json() -> None:
    task = Task(title="Sex", kind="binary", column="sex", classes={"female": ("female",)}, keep_others=True)
    assert Task.model_validate_json(task.model_dump_json()) == task
