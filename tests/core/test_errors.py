"""All errors have one base class and can be pickled by worker processes."""

from __future__ import annotations

import pickle

import pytest

from clocs.core import errors
from clocs.core.errors import ClocsError, MissingExtraError

ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, ClocsError)]


@pytest.mark.parametrize("kind", ALL)
def test_an_error_is_the_same_after_pickling(kind: type[ClocsError]) -> None:
    raised = kind("ray", "the engine") if kind is MissingExtraError else kind("message")
    back = pickle.loads(pickle.dumps(raised))
    assert type(back) is kind
    assert str(back) == str(raised)


def test_the_error_for_a_missing_extra_has_the_install_command() -> None:
    assert "pip install 'clocs[ray]'" in str(MissingExtraError("ray", "the engine"))
