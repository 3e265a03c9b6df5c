"""Training loop: steps, epochs, validation, checkpoints. All randomness follows from seed and step."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.methods import Batch, Method
from clocs.methods.gather import gather_ranks
from clocs.metrics.ranking import auc, macro_average
from clocs.training.batches import BatchSource
from clocs.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from clocs.training.config import PretrainConfig
from clocs.training.data import LoopData
from clocs.training.devices import to_device
from clocs.training.distributed import on_every_rank, share_statistics
from clocs.training.encoder_module import save_encoder
from clocs.training.online_probe import OnlineProbe
from clocs.training.prefetch import BatchWorkers, Prefetcher
from clocs.training.runs import Run
from clocs.training.sampler import Permutation
from clocs.training.schedule import learning_rate, planned_steps
from clocs.training.seen_recordings import copy_seen_keys
from clocs.training.shard_schedule import ShardSchedule
from clocs.training.state import TrainingState

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Progress = Callable[[dict[str, Any]], None]
"""Callback after every step and every epoch, which takes the current metrics."""
PRECISION_KEY = "scale"
"""Key of a checkpoint's state for the state of the precision plugin, such as the gradient scale of 16-mixed."""
PROBE_SAMPLE = 2048
"""Number of training instances, and of validation instances, of the online probe."""
RANK_SAMPLE = 2048
"""Number of validation embeddings from which the effective rank is computed."""


