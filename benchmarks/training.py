"""Benchmarks of training: the loop against a bare and a naive one, and the cost of larger batches."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoder_forms import Layers
from lightning_fabric import Fabric
from measuring import DATA, ROOT, in_child, in_turns, line, memory_of_this_process, ratios, scratch, seconds
from scipy.optimize import nnls
from torch import Tensor

import clocs
from clocs.encoders import ResNet
from clocs.losses import PatientNCELoss
from clocs.methods import CMSC
from clocs.training.batches import Batches
from clocs.training.config_resolution import resolve_config
from clocs.training.data import build_training_data, open_training_stores
from clocs.training.initialization import build_initial_encoder, build_initial_method
from clocs.training.loop import Loop
from clocs.training.runs import Run
from clocs.training.state import TrainingState

BATCH, STEPS, ROUNDS = 256, 20, 11
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
PICTURE = ROOT / "docs" / "images" / "batch-size.png"


def training_speed() -> None:
    """Measure views per second of CMSC on Chapman with one thread, for three loops in turns."""
    torch.set_num_threads(1)
    with scratch() as folder:
        loop = chapman_loop(folder)
        items = [loop.data.sampler.batch(0, step) for step in range(STEPS)]
        batches = [loop.data.train.make(part, 0, "bench", step) for step, part in enumerate(items)]
        names = [[f"patient {number}" for number in batch["patient"].tolist()] for batch in batches]
        ways = {
            "clocs": run_steps(loop),
            "bare": _bare([(batch["views"], batch["patient"]) for batch in batches], loop),
            "naive": _naive([batch["views"] for batch in batches], names),
        }
        taken = in_turns(ways, ROUNDS, seconds)
    for name, times in taken.items():
        print(f"  {name}: {2 * BATCH * STEPS / statistics.median(times):,.0f} frames/s")
    for other, least in (("bare", 0.8), ("naive", 1.3)):
        found = ratios(taken[other], taken["clocs"])
        line(f"training from the store / {other} loop in memory", found, least, unit="x")


def chapman_loop(folder: Path) -> Loop:
    """Return the loop of ``clocs pretrain cmsc-chapman``."""
    store = clocs.ingest("chapman", DATA / "chapman.zip", folder / "store", workers=2)
    clocs.split(store)
    config = resolve_config("cmsc-chapman", [f"store={folder / 'store'}", f"max_steps={STEPS}"])
    parts = open_training_stores(config)
    method = build_initial_method(config, parts)
    data = build_training_data(config, method, parts)
    run = Run(folder / "runs", "bench", {}, {})
    run.begin()
    fabric = Fabric(accelerator="cpu", devices=1)
    return Loop(config, method, data, run, fabric)


def run_steps(loop: Loop) -> Callable[[], None]:
    """Return a function that trains a part of an epoch, from the store to the optimizer step."""

    def steps() -> None:
        loop.state = TrainingState()
        loop.epoch_steps(None)

    return steps


def _bare(batches: list[tuple[Tensor, Tensor]], loop: Loop) -> Callable[[], None]:
    """Return a function that trains the same model and loss on tensors in memory."""
    encoder = build_initial_encoder(loop.config, open_training_stores(loop.config)[0].policy)
    optimizer = torch.optim.Adam(encoder.parameters(), 1e-4, fused=True)

    def steps() -> None:
        for views, patients in batches:
            optimizer.zero_grad(set_to_none=True)
            embeddings = encoder(views.flatten(0, 1)).unflatten(0, views.shape[:2])
            PatientNCELoss()(embeddings, patients).backward()
            optimizer.step()

    return steps


def _naive(batches: list[Tensor], names: list[list[str]]) -> Callable[[], None]:
    """Return a function that trains naively: torch layers, one pass a view, and patients as strings."""
    encoder = Layers()
    optimizer = torch.optim.Adam(encoder.parameters(), 1e-4)

    def loss(first: Tensor, second: Tensor, patients: list[str]) -> Tensor:
        same = torch.tensor([[one == other for other in patients] for one in patients])
        norms = first.norm(dim=1)[:, None] * second.norm(dim=1)[None]
        similarities = torch.exp(first @ second.T / norms.clamp_min(1e-12) / 0.1)
        total = first.new_zeros(())
        for cells in (similarities / similarities.sum(1, keepdim=True), similarities / similarities.sum(0)):
            total = total - torch.log(cells.diagonal()).mean()
            others = same & ~torch.eye(len(patients), dtype=torch.bool)
            if others.any():
                total = total - torch.log(cells[others]).mean()
        return total

    def steps() -> None:
        for views, patients in zip(batches, names, strict=True):
            optimizer.zero_grad()
            torch.autograd.backward(loss(encoder(views[:, 0]), encoder(views[:, 1]), patients))
            optimizer.step()

    return steps


def time_and_memory(work: Callable[[int], object], size: int) -> tuple[float, float]:
    """Return the seconds of a call for this size, and by how many MB it raises the memory of the process."""
    work(256)
    ctypes.CDLL(None).malloc_trim(0)  # memory kept from before would hide what a batch takes
    before = memory_of_this_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    work(size)
    peak = memory_of_this_process("VmHWM") - before
    return statistics.median(seconds(lambda: work(size)) for _ in range(3)), peak


def batch_and_loss(size: int, folder: str) -> list[tuple[float, float]]:
    """Return seconds and memory of making a batch of this size, and of its loss."""
    torch.set_num_threads(1)
    store = clocs.open_store(folder)
    policy = store.frame_policy("segments")
    raw = policy.model_copy(update={"normalization": "none"})
    maker = Batches([clocs.FrameDataset(store, policy=raw)], [policy], CMSC(ResNet()), 0)
    random = np.random.default_rng(0)
    for start in range(0, len(maker), 1024):  # the store's own pages shall not count as memory of a batch
        maker.make(np.arange(start, min(start + 1024, len(maker))), 0, "touch")

    def assemble(size: int) -> object:
        return maker.make(random.integers(0, len(maker), size), 0, "bench", 0)

    def loss(size: int) -> None:
        embeddings = torch.randn(size, 2, 128, requires_grad=True)
        torch.autograd.backward(PatientNCELoss()(embeddings, torch.randint(size // 2, (size,))))

    return [time_and_memory(assemble, size), time_and_memory(loss, size)]


def loss_growth() -> None:
    """Measure time and memory of a batch and its loss for 256 to 16,384 instances, and draw the plot of the docs."""
    with scratch() as folder:
        clocs.ingest("chapman", DATA / "chapman.zip", folder / "store", workers=2)
        rows = np.array([in_child(batch_and_loss, size, folder / "store") for size in SIZES])
    sizes = np.array(SIZES, float)
    fits: dict[str, Any] = {}
    for place, part in enumerate(("making a batch", "its loss")):
        for kind, quantity in enumerate(("seconds", "MB")):
            values = rows[:, place, kind]
            # Relative residuals, so that small batches count as much as large ones.
            seen = values > (0.5 if kind else 0)  # under half a MB, the allocator says more than the batch
            terms = np.stack([sizes, sizes**2], 1)[seen] / values[seen, None]
            linear, quadratic = nnls(terms, np.ones(seen.sum()))[0]
            fits[f"{part}, {quantity}"] = values, linear, quadratic
            print(f"  {part}, {quantity}: " + ", ".join(f"{value:.4g}" for value in values))
            print(f"    fit: {linear:.3g} B + {quadratic:.3g} B^2")
    print(f"  sizes: {', '.join(map(str, SIZES))}")
    _draw(sizes, fits)


def _draw(sizes: Any, fits: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    colours = {"making a batch": "#0072b2", "its loss": "#d55e00"}
    for name, (values, linear, quadratic) in fits.items():
        part, quantity = name.rsplit(", ", 1)
        axis = axes[int(quantity == "MB")]
        axis.loglog(sizes, values, "o", color=colours[part], label=part)
        axis.loglog(sizes, linear * sizes + quadratic * sizes**2, color=colours[part], lw=1.5)
        for term, style, label in ((linear * sizes, ":", "linear"), (quadratic * sizes**2, "--", "quadratic")):
            if term[-1] > 0.02 * values[-1]:
                axis.loglog(sizes, term, style, color=colours[part], lw=1, label=f"its {label} term")
        axis.set(xlabel="instances in a batch, two views each", ylabel=quantity)
        axis.set_xticks(sizes, [f"{int(size):,}" for size in sizes], rotation=45)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in axes:
        axis.set_ylim(bottom=axis.get_ylim()[1] / 1e5)
        axis.legend(fontsize=8)
    axes[0].set_title("time, one thread")
    axes[1].set_title("peak memory above the process's own")
    figure.savefig(PICTURE, dpi=110)
    print(f"  drawn: {PICTURE.relative_to(ROOT)}")
