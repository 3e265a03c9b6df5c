import pytest
from pydantic import ValidationError

from clocs.datasets import DATASETS
from clocs.datasets.task import Task, user_tasks


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "regression"}, "needs a column of numbers"),
        ({"kind": "regression", "column": "age", "classes": {"A": ("a",)}}, "and no classes"),
        ({"kind": "binary", "classes": {"A": ("a",), "B": ("b",)}}, "needs one class, its positive one, not 2"),
        ({"kind": "regression", "column": "episodes"}, "needs a column of numbers"),
        ({"kind": "binary", "classes": {"A": ("a",)}}, "needs keep_others=True"),
        ({"kind": "multi-class", "classes": {"A": ("a",), "B": ("b",)}, "keep_others": True}, "has no negatives"),
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


def test_classes_of_a_user_make_a_task_that_keeps_the_others() -> None:
    assert user_tasks({}, {}) == {}
    assert user_tasks({"AF": ("AFIB", "AFL")}, {})["classes"].kind == "binary"
    several = user_tasks({"AF": ("AFIB",), "SR": ("SR",)}, {})["classes"]
    assert (several.kind, several.keep_others) == ("multi-label", True)
    assert user_tasks({"AF": ("AFIB",)}, {"classes": several})["classes"] == several


@pytest.mark.parametrize("name", DATASETS.names())
def test_classes_of_a_task_are_disjoint_and_none_is_empty(name: str) -> None:
    """A value in two classes would give a recording both, which no published task means."""
    for task in DATASETS.get(name).tasks.values():
        values = [value for group in task.classes.values() for value in group]
        assert len(values) == len(set(values))
        assert all(task.classes.values())
