"""Validation of options reports all errors at once, with the valid names."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options, non_default_options, option_names, options_of, validate_model


class Some(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(default=1, gt=0)
    inner: dict[str, int] = Field(default_factory=dict)


class Numbers(BaseModel):
    whole: int | None = None
    part: float = 0.5
    switch: bool = False
    either: bool | int = 0


class NoOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")


def test_values_become_the_model() -> None:
    assert validate_model(Some, MappingProxyType({"size": "3"}), "thing") == Some(size=3)


def test_all_errors_are_reported_with_the_valid_options() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_model(Some, {"size": 0, "inner": {"a": "x"}, "seize": 2}, "thing 'it'")
    message = str(caught.value)
    assert message.startswith("thing 'it': size: ")
    for part in ("inner.a: ", "unknown option 'seize' (did you mean 'size'?)", "Its options: size, inner."):
        assert part in message
    with pytest.raises(ConfigError, match="Its options: none"):
        validate_model(NoOptions, {"a": 1}, "thing")


def test_booleans_are_not_numbers() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_model(Numbers, {"whole": True, "part": False}, "thing")
    assert "whole: must be a number, not true; part: must be a number, not false." in str(caught.value)
    assert validate_model(Numbers, {"switch": True, "either": True}, "thing") == Numbers(switch=True, either=True)
    with pytest.raises(ConfigError) as caught:
        validate_model(Some, {"size": False}, "thing")
    assert str(caught.value) == "thing: size: must be a number, not false.", "reported once"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "-inf"])
def test_numbers_are_finite(value: object) -> None:
    with pytest.raises(ConfigError, match="part: must be a finite number"):
        validate_model(Numbers, {"part": value}, "thing")


class Bare:
    """A class without a constructor of its own."""


class Part:
    """A class with options."""

    def __init__(  # type: ignore[no-untyped-def]
        self,
        encoder: object,
        width: Annotated[int, Field(gt=0)] = 4,
        sigma: float = 0.1,
        names: tuple[str, ...] = (),
        *,
        anything=None,
        **others: object,
    ) -> None: ...


def test_options_of_a_constructor_are_its_keyword_arguments() -> None:
    found = constructor_options(Part, {"width": "7", "names": ["a"]}, "part", exclude=("encoder",))
    assert found == {"width": 7, "sigma": 0.1, "names": ("a",), "anything": None}
    assert option_names(Part, exclude=["encoder"]) == ["width", "sigma", "names", "anything"]
    assert option_names(Part)[0] == "encoder"
    assert constructor_options(Bare, {}, "part") == {}


def test_all_invalid_options_of_a_constructor_are_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        constructor_options(
            Part, {"width": 0, "sigma": True, "widht": 2, "encoder": 1}, "part 'p'", exclude=("encoder",)
        )
    message = str(caught.value)
    assert message.startswith("part 'p': ")
    for part in ("width: ", "sigma: must be a number, not true", "unknown option 'widht' (did you mean 'width'?)"):
        assert part in message
    assert "unknown option 'encoder'" in message, "the caller passes it"
    with pytest.raises(ConfigError, match="part: encoder: Field required"):
        constructor_options(Part, {}, "part")


def test_only_options_that_differ_from_the_defaults_are_changed() -> None:
    exclude = ("encoder",)
    assert non_default_options(Part, {"width": 4, "sigma": 0.1, "names": []}, exclude=exclude) == {}
    assert non_default_options(Part, {"width": 5, "names": ["b"]}, exclude=exclude) == {"width": 5, "names": ("b",)}
    assert non_default_options(Part, {"encoder": 3}) == {"encoder": 3}, "without a default, every value counts"


class Unreadable:
    def __init__(self, size: Absent = 1) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_annotations_that_cannot_be_read_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"options of Unreadable cannot be read from its constructor: .*'Absent'"):
        constructor_options(Unreadable, {}, "part")


def test_an_option_that_is_not_an_attribute_is_named() -> None:
    class Forgetful:
        def __init__(self, width: int = 4, sigma: float = 0.1) -> None:
            self.width = width

    with pytest.raises(ConfigError, match=r"Forgetful .* Assign self\.sigma in its constructor"):
        options_of(Forgetful())
