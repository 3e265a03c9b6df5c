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
from clocs.methods import Method
from clocs.metrics.ranking import auc, macro
from clocs.training.ahead import Ahead
from clocs.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, save_encoder
from clocs.training.config import PretrainConfig
from clocs.training.data import Data
from clocs.training.distributed import all_or_none, all_ranks, share_statistics
from clocs.training.runs import Run
from clocs.training.sampler import Permutation
from clocs.training.schedule import learning_rate, planned_steps
from clocs.views.batch import Batch, BatchMaker
from clocs.views.joint import JointBatchMaker

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Progress = Callable[[dict[str, Any]], None]
"""Called after every step and every epoch with what is known then."""
SCALE = "scale"
"""Of a checkpoint: what the precision keeps from step to step."""
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
        """Whether an epoch is better than the best so far."""
        if by == "auc":
            return self.best_auc is None or found["validation_auc"] > self.best_auc
        return found["validation_loss"] < self.best_loss

    def saved(self) -> dict[str, Any]:
        """As JSON, which knows no infinity."""
        return {**asdict(self), "best_loss": None if self.best_epoch < 0 else self.best_loss}

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> State:
        """From what a checkpoint holds."""
        loss = saved["best_loss"]
        return cls(**{**saved, "best_loss": float("inf") if loss is None else loss})


