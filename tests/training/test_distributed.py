"""BatchNorm that spans ranks, without ranks: ``test_ranks.py`` has real ones. Decisions that ranks take together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from clocs.core.errors import IntegrityError
from clocs.training.distributed import GlobalBatchNorm, from_rank_zero, on_every_rank


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_statistics_and_type_are_those_of_torch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks that hold the same have the statistics of one; torch sums half types in float32."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lambda values: values.mul_(2))
    values = (0.5 + 0.1 * torch.randn(64, 6, 1, 500, generator=torch.Generator().manual_seed(0))).to(dtype)
    theirs, ours = nn.BatchNorm2d(6), GlobalBatchNorm(6)
    expected, found = theirs(values), ours(values)
    assert found.dtype == expected.dtype == dtype
    rounding = {torch.float32: 2e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}[dtype]  # a last bit of 4.9
    torch.testing.assert_close(found, expected, rtol=0, atol=rounding)
    mean, variance = _statistics(ours)
    torch.testing.assert_close(mean, _statistics(theirs)[0], rtol=1e-5, atol=0)
    unbiased = values.double().var((0, 2, 3), correction=0) * 64_000 / 63_999  # over both ranks, 2 x 64 x 500
    torch.testing.assert_close(variance.double(), 0.9 + 0.1 * unbiased, rtol=1e-6, atol=0)


def _statistics(norm: nn.Module) -> tuple[Tensor, Tensor]:
    return norm.get_buffer("running_mean"), norm.get_buffer("running_var")


def _fail_on(rank: int) -> None:
    if not dist.is_initialized() or dist.get_rank() == rank:
        raise IntegrityError("a.bin: damaged")


def _decide_together(rank: int, folder: str) -> None:
    """Return the common decisions of two ranks, and the errors that both raise."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    said = [str(from_rank_zero(lambda: f"of rank {rank}"))]
    on_every_rank(lambda: None)
    for failing in (0, 1):
        try:
            on_every_rank(lambda: _fail_on(failing))  # noqa: B023
        except IntegrityError as error:
            said.append(str(error))
    try:
        from_rank_zero(lambda: _fail_on(0))
    except IntegrityError as error:
        said.append(str(error))
    dist.barrier()
    dist.destroy_process_group()
    Path(folder, f"rank-{rank}").write_text("\n".join(said))


def test_ranks_decide_and_fail_together(tmp_path: Path) -> None:
    spawn(_decide_together, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    ours, theirs = ((tmp_path / f"rank-{rank}").read_text().splitlines() for rank in (0, 1))
    stops = [f"a.bin: damaged. Rank {rank} of 2 raised this, and all ranks stop." for rank in (0, 1)]
    assert ours == theirs == ["of rank 0", *stops, "a.bin: damaged"]


def test_a_single_rank_decides_and_fails() -> None:
    assert from_rank_zero(lambda: 7) == 7
    for together in (from_rank_zero, on_every_rank):
        with pytest.raises(IntegrityError, match=r"^a\.bin: damaged$"):
            together(lambda: _fail_on(0))
