"""The training loop: steps, epochs, validation, checkpoints. All randomness comes from seed and step."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.methods import Batch, Method
from clocs.methods.gather import gather_ranks
from clocs.metrics.ranking import auc, macro_average
from clocs.training.batches import Batches
from clocs.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from clocs.training.config import PretrainConfig
from clocs.training.data import TrainingData
from clocs.training.distributed import all_or_none, share_statistics
from clocs.training.encoder_module import save_encoder
from clocs.training.online_probe import OnlineProbe
from clocs.training.prefetch import Prefetcher
from clocs.training.runs import Run
from clocs.training.sampler import Permutation
from clocs.training.schedule import learning_rate, planned_steps

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Progress = Callable[[dict[str, Any]], None]
"""Called after every step and every epoch with what is known then."""
SCALE = "scale"
"""Of a checkpoint: what the precision keeps from step to step."""
PROBE_SAMPLE = 2048
"""Training, and validation, instances of the online probe."""
RANK_SAMPLE = 2048
"""Validation embeddings that the effective rank is measured on."""


@dataclass
class State:
    """Where a run is. With the tensors, all that the next step depends on."""

    epoch: int = 0
    step: int = 0
    """Steps done, over all epochs."""
    in_epoch: int = 0
    loss_sum: float = 0.0
    best_loss: float = float("inf")
    """Validation loss of the best epoch, which need not be the lowest."""
    best_epoch: int = -1
    finished: bool = False
    best_auc: float | None = None
    """Validation AUC of the best epoch, where there are labels."""

    def is_better(self, found: Mapping[str, float], by: Literal["loss", "auc"]) -> bool:
        """Return whether an epoch is better than the best so far."""
        if by == "auc":
            return self.best_auc is None or found["validation_auc"] > self.best_auc
        return found["validation_loss"] < self.best_loss

    def saved(self) -> dict[str, Any]:
        """Return the state as JSON, which has no infinity."""
        return {**asdict(self), "best_loss": None if self.best_epoch < 0 else self.best_loss}

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> State:
        """Return the state that a checkpoint holds."""
        loss = saved["best_loss"]
        return cls(**{**saved, "best_loss": float("inf") if loss is None else loss})


class _Steps(nn.Module):
    """Calls a method's steps by ``forward``, through which alone Fabric sets precision and synchronises ranks."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: Batch, step: int | None = None) -> Tensor | Batch:
        """Do a training step, or, without its number, a validation step."""
        return self.method.validation_step(batch) if step is None else self.method.training_step(batch, step)