class _Steps(nn.Module):
    """Module that runs a method's steps in ``forward``, because Fabric wraps only this call."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: Batch, step: int | None = None) -> Tensor | Batch:
        """Run a training step, or a validation step if ``step`` is None."""
        return self.method.validation_step(batch) if step is None else self.method.training_step(batch, step)


class Loop:
    """Training loop of a run, which ends when the validation metric stops improving.

    Args:
        config: Config of the run.
        method: Method to train.
        data: Training and validation data.
        run: Folder of the run.
        fabric: Fabric that places modules on devices and connects ranks.
        schedule: Schedule of the shards that this rank reads from buckets; None if there are none.
    """

    def __init__(
        self,
        config: PretrainConfig,
        method: Method,
        data: LoopData,
        run: Run,
        fabric: Fabric,
        schedule: ShardSchedule | None = None,
    ) -> None:
        self.config, self.data, self.run, self.fabric, self.schedule = config, data, run, fabric, schedule
        self.state = TrainingState()
        self._workers: BatchWorkers | None = None
        self.planned = planned_steps(config, data.sampler.steps)
        self.method = share_statistics(method) if fabric.world_size > 1 else method
        optimizer_class = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
        groups = method.parameter_groups()
        optimizer = optimizer_class(groups, config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.model, self.optimizer = fabric.setup(_Steps(self.method), optimizer)

    @property
    def is_rank_zero(self) -> bool:
        """Return whether this is rank 0, which writes all files."""
        return bool(self.fabric.is_global_zero)

    def train(self, about: dict[str, Any], start: Checkpoint | None, progress: Progress | None) -> TrainingState:
        """Train to the end.

        Args:
            about: Config that is saved with the best encoder.
            start: Checkpoint to continue from; None for the start.
            progress: Callback after every step and epoch.

        Returns:
            The final state.
        """
        if start is not None:
            self._restore(start)
        if self.is_rank_zero:
            self.run.rewind(None if start is None else start.metrics)
        self.fabric.barrier()
        if self.config.batch_workers:
            self._workers = BatchWorkers(self.data.train, self.config.batch_workers)
        try:
            while not self.state.finished:
                if self.config.max_epochs:
                    self.epoch_steps(progress)
                self._close_epoch(about, progress)
        finally:
            if self._workers is not None:
                self._workers.close()
        return self.state

    def _restore(self, start: Checkpoint) -> None:
        """Load the checkpoint that rank 0 has chosen on every rank."""
        on_every_rank(lambda: self._load(start))
        saved = dict(start.state)
        self.fabric.strategy.precision.load_state_dict(saved.pop(PRECISION_KEY, {}))
        self.state = TrainingState.from_json(saved)

    def _load(self, start: Checkpoint) -> None:
        if self.run.mirror is not None:  # rank 0 may be on another machine
            self.run.mirror.fetch_file(start.tensors)
        load_checkpoint(start, self.method, self.optimizer)

    def epoch_steps(self, progress: Progress | None) -> None:
        """Run the remaining steps of the epoch."""
        state, start, processor_start, frames = self.state, time.perf_counter(), time.process_time(), 0
        epoch, per_epoch = state.epoch, self.data.sampler.steps
        with self._prepared(epoch) as batches:
            while state.in_epoch < per_epoch and not self._out_of_steps():
                items, batch = self.data.sampler.batch(epoch, state.in_epoch), batches.get(state.in_epoch)
                loss = self._check_finite(self.step(batch))
                state.step, state.in_epoch, state.loss_sum = state.step + 1, state.in_epoch + 1, state.loss_sum + loss
                frames += batch["views"].shape[1] * len(items)
                line = {"step": state.step, "epoch": state.epoch, "loss": loss}
                rates = {
                    "learning_rate": self.optimizer.param_groups[0]["lr"],
                    "frames_per_second": frames / (time.perf_counter() - start),
                }
                if self.is_rank_zero:
                    self.run.metrics.append(**line, items=zlib.crc32(items.tobytes()))
                    self._log(state.step, loss=loss, **rates)
                    ends = state.in_epoch == per_epoch or self._out_of_steps()  # the end of an epoch saves anyway
                    if state.step % self.config.checkpoint_every == 0 and not ends:
                        self._save()
                if progress is not None:
                    progress({**line, **rates, "in_epoch": state.in_epoch, "per_epoch": per_epoch})
        if self.is_rank_zero and frames:
            spent = {"seconds": time.perf_counter() - start, "processor": time.process_time() - processor_start}
            self.run.timing.append(step=state.step, frames=frames, **spent)

    @contextmanager
    def _prepared(self, epoch: int) -> Iterator[Prefetcher[Batch]]:
        """Prepare the batches of an epoch, in the processes of the run or in a thread.

        One thread is enough on a CPU, because making a batch takes a tenth of the time of training on it.
        """
        sampler, workers = self.data.sampler, self._workers

        def submit(step: int) -> Future[Batch]:
            assert workers is not None
            return workers.submit(*self._own_part(sampler.batch(epoch, step)), "train", epoch, step)

        def make(step: int) -> Batch:
            self._advance(step)
            return self.share(self.data.train, sampler.batch(epoch, step), "train", epoch, step)

        if workers is not None:
            with closing(Prefetcher(submit, sampler.steps, 2 * self.config.batch_workers)) as batches:
                yield batches
            return
        with (
            ThreadPoolExecutor(1, thread_name_prefix="clocs-prefetch") as pool,
            closing(Prefetcher(lambda step: pool.submit(make, step), sampler.steps)) as batches,
        ):
            yield batches

    def _advance(self, position: int) -> None:
        if self.schedule is not None:
            self.schedule.advance(self.state.epoch, position)

    def _out_of_steps(self) -> bool:
        return self.config.max_steps is not None and self.state.step >= self.config.max_steps

    def step(self, batch: Batch) -> float:
        """Run one step on this rank's share of a global batch.

        Args:
            batch: This rank's share.

        Returns:
            The loss of the global batch.
        """
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
        rate = learning_rate(self.config, self.state.step, self.planned)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate_factor"]
        self.optimizer.step()
        self.method.after_step(self.state.step)
        return self._mean(total)

    def share(self, batches: BatchSource, items: npt.NDArray[np.int64], *names: str | int) -> Batch:
        """Return this rank's share of a global batch."""
        return batches.make(*self._own_part(items), *names)

    def _own_part(self, items: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
        """Return this rank's part of a global batch, and its position there."""
        size = len(items) // self.fabric.world_size
        begin = self.fabric.global_rank * size
        return items[begin : begin + size], begin

    def _on_device(self, batch: Batch) -> Batch:
        return {name: to_device(value, self.fabric.device) for name, value in batch.items()}

    def _mean(self, loss: Tensor) -> float:
        value = loss.detach()
        if self.fabric.world_size > 1:
            value = torch.as_tensor(self.fabric.all_reduce(value, reduce_op="mean"))
        return float(value)

    def _close_epoch(self, about: dict[str, Any], progress: Progress | None) -> None:
        state, config = self.state, self.config
        index = {"step": state.step, "epoch": state.epoch}
        metrics = {"train_loss": state.loss_sum / max(state.in_epoch, 1), **self.validate()}
        better = state.is_better(metrics, config.monitor)
        if better:
            state.best_loss, state.best_epoch = metrics["validation_loss"], state.epoch
            state.best_auc = metrics.get("validation_auc")
        stale = state.epoch - state.best_epoch >= config.patience
        state.epoch, state.in_epoch, state.loss_sum = state.epoch + 1, 0, 0.0
        state.finished = stale or state.epoch >= config.max_epochs or self._out_of_steps()
        probe = self._probe()
        if self.is_rank_zero:
            self.run.metrics.append(**index, **metrics)
            self._log(state.step, **metrics, **probe)
            described = {**about, "epoch": state.epoch - 1, "validation_loss": metrics["validation_loss"]}
            if better:
                self._save_encoder(self.run.best, described)
            if state.epoch in config.keep_epochs:
                kept = self.run.kept_encoder(state.epoch)
                copy_seen_keys(self.run.best, kept)
                self._save_encoder(kept, described)
            self._save()
        if progress is not None:
            progress({**index, **metrics, **probe})
        self.fabric.barrier()

    def _save_encoder(self, folder: Path, about: dict[str, Any]) -> None:
        save_encoder(folder, self.method.trained_encoder(), about, self.method.trained_head())

    def _log(self, step: int, **values: float) -> None:
        if self.fabric.loggers:
            self.fabric.log_dict(values, step)

    def _save(self) -> None:
        precision = self.fabric.strategy.precision.state_dict()
        state = {**self.state.to_json(), **({PRECISION_KEY: precision} if precision else {})}
        metrics = self.run.metrics.sync()
        save_checkpoint(self.run.checkpoints, self.state.step, self.method, self.optimizer, state, metrics)
        if self.run.mirror is not None:
            self.run.mirror.copy(self.state.step)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return the metrics of the validation part.

        Returns:
            ``validation_loss``, the mean over fixed batches; ``effective_rank`` of the embeddings; and, with labels of
            two classes or more, ``validation_auc``.
        """
        self.model.eval()
        self.method.batch_is_shared = self._shares_validation
        losses, embeddings, scores, truth = [], [], [], []
        for number, batch in enumerate(self._validation_batches()):
            outputs = self.model(batch)
            losses.append(self._mean(outputs["loss"]))
            if number * self.config.batch_size < RANK_SAMPLE:
                embeddings.append(self._gather(self._embed_first_views(batch)))
            if "scores" in outputs:
                scores.append(self._gather(outputs["scores"]))
                truth.append(self._gather(batch["target"]))
        loss = self._check_finite(sum(losses) / len(losses))
        values = {"validation_loss": loss, "effective_rank": effective_rank(torch.cat(embeddings))}
        if scores:
            macro_auc = macro_average(auc(torch.cat(truth).cpu().numpy(), torch.cat(scores).double().cpu().numpy()))
            if math.isfinite(macro_auc):  # two classes or more
                values["validation_auc"] = macro_auc
            elif self.config.monitor == "auc":
                raise ConfigError("monitor=auc: the validation part has a single class. Set monitor=loss.")
        return values

    @torch.no_grad()
    def _probe(self) -> dict[str, float]:
        """Return the AUC of the online probe after the configured epochs. All ranks compute the same."""
        every = self.config.online_probe
        if not every or self.state.epoch % every or not self.data.train.classes:
            return {}
        self.model.eval()
        parts = []
        for batches, name in ((self.data.train, "train"), (self.data.validation, "validation")):
            order = Permutation(len(batches), derived_seed(self.config.seed, "probe", name))
            items = order(np.arange(min(len(batches), PROBE_SAMPLE)))
            batch = self._on_device(batches.make(items, 0, "probe", name))
            parts += [self._embed_first_views(batch).double().cpu().numpy(), batches.targets(items)]
        probe_auc = OnlineProbe().validation_auc(*parts)
        return {} if probe_auc is None else {"probe_auc": probe_auc}

    def _embed_first_views(self, batch: Batch) -> Tensor:
        """Return the embeddings (B, E) of the first view of each instance."""
        dtype = next(self.method.parameters()).dtype
        mask = (batch["lead_mask"][:, 0],) if "lead_mask" in batch else ()
        embeddings: Tensor = self.method.trained_encoder()(batch["views"][:, 0].to(dtype), *mask)
        return embeddings

    def _check_finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise ConfigError(f"The loss is not finite at epoch {self.state.epoch}. Try a smaller learning_rate.")
        return loss

    def _validation_batches(self) -> Iterator[Batch]:
        """Yield this rank's shares of fixed batches. A single short batch goes to every rank as a whole."""
        size, batches = self.config.batch_size, self.data.validation
        for number, items in enumerate(self._validation_items()):
            self._advance(self.data.sampler.steps + number)
            names = ("validation", number * size)
            batch = self.share(batches, items, *names) if self._shares_validation else batches.make(items, 0, *names)
            yield self._on_device(batch)

    def _validation_items(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the items of each validation batch."""
        size, count, sampler = self.config.batch_size, len(self.data.validation), self.data.validation_sampler
        if sampler is not None:
            yield from (sampler.batch(0, step) for step in range(sampler.steps))
            return
        order = Permutation(count, derived_seed(self.config.seed, "validation"))  # mixes patients as in training
        for begin in range(0, max(count - size, 0) + 1, size):
            yield order(np.arange(begin, min(begin + size, count)))

    @property
    def _shares_validation(self) -> bool:
        """Return whether ranks share validation batches. A short batch could not be divided."""
        return self.fabric.world_size > 1 and len(self.data.validation) >= self.config.batch_size

    def _gather(self, values: Tensor) -> Tensor:
        """Return the rows of all ranks."""
        return gather_ranks(values) if self._shares_validation else values


def _parts(batch: Batch, count: int) -> list[Batch]:
    """Split a batch into ``count`` smaller ones."""
    parts = zip(*(value.chunk(count) for value in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]


def effective_rank(embeddings: Tensor) -> float:
    """Return the effective rank of embeddings (N, E): exp of the entropy of the normalized singular values.

    A value of 1 means that the embeddings have collapsed to a line.
    """
    values = torch.linalg.svdvals((embeddings - embeddings.mean(0)).double())
    shares = values / values.sum().clamp_min(1e-300)
    return float(torch.exp(-(shares * torch.log(shares.clamp_min(1e-300))).sum()))
