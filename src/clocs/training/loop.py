"""Training loop: steps, epochs, validation, checkpoints. All randomness follows from seed and step."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clocs.core.seeds import derived_seed
from clocs.methods import Batch, Method
from clocs.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from clocs.training.config import PretrainConfig
from clocs.training.data import LoopData
from clocs.training.distributed import on_every_rank, share_statistics
from clocs.training.encoder_module import save_encoder
from clocs.training.prefetch import BatchWorkers, Prefetcher, prefetch_in_thread
from clocs.training.rank_share import RankShare
from clocs.training.runs import Run
from clocs.training.schedule import learning_rate, planned_steps
from clocs.training.seen_recordings import copy_seen_keys
from clocs.training.shard_schedule import ShardSchedule
from clocs.training.state import TrainingState
from clocs.training.validation import Validation, check_finite

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Progress = Callable[[dict[str, Any]], None]
"""Callback after every step and every epoch, which takes the current metrics."""
PRECISION_KEY = "scale"
"""Key of a checkpoint's state for the state of the precision plugin, such as the gradient scale of 16-mixed."""


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
        self.share = RankShare(fabric)
        self._validation = Validation(config, data, self.method, self.model, self.share, self._advance)

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
        state, start, processor_start, frames, waiting = self.state, time.perf_counter(), time.process_time(), 0, 0.0
        epoch, per_epoch = state.epoch, self.data.sampler.steps
        with self._prepared(epoch) as batches:
            while state.in_epoch < per_epoch and not self._out_of_steps():
                items, asked = self.data.sampler.batch(epoch, state.in_epoch), time.perf_counter()
                batch = batches.get(state.in_epoch)
                waiting += time.perf_counter() - asked
                loss = check_finite(self.step(batch), epoch)
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
            self.run.timing.append(step=state.step, frames=frames, **spent, waiting=waiting)

    def _prepared(self, epoch: int) -> AbstractContextManager[Prefetcher[Batch]]:
        """Prepare the batches of an epoch, in the processes of the run or in a thread."""
        sampler, workers = self.data.sampler, self._workers

        def submit(step: int) -> Future[Batch]:
            assert workers is not None
            return workers.submit(*self.share.part(sampler.batch(epoch, step)), "train", epoch, step)

        def make(step: int) -> Batch:
            self._advance(step)
            return self.share.make(self.data.train, sampler.batch(epoch, step), "train", epoch, step)

        if workers is not None:
            return closing(Prefetcher(submit, sampler.steps, 2 * self.config.batch_workers))
        return prefetch_in_thread(make, sampler.steps)

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
        batch = self.share.on_device(batch)
        self.model.train()
        self.method.batch_is_shared = not self.share.is_whole
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
        return self.share.mean(total)

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

    def validate(self) -> dict[str, float]:
        """Return the metrics of the validation part, ``validation_loss`` at least."""
        return self._validation.metrics(self.state.epoch)

    def _probe(self) -> dict[str, float]:
        """Return the AUC of the online probe after the configured epochs."""
        every = self.config.online_probe
        return {} if not every or self.state.epoch % every else self._validation.probe()


def _parts(batch: Batch, count: int) -> list[Batch]:
    """Split a batch into ``count`` smaller ones."""
    parts = zip(*(value.chunk(count) for value in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]