class Loop:
    """Trains a method's model on a run's data until it stops getting better."""

    def __init__(
        self, config: PretrainConfig, method: Method, model: nn.Module, data: Data, run: Run, fabric: Fabric
    ) -> None:
        self.config, self.method, self.data, self.run, self.fabric = config, method, data, run, fabric
        self.state = State()
        self.planned = planned_steps(config, data.sampler.steps)
        self.bare = share_statistics(model) if fabric.world_size > 1 else model
        kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = kind(trained, config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.model, self.optimiser = fabric.setup(self.bare, optimiser)

    @property
    def leads(self) -> bool:
        """Whether this rank writes."""
        return bool(self.fabric.is_global_zero)

    def train(self, about: dict[str, Any], start: Checkpoint | None, progress: Progress | None) -> State:
        """Run to the end, from a checkpoint or from the start. ``about`` goes with the best encoder."""
        if start is not None:
            self._restore(start)
        if self.leads:
            self.run.rewind(None if start is None else start.metrics)
        self.fabric.barrier()
        while not self.state.finished:
            if self.config.epochs:
                self.epoch_steps(progress)
            self._close_epoch(about, progress)
        return self.state

    def _restore(self, start: Checkpoint) -> None:
        """Load the checkpoint that rank 0 has chosen, on every rank or on none."""
        all_or_none(lambda: load_checkpoint(start, self.bare, self.optimiser))
        saved = dict(start.state)
        self.fabric.strategy.precision.load_state_dict(saved.pop(SCALE, {}))
        self.state = State.restored(saved)

    def epoch_steps(self, progress: Progress | None) -> None:
        """The rest of the epoch."""
        state, began, worked, frames = self.state, time.perf_counter(), time.process_time(), 0
        epoch, per_epoch = state.epoch, self.data.sampler.steps

        def make(step: int) -> tuple[npt.NDArray[np.int64], Batch]:
            items = self.data.sampler.batch(epoch, step)
            return items, self.share(self.data.train, items, "train", epoch, step)

        with closing(Ahead(make, per_epoch)) as ahead:
            while state.in_epoch < per_epoch and not self._out_of_steps():
                items, batch = ahead.get(state.in_epoch)
                loss = self._finite(self.step(batch))
                state.step, state.in_epoch, state.loss_sum = state.step + 1, state.in_epoch + 1, state.loss_sum + loss
                frames += batch.views.shape[1] * len(items)
                line = {"step": state.step, "epoch": state.epoch, "loss": loss}
                if self.leads:
                    self.run.metrics.append(**line, items=zlib.crc32(items.tobytes()))
                    self._track(state.step, loss=loss)
                    ends = state.in_epoch == per_epoch or self._out_of_steps()  # and is saved once it is closed
                    if state.step % self.config.checkpoint_steps == 0 and not ends:
                        self._save()
                if progress is not None:
                    speed = frames / (time.perf_counter() - began)
                    progress({**line, "frames_per_second": speed, "in_epoch": state.in_epoch, "per_epoch": per_epoch})
        if self.leads and frames:
            spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - worked}
            self.run.timing.append(step=state.step, frames=frames, **spent)

    def _out_of_steps(self) -> bool:
        return self.config.steps is not None and self.state.step >= self.config.steps

    def step(self, batch: Batch) -> float:
        """One step on this rank's share of a global batch; the loss of all of it."""
        torch.manual_seed(derived_seed(self.config.seed, "step", self.state.step, self.fabric.global_rank))  # dropout
        batch = batch.to(self.fabric.device)
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        parts = batch.split(self.config.accumulate)
        total = torch.zeros((), device=self.fabric.device)
        for number, part in enumerate(parts, 1):
            weight = len(part.items) / len(batch.items)
            with self.fabric.no_backward_sync(self.model, enabled=number < len(parts)):
                loss = weight * self._loss(part, self.model(part.views), shared=self.fabric.world_size > 1)
                self.fabric.backward(loss)
            total = total + loss.detach()
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, self.state.step, self.planned)
        self.optimiser.step()
        self.method.after_step(self.bare)
        return self._mean(total)

    def share(self, maker: BatchMaker | JointBatchMaker, items: npt.NDArray[np.int64], *names: str | int) -> Batch:
        """This rank's share of a global batch."""
        size = len(items) // self.fabric.world_size
        begin = self.fabric.global_rank * size
        return maker.make(items[begin : begin + size], begin, *names)

    def _loss(self, batch: Batch, outputs: Tensor, *, shared: bool) -> Tensor:
        """Of a batch that ranks share, or that each has whole."""
        patients = batch.patients
        if shared and self.method.shares_batch:
            # Every rank computes the whole loss; the ranks' gradients of it, averaged, are the true one.
            outputs, patients = all_ranks(outputs), all_ranks(patients)
        return self.method.loss(outputs, patients, batch.targets)

    def _mean(self, loss: Tensor) -> float:
        value = loss.detach()
        if self.fabric.world_size > 1:
            value = torch.as_tensor(self.fabric.all_reduce(value, reduce_op="mean"))
        return float(value)

    def _close_epoch(self, about: dict[str, Any], progress: Progress | None) -> None:
        state, config = self.state, self.config
        place = {"step": state.step, "epoch": state.epoch}
        found = {"train_loss": state.loss_sum / max(state.in_epoch, 1), **self.validate()}
        better = state.is_better(found, config.best_by)
        if better:
            state.best_loss, state.best_epoch = found["validation_loss"], state.epoch
            state.best_auc = found.get("validation_auc")
        stale = state.epoch - state.best_epoch >= config.patience
        state.epoch, state.in_epoch, state.loss_sum = state.epoch + 1, 0, 0.0
        state.finished = stale or state.epoch >= config.epochs or self._out_of_steps()
        if self.leads:
            self.run.metrics.append(**place, **found)
            self._track(state.step, **found)
            if better:
                told = {**about, "epoch": state.best_epoch, "validation_loss": found["validation_loss"]}
                head = getattr(self.bare, "head", None) if self.method.needs_labels else None
                save_encoder(self.run.best, self._encoder, told, head)
            self._save()
        if progress is not None:
            progress({**place, **found})
        self.fabric.barrier()

    def _track(self, step: int, **values: float) -> None:
        if self.fabric.loggers:
            self.fabric.log_dict(values, step)

    def _save(self) -> None:
        scale = self.fabric.strategy.precision.state_dict()  # of 16-mixed, the factor that its gradients have
        told = {**self.state.saved(), **({SCALE: scale} if scale else {})}
        metrics = self.run.metrics.sync()
        save_checkpoint(self.run.checkpoints, self.state.step, self.bare, self.optimiser, told, metrics)

    @property
    def _encoder(self) -> nn.Module:
        encoder = self.bare.encoder
        assert isinstance(encoder, nn.Module)
        return encoder

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Mean loss over the validation part in fixed batches, the embeddings' effective rank, and macro AUC."""
        self.model.eval()
        kind = next(self.bare.parameters()).dtype
        losses, embeddings, scores, truth = [], [], [], []
        for number, batch in enumerate(self._validation_batches()):
            outputs = self.model(batch.views)
            losses.append(self._mean(self._loss(batch, outputs, shared=self._shared)))
            if number * self.config.batch < RANK_SAMPLE:
                embeddings.append(self._everyone(self._encoder(batch.views[:, 0].to(kind))))
            if self.method.needs_labels:
                scores.append(self._everyone(outputs))
                truth.append(self._everyone(batch.targets))
        loss = self._finite(sum(losses) / len(losses))
        found = {"validation_loss": loss, "effective_rank": effective_rank(torch.cat(embeddings))}
        if scores:
            # Softmax: the rank of a class's score among all instances depends on its other scores.
            values = torch.cat(scores).double().cpu()
            values = values if getattr(self.method, "multi_label", False) else values.softmax(1)
            known = macro(auc(torch.cat(truth).cpu().numpy(), values.numpy()))
            if math.isfinite(known):  # there are two classes or more
                found["validation_auc"] = known
            elif self.config.best_by == "auc":
                raise ConfigError("best_by=auc: the validation part has one class alone; take best_by=loss")
        return found

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise ConfigError(f"the loss is no longer finite at epoch {self.state.epoch}; try a smaller learning_rate")
        return loss

    def _validation_batches(self) -> Iterator[Batch]:
        """This rank's shares of the same batches every time; of the only one, if it is short, all on every rank."""
        size, count = self.config.batch, len(self.data.validation)
        order = Permutation(count, derived_seed(self.config.seed, "validation"))  # mixes patients as in training
        for begin in range(0, max(count - size, 0) + 1, size):
            items = order(np.arange(begin, min(begin + size, count)))
            maker, names = self.data.validation, ("validation", begin)
            batch = self.share(maker, items, *names) if self._shared else maker.make(items, 0, *names)
            yield batch.to(self.fabric.device)

    @property
    def _shared(self) -> bool:
        """Whether ranks share a validation batch; one of fewer instances would not divide."""
        return self.fabric.world_size > 1 and len(self.data.validation) >= self.config.batch

    def _everyone(self, values: Tensor) -> Tensor:
        """The rows of all ranks."""
        return all_ranks(values) if self._shared else values


def effective_rank(embeddings: Tensor) -> float:
    """exp of the entropy of the normalised singular values of centred (N, E): 1 is a collapse."""
    values = torch.linalg.svdvals((embeddings - embeddings.mean(0)).double())
    shares = values / values.sum().clamp_min(1e-300)
    return float(torch.exp(-(shares * torch.log(shares.clamp_min(1e-300))).sum()))
