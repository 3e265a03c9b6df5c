"""Options that came later are part of a name only where they are used."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from clocs.core.later import Later, later, without_unused


class First(BaseModel):
    size: int = 1


class Second(First):
    colour: Annotated[Literal["red", "blue"], Later()] = "red"
    depth: Annotated[int | None, Later()] = Field(default=None, gt=0)


class Third(Second):
    speed: float = 2.0
    heat: Annotated[float, Later()] = 0.5


def test_marked_options_are_found_with_their_defaults_and_those_of_a_base() -> None:
    assert later(First) == {}
    assert later(Second) == {"colour": "red", "depth": None}
    assert later(Third) == {"colour": "red", "depth": None, "heat": 0.5}


def test_what_is_not_used_is_left_out_and_all_else_stays() -> None:
    def named(model: BaseModel) -> dict[str, object]:
        return without_unused({"name": "it", **model.model_dump(mode="json")}, later(type(model)))

    assert named(First()) == {"name": "it", "size": 1}
    assert named(Second()) == {"name": "it", "size": 1}
    assert named(Second(colour="blue")) == {"name": "it", "size": 1, "colour": "blue"}
    assert named(Third(depth=3)) == {"name": "it", "size": 1, "depth": 3, "speed": 2.0}
