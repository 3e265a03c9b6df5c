"""The store and the run that evaluations are tested with."""

from tests.evaluation.conftest import store as store
from tests.evaluation.conftest import trained as trained
