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


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


def test_values_become_the_model() -> None:
    assert checked(Some, MappingProxyType({"size": "3"}), "thing") == Some(size=3)


def test_all_mistakes_are_said_with_the_options_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Some, {"size": 0, "inner": {"a": "x"}, "seize": 2}, "thing 'it'")
    message = str(caught.value)
    assert message.startswith("thing 'it': size: ")
    for part in ("inner.a: ", "seize: ", "Its options: size, inner."):
        assert part in message
    with pytest.raises(ConfigError, match="Its options: none"):
        checked(Nothing, {"a": 1}, "thing")
