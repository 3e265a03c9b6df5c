"""One contract for every registered loss, and losses of a user's own."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from clocs import losses
from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options
from clocs.losses import LOSSES

NAMES = ["byol", "classification", "cpc", "decorrelation", "info_nce", "multi_task", "patient_nce", "vicreg"]


def inputs(name: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """Return arguments of a loss; the first one takes the gradient."""
    generator = torch.Generator().manual_seed(0)

    def floats(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    found: dict[str, tuple[Tensor, ...]] = {
        "byol": (floats(6, 4), floats(6, 4)),
        "classification": (floats(6, 4), torch.eye(4, dtype=torch.bool)[torch.arange(6) % 4]),
        "cpc": (floats(6, 2, 2, 4), floats(6, 5, 4), torch.arange(24).reshape(6, 2, 2) % 5),
        "decorrelation": (floats(6, 4),),
        "info_nce": (floats(6, 2, 4),),
        "multi_task": (floats(6, 4), torch.arange(24).reshape(6, 4) % 3 == 0),
        "patient_nce": (floats(6, 3, 4), torch.arange(6) // 2),
        "vicreg": (floats(6, 2, 4),),
    }
    first, *others = found[name]
    return first.requires_grad_(), *others


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_loss_is_registered_and_exported() -> None:
    assert set(LOSSES.names()) == set(NAMES)
    assert {LOSSES.get(name).__name__ for name in NAMES} <= set(losses.__all__)


def test_value_and_gradient_are_finite(name: str) -> None:
    given = inputs(name)
    value = LOSSES.get(name)()(*given)
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert value.isfinite()
    (gradient,) = torch.autograd.grad(value, given[0])
    assert gradient.isfinite().all()
    assert gradient.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("autocast", [False, True])
def test_half_types_are_computed_in_float32(name: str, dtype: torch.dtype, autocast: bool) -> None:
    loss, given = LOSSES.get(name)(), inputs(name, dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        value = loss(*given)
    (gradient,) = torch.autograd.grad(value, given[0])
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert gradient.isfinite().all()
    exact = loss(*(each.double() if each.is_floating_point() else each for each in given))
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)


def test_copies_compute_the_same(name: str) -> None:
    loss, given = LOSSES.get(name)(), inputs(name)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert torch.equal(other(*given), loss(*given))
        assert repr(other) == repr(loss)


def test_inputs_stay_as_they_are(name: str) -> None:
    given = inputs(name)
    before = [each.detach().clone() for each in given]
    torch.autograd.backward(LOSSES.get(name)()(*given))
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))


def test_options_are_the_constructors_arguments(name: str) -> None:
    kind = LOSSES.get(name)
    options = constructor_options(kind, {}, name)
    made = kind(**options)
    assert all(getattr(made, option) == value for option, value in options.items())
    assert not list(made.parameters())
    with pytest.raises(ConfigError, match="unknown option 'temprature'"):
        constructor_options(kind, {"temprature": 1.0}, name)


def test_a_loss_of_a_script_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_locations", "_parts"):
        monkeypatch.setattr(LOSSES, table, dict(getattr(LOSSES, table)))

    @losses.register("mine")
    class Mine(nn.Module):
        """Registered as a notebook does."""

    assert LOSSES.get("mine") is Mine
    with pytest.raises(ConfigError, match="patient_nce"):
        losses.register("patient_nce")(Mine)