class Loop:
    """Trains a method on a run's data until it stops getting better."""

    def __init__(self, config: PretrainConfig, method: Method, data: TrainingData, run: Run, fabric: Fabric) -> None:
        self.config, self.data, self.run, self.fabric = config, data, run, fabric
        self.state = State()
        self.planned = planned_steps(config, data.sampler.steps)
        self.method = share_statistics(method) if fabric.world_size > 1 else method
        kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
        trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
        optimizer = kind(trained, config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.model, self.optimizer = fabric.setup(_Steps(self.method), optimizer)

    @property
    def is_rank_zero(self) -> bool:
        """Whether this rank writes."""
        return bool(self.fabric.is_global_zero)

    def train(self, about: dict[str, Any], start: Checkpoint | None, progress: Progress | None) -> State:
        """Run to the end, from a checkpoint or from the start. ``about`` goes with the best encoder."""
        if start is not None:
            self._restore(start)
        if self.is_rank_zero:
            self.run.rewind(None if start is None else start.metrics)
        self.fabric.barrier()
        while not self.state.finished:
            if self.config.max_epochs:
                self.epoch_steps(progress)
            self._close_epoch(about, progress)
        return self.state

    def _restore(self, start: Checkpoint) -> None:
        """Load the checkpoint that rank 0 has chosen, on every rank or on none."""
        all_or_none(lambda: load_checkpoint(start, self.method, self.optimizer))
        saved = dict(start.state)
        self.fabric.strategy.precision.load_state_dict(saved.pop(SCALE, {}))
        self.state = State.restored(saved)

    def epoch_steps(self, progress: Progress | None) -> None:
        """Do the rest of the epoch's steps."""
        state, began, worked, frames = self.state, time.perf_counter(), time.process_time(), 0
        epoch, per_epoch = state.epoch, self.data.sampler.steps

        def make(step: int) -> tuple[npt.NDArray[np.int64], Batch]:
            items = self.data.sampler.batch(epoch, step)
            return items, self.share(self.data.train, items, "train", epoch, step)

        with closing(Prefetcher(make, per_epoch)) as batches:
            while state.in_epoch < per_epoch and not self._out_of_steps():
                items, batch = batches.get(state.in_epoch)
                loss = self._finite(self.step(batch))
                state.step, state.in_epoch, state.loss_sum = state.step + 1, state.in_epoch + 1, state.loss_sum + loss
                frames += batch["views"].shape[1] * len(items)
                line = {"step": state.step, "epoch": state.epoch, "loss": loss}
                rates = {
                    "learning_rate": self.optimizer.param_groups[0]["lr"],
                    "frames_per_second": frames / (time.perf_counter() - began),
                }
                if self.is_rank_zero:
                    self.run.metrics.append(**line, items=zlib.crc32(items.tobytes()))
                    self._log(state.step, loss=loss, **rates)
                    ends = state.in_epoch == per_epoch or self._out_of_steps()  # and is saved once it is closed
                    if state.step % self.config.checkpoint_every == 0 and not ends:
                        self._save()
                if progress is not None:
                    progress({**line, **rates, "in_epoch": state.in_epoch, "per_epoch": per_epoch})
        if self.is_rank_zero and frames:
            spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - worked}
            self.run.timing.append(step=state.step, frames=frames, **spent)

    def _out_of_steps(self) -> bool:
        return self.config.max_steps is not None and self.state.step >= self.config.max_steps

    def step(self, batch: Batch) -> float:
        """Do one step on this rank's share of a global batch and return the loss of all of it."""
        torch.manual_seed(derived_seed(self.config.seed, "step", self.state.step, self.fabric.global_rank))  # dropout
        batch = self._on_device(batch)
        self.model.train()
        self.method.batch_is_shared = self.fabric.world_size > 1
        self.optimizer.zero_grad(set_to_none=True)
        parts = _parts(batch, self.config.accumulate_batches)
        total = torch.zeros((), device=self.fabric.device)
        for number, part in enumerate(parts, 1):
            weight = len(part["item"]) / len(batch["item"])
            with self.fabric.no_backward_sync(self.model, enabled=number < len(parts)):
                loss = weight * self.model(part, self.state.step)
                self.fabric.backward(loss)
            total = total + loss.detach()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.state.step, self.planned)
        self.optimizer.step()
        self.method.after_step(self.state.step)
        return self._mean(total)

    def share(self, batches: Batches, items: npt.NDArray[np.int64], *names: str | int) -> Batch:
        """Return this rank's share of a global batch."""
        size = len(items) // self.fabric.world_size
        begin = self.fabric.global_rank * size
        return batches.make(items[begin : begin + size], begin, *names)

    def _on_device(self, batch: Batch) -> Batch:
        return {name: value.to(self.fabric.device) for name, value in batch.items()}

    def _mean(self, loss: Tensor) -> float:
        value = loss.detach()
        if self.fabric.world_size > 1:
            value = torch.as_tensor(self.fabric.all_reduce(value, reduce_op="mean"))
        return float(value)

    def _close_epoch(self, about: dict[str, Any], progress: Progress | None) -> None:
        state, config = self.state, self.config
        place = {"step": state.step, "epoch": state.epoch}
        found = {"train_loss": state.loss_sum / max(state.in_epoch, 1), **self.validate()}
        better = state.is_better(found, config.monitor)
        if better:
            state.best_loss, state.best_epoch = found["validation_loss"], state.epoch
            state.best_auc = found.get("validation_auc")
        stale = state.epoch - state.best_epoch >= config.patience
        state.epoch, state.in_epoch, state.loss_sum = state.epoch + 1, 0, 0.0
        state.finished = stale or state.epoch >= config.max_epochs or self._out_of_steps()
        probed = self._probe()
        if self.is_rank_zero:
            self.run.metrics.append(**place, **found)
            self._log(state.step, **found, **probed)
            if better:
                told = {**about, "epoch": state.best_epoch, "validation_loss": found["validation_loss"]}
                save_encoder(self.run.best, self.method.trained_encoder(), told, self.method.trained_head())
            self._save()
        if progress is not None:
            progress({**place, **found, **probed})
        self.fabric.barrier()

    def _log(self, step: int, **values: float) -> None:
        if self.fabric.loggers:
            self.fabric.log_dict(values, step)

    def _save(self) -> None:
        scale = self.fabric.strategy.precision.state_dict()  # of 16-mixed, the factor that its gradients have
        told = {**self.state.saved(), **({SCALE: scale} if scale else {})}
        metrics = self.run.metrics.sync()
        save_checkpoint(self.run.checkpoints, self.state.step, self.method, self.optimizer, told, metrics)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return the mean loss over the validation part in fixed batches, the effective rank, and macro AUC."""
        self.model.eval()
        self.method.batch_is_shared = self._shared
        losses, embeddings, scores, truth = [], [], [], []
        for number, batch in enumerate(self._validation_batches()):
            found = self.model(batch)
            losses.append(self._mean(found["loss"]))
            if number * self.config.batch_size < RANK_SAMPLE:
                embeddings.append(self._everyone(self._first_views(batch)))
            if "scores" in found:
                scores.append(self._everyone(found["scores"]))
                truth.append(self._everyone(batch["target"]))
        loss = self._finite(sum(losses) / len(losses))
        values = {"validation_loss": loss, "effective_rank": effective_rank(torch.cat(embeddings))}
        if scores:
            known = macro_average(auc(torch.cat(truth).cpu().numpy(), torch.cat(scores).double().cpu().numpy()))
            if math.isfinite(known):  # there are two classes or more
                values["validation_auc"] = known
            elif self.config.monitor == "auc":
                raise ConfigError("monitor=auc: the validation part has one class alone; take best_by=loss")
        return values

    @torch.no_grad()
    def _probe(self) -> dict[str, float]:
        """Return the AUC of the online probe after the epochs that the config asks for; every rank probes alike."""
        every = self.config.online_probe
        if not every or self.state.epoch % every or not self.data.train.classes:
            return {}
        self.model.eval()
        parts = []
        for batches, name in ((self.data.train, "train"), (self.data.validation, "validation")):
            order = Permutation(len(batches), derived_seed(self.config.seed, "probe", name))
            items = order(np.arange(min(len(batches), PROBE_SAMPLE)))
            batch = self._on_device(batches.make(items, 0, "probe", name))
            parts += [self._first_views(batch).double().cpu().numpy(), batches.targets(items)]
        found = OnlineProbe().validation_auc(*parts)
        return {} if found is None else {"probe_auc": found}

    def _first_views(self, batch: Batch) -> Tensor:
        """Embeddings of the first view of each instance, (B, E)."""
        kind = next(self.method.parameters()).dtype
        mask = (batch["lead_mask"][:, 0],) if "lead_mask" in batch else ()
        embeddings: Tensor = self.method.trained_encoder()(batch["views"][:, 0].to(kind), *mask)
        return embeddings

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise ConfigError(f"the loss is no longer finite at epoch {self.state.epoch}; try a smaller learning_rate")
        return loss

    def _validation_batches(self) -> Iterator[Batch]:
        """This rank's shares of the same batches every time; of the only one, if it is short, all on every rank."""
        size, count = self.config.batch_size, len(self.data.validation)
        order = Permutation(count, derived_seed(self.config.seed, "validation"))  # mixes patients as in training
        for begin in range(0, max(count - size, 0) + 1, size):
            items = order(np.arange(begin, min(begin + size, count)))
            batches, names = self.data.validation, ("validation", begin)
            batch = self.share(batches, items, *names) if self._shared else batches.make(items, 0, *names)
            yield self._on_device(batch)

    @property
    def _shared(self) -> bool:
        """Whether ranks share a validation batch; one of fewer instances would not divide."""
        return self.fabric.world_size > 1 and len(self.data.validation) >= self.config.batch_size

    def _everyone(self, values: Tensor) -> Tensor:
        """The rows of all ranks."""
        return gather_ranks(values) if self._shared else values


def _parts(batch: Batch, count: int) -> list[Batch]:
    """Split a batch into smaller ones."""
    parts = zip(*(value.chunk(count) for value in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]


def effective_rank(embeddings: Tensor) -> float:
    """Return exp of the entropy of the normalised singular values of centred (N, E): 1 is a collapse."""
    values = torch.linalg.svdvals((embeddings - embeddings.mean(0)).double())
    shares = values / values.sum().clamp_min(1e-300)
    return float(torch.exp(-(shares * torch.log(shares.clamp_min(1e-300))).sum()))
