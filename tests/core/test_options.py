"""Options: everything wrong is said at once, with what there is."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.errors import ConfigError
from clocs.core.options import checked


class Some(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(default=1, gt=0)
    inner: dict[str, int] = Field(default_factory=dict)


class Numbers(BaseModel):
    whole: int | None = None
    part: float = 0.5
    switch: bool = False
    either: bool | int = 0


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


def test_values_become_the_model() -> None:
    assert checked(Some, MappingProxyType({"size": "3"}), "thing") == Some(size=3)


def test_all_mistakes_are_said_with_the_options_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Some, {"size": 0, "inner": {"a": "x"}, "seize": 2}, "thing 'it'")
    message = str(caught.value)
    assert message.startswith("thing 'it': size: ")
    for part in ("inner.a: ", "unknown option 'seize' (did you mean 'size'?)", "Its options: size, inner."):
        assert part in message
    with pytest.raises(ConfigError, match="Its options: none"):
        checked(Nothing, {"a": 1}, "thing")


def test_true_and_false_are_no_numbers() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Numbers, {"whole": True, "part": False}, "thing")
    assert "whole: must be a number, not true; part: must be a number, not false." in str(caught.value)
    assert checked(Numbers, {"switch": True, "either": True}, "thing") == Numbers(switch=True, either=True)
    with pytest.raises(ConfigError) as caught:
        checked(Some, {"size": False}, "thing")
    assert str(caught.value) == "thing: size: must be a number, not false.", "said once"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "-inf"])
def test_numbers_are_finite(value: object) -> None:
    with pytest.raises(ConfigError, match="part: must be a finite number"):
        checked(Numbers, {"part": value}, "thing")
