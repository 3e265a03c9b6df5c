"""Benchmark of implementations of the paper's encoder on a CPU: one training step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import torch
from measuring import in_turns, ratios, seconds
from torch import Tensor, nn
from torch.nn.functional import dropout, max_pool1d

from clocs.encoders.cnn import CNN, KERNEL, POOL, STRIDE, WIDTHS

VIEWS, SAMPLES, ROUNDS, STEPS = 512, 2500, 9, 3
Form = Callable[[Tensor], Tensor]


class Layers(nn.Module):
    """The encoder by layers of torch."""

    def __init__(self) -> None:
        super().__init__()
        channels = (1, *WIDTHS)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inside, outside, KERNEL, STRIDE, bias=False)
            for inside, outside in zip(channels, WIDTHS, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in WIDTHS)
        self.linear = nn.Linear(320, 128)

    def convolve(self, place: int, hidden: Tensor) -> Tensor:
        """(N, C, L) -> (N, C', L')."""
        out: Tensor = self.convolutions[place](hidden)
        return out

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, 1, S) -> (N, E)."""
        for place, norm in enumerate(self.norms):
            hidden = dropout(max_pool1d(torch.relu(norm(self.convolve(place, hidden))), POOL), 0.1)
        return torch.relu(self.linear(hidden.flatten(1)))


class ChannelsLast(Layers):
    """The encoder by two-dimensional convolutions, channels last in memory."""

    def convolve(self, place: int, hidden: Tensor) -> Tensor:
        """(N, C, L) -> (N, C', L')."""
        weight = self.convolutions[place].weight
        assert isinstance(weight, Tensor)
        flat = hidden.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        return torch.nn.functional.conv2d(flat, weight.unsqueeze(2), stride=(1, STRIDE)).squeeze(2)


class UnfoldMatmul(Layers):
    """The encoder by matrix products of unfolded windows."""

    def convolve(self, place: int, hidden: Tensor) -> Tensor:
        """(N, C, L) -> (N, C', L')."""
        weight = self.convolutions[place].weight
        assert isinstance(weight, Tensor)
        windows = hidden.unfold(2, KERNEL, STRIDE).transpose(1, 2).flatten(2)
        return (windows @ weight.flatten(1).T).transpose(1, 2)


class PoolFirst(Layers):
    """The encoder with ReLU after pooling, on half as many values."""

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, 1, S) -> (N, E)."""
        for place, norm in enumerate(self.norms):
            hidden = dropout(torch.relu(max_pool1d(norm(self.convolve(place, hidden)), POOL)), 0.1)
        return torch.relu(self.linear(hidden.flatten(1)))


def forms() -> Iterator[tuple[str, nn.Module]]:
    """Iterate over the implementations by name."""
    yield "torch's layers, optimizer not fused", Layers()
    yield "torch's layers", Layers()
    yield "torch's layers under bf16 autocast", Layers()
    yield "ReLU after pooling", PoolFirst()
    yield "2-D convolutions, channels last", ChannelsLast()
    yield "unfold + matmul", UnfoldMatmul()
    compiled = Layers()
    compiled.compile()
    yield "torch.compile of torch's layers", compiled
    yield "fused blocks (`cnn`)", CNN()


def encoder_forms() -> None:
    """Measure frames per second of each implementation with one and two threads, in turns."""
    signals = torch.randn(VIEWS, 1, SAMPLES)
    table: dict[str, list[tuple[float, float]]] = {}
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        steps = {name: _steps(name, module, signals) for name, module in forms()}
        taken = in_turns(steps, ROUNDS, seconds)
        for name, times in taken.items():
            ratio = statistics.median(ratios(taken["torch's layers"], times))
            table.setdefault(name, []).append((VIEWS * STEPS / statistics.median(times), ratio))
    torch.set_num_threads(before)
    print("| form | one thread, frames/s | against torch's layers | two threads, frames/s | against torch's layers |")
    print("|---|---|---|---|---|")
    for name, cells in table.items():
        print(f"| {name} | " + " | ".join(f"{speed:,.0f} | {ratio:.2f} x" for speed, ratio in cells) + " |")


def _steps(name: str, module: nn.Module, signals: Tensor) -> Callable[[], None]:
    """Return a function that trains some steps."""
    optimizer = torch.optim.Adam(module.parameters(), 1e-4, fused="not fused" not in name)

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in name):
                loss = module(signals).float().square().mean()
            loss.backward()
            optimizer.step()

    return steps
