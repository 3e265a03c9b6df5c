"""Fixtures of the evaluation tests."""

from tests.evaluation.conftest import store as store
from tests.evaluation.conftest import trained as trained
