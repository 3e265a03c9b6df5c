"""Pre-training of encoders from a config or a method, on one rank or several."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch

from clocs.core.errors import ConfigError, EngineError, IntegrityError, StoreError
from clocs.core.storage.files import lock_folder
from clocs.encoders.encoder import describe_encoder, is_registered
from clocs.methods import Method
from clocs.store.duplicates import Keys
from clocs.store.reader import StoreLike
from clocs.training.checkpoint import Checkpoint, newest_undamaged
from clocs.training.config import PretrainConfig
from clocs.training.config_checks import check_config, check_hardware
from clocs.training.config_resolution import resolve_config
from clocs.training.data import (
    TrainingData,
    TrainingStore,
    build_training_data,
    describe_stores,
    open_training_stores,
    seen_keys_of_stores,
)
from clocs.training.distributed import from_rank_zero
from clocs.training.encoder_folder import REQUIRED
from clocs.training.encoder_module import load_encoder_folder, weights_hash
from clocs.training.initialization import build_initial_method, config_for_method, warn_about_input_mismatch
from clocs.training.loop import Loop, Progress
from clocs.training.onnx_export import finish_encoder
from clocs.training.precision import warn_if_bfloat16_is_slow
from clocs.training.runs import Run
from clocs.training.seen_recordings import extend_seen_keys, save_seen_keys, was_trained_on_split
from clocs.training.shipped import find_encoder_folder

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_LOGGER = logging.getLogger(__name__)


@overload
def pretrain(
    config: str | Path | Mapping[str, Any] | PretrainConfig,
    overrides: Sequence[str] = (),
    *,
    progress: Progress | None = None,
) -> dict[str, Any]: ...


@overload
def pretrain(
    config: Method, overrides: StoreLike, *, name: str | None = None, progress: Progress | None = None, **settings: Any
) -> dict[str, Any]: ...


def pretrain(
    config: str | Path | Mapping[str, Any] | PretrainConfig | Method,
    overrides: Sequence[str] | StoreLike = (),
    *,
    name: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Pre-train an encoder.

    If the run is already finished, its result is returned. After an interruption, the same call continues from the
    newest undamaged checkpoint, and gives bit for bit the results of an uninterrupted run.

    Args:
        config: Name of a ready config (``cmsc-chapman``), a YAML file, or a mapping; see
            :doc:`/reference/configuration` for all keys. Or a method built from an encoder, which is
            trained from its current weights.
        overrides: Strings ``key=value`` that override keys of the config. With a method: the store to train on, or its
            folder.
        name: Name of the encoder of a method, if its network is not registered. Loading it needs the network again.
        progress: Callback after every step and epoch, which takes a mapping of current metrics.
        settings: Keys of the config for a method, such as ``max_epochs=20, batch_size=64, leads=("I", "II")``.

    Returns:
        ``run`` and ``best``, the folders of the run and of its best encoder; ``method``, ``epochs``, ``steps``,
        ``best_epoch``, ``validation_loss``, ``frames_per_second``; ``already_finished``, whether the run was finished
        before; and ``resumed_from``, the step of the checkpoint from which the run continued, or None.

    Raises:
        ConfigError: The config is invalid, or does not fit the store.
        LeakError: Stores share recordings or patients.
        IntegrityError: Files of the run or of the initial encoder are damaged.
        StoreError: The run has lost its best encoder.

    Example:
        >>> import clocs
        >>> from clocs import encoders, methods
        >>> store = clocs.ingest("synthetic", None, "stores/synthetic", options={"num_records": 40, "leads": 12})
        >>> split = clocs.split(store)
        >>> method = methods.CMSC(encoders.ResNet(in_channels=2, embedding_dim=16, width=4, depth=2))
        >>> found = clocs.pretrain(method, store, leads="I,II", batch_size=16, max_steps=2)
        >>> found["steps"]
        2
    """
    if isinstance(config, Method):
        method, options = config, config_for_method(config, Path(_folder(overrides)), name, settings)
    elif isinstance(overrides, str | os.PathLike) or name is not None or settings:
        raise ConfigError("A store, name= and settings need a method object. Pass key=value overrides for a config.")
    else:
        values = config.model_dump(mode="json") if isinstance(config, PretrainConfig) and overrides else config
        method, options = None, values if isinstance(values, PretrainConfig) else resolve_config(values, overrides)
    check_config(options)
    parts = open_training_stores(options)
    run = _open_run(options, parts, method)
    result = run.result()
    if result is None or (run.mirror is not None and not run.mirror.is_finished()):
        torch.set_num_threads(options.num_threads)
        result = _run(options, parts, run, method, progress)
        _close_process_group()
        return {**result, "run": str(run.folder), "best": str(run.best)}
    _check_best_exists(run)
    folders = {"best": str(run.best), "run": str(run.folder)}  # the run may have been moved
    return {**result, **folders, "already_finished": True, "resumed_from": None}


def _folder(store: Sequence[str] | StoreLike) -> StoreLike:
    if isinstance(store, str | os.PathLike):
        return store
    raise ConfigError("pretrain(method, store): pass the store to train on, or its folder")


def _open_run(config: PretrainConfig, parts: tuple[TrainingStore, ...], method: Method | None) -> Run:
    """Return the run, named by its changed values, its data and its initial weights."""
    initial = None if method is None else weights_hash(method)
    if config.init_from is not None:
        initial = str(load_encoder_folder(find_encoder_folder(config.init_from))[1]["weights_sha256"])
    label = f"{config.method['name']}-{'-'.join(part.name for part in parts)}"
    origin = {"sources": [part.origin for part in parts], "initial": initial}
    described = {**config.describe(), **describe_stores(parts), "initial": initial}
    return Run(config.runs, label, config.identity(), origin, described, config.mirror)


def _close_process_group() -> None:
    """Close the connections between ranks, after the run's objects are gone.

    With open connections a rank may abort at its exit. Closing them while a distributed model is alive may hang.
    """
    if torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()


def _run(
    config: PretrainConfig, parts: tuple[TrainingStore, ...], run: Run, method: Method | None, progress: Progress | None
) -> dict[str, Any]:
    fabric = build_fabric(config, run)
    with _locked(run):
        found = from_rank_zero(lambda: _synchronize(run))
        if found is not None:
            return {**found, "already_finished": True, "resumed_from": None}
        start = from_rank_zero(lambda: _choose_checkpoint(run))
        dtype = torch.get_default_dtype()
        try:
            result = _train(config, parts, run, method, start, fabric, progress)
        finally:
            torch.set_default_dtype(dtype)
    return {**result, "already_finished": False, "resumed_from": None if start is None else start.step}


@contextlib.contextmanager
def _locked(run: Run) -> Iterator[None]:
    """Lock the run's folder on rank 0, for all ranks. If another process has locked it, all ranks raise an error."""
    with contextlib.ExitStack() as stack:
        from_rank_zero(lambda: stack.enter_context(lock_folder(run.folder)))
        yield


def _synchronize(run: Run) -> dict[str, Any] | None:
    """Bring the run and its copy in a bucket to the newer state of the two. Return the result of a finished run."""
    if run.mirror is not None:
        try:
            newest = newest_undamaged(run.checkpoints, run.metrics.path)
        except IntegrityError:  # replaced by the copy if there is one, otherwise raised again later
            newest = None
        run.mirror.take_over(-1 if newest is None else newest.step)
    return run.result()


def _choose_checkpoint(run: Run) -> Checkpoint | None:
    """Return the checkpoint to continue from; None for a new run."""
    chosen = newest_undamaged(run.checkpoints, run.metrics.path)
    if chosen is not None and chosen.state["best_epoch"] >= 0:
        _check_best_exists(run)
    return chosen


def _log_resume(run: Run, start: Checkpoint | None) -> None:
    """Log the checkpoint from which a run continues, and warn about damaged ones."""
    if start is None:
        return
    run.resumes.drop_damaged_lines()
    why = "the newest undamaged checkpoint" if start.damaged else "the newest checkpoint"
    run.resumes.append(step=start.step, checkpoint=start.tensors.stem, why=why, damaged=list(start.damaged))
    _LOGGER.info("run %s continues after step %d, %s", run.folder, start.step, why)
    if start.damaged:
        warnings.warn(
            f"{'; '.join(start.damaged)}. The run continues after step {start.step} instead, from {start.tensors}.",
            stacklevel=2,
        )


def _check_best_exists(run: Run) -> None:
    """Refuse a run that has lost its best encoder, which only training can restore."""
    missing = [name for name in REQUIRED if not (run.best / name).exists()]
    if missing:
        raise StoreError(
            f"Run {run.folder} had an encoder, but {' and '.join(missing)} of {run.best} cannot be found. "
            f"Delete {run.folder} to train it again from its start."
        )


def _train(
    config: PretrainConfig,
    parts: tuple[TrainingStore, ...],
    run: Run,
    method: Method | None,
    start: Checkpoint | None,
    fabric: Fabric,
    progress: Progress | None,
) -> dict[str, Any]:
    if fabric.is_global_zero:
        warn_if_bfloat16_is_slow(config.precision, fabric.device)
        run.begin()
        _log_resume(run, start)
    fabric.barrier()
    if config.precision == "64-true":  # otherwise Fabric would return a model's outputs as float32
        torch.set_default_dtype(torch.float64)
    method = build_initial_method(config, parts) if method is None else method
    data = build_training_data(config, method, parts)
    if config.init_from is not None and fabric.is_global_zero:
        warn_about_input_mismatch(config.init_from, parts[0].policy, data.train.unit)
    schedule = data.schedule(fabric.global_rank, fabric.world_size, config.devices, config.batch_workers)
    try:
        loop = Loop(config, method, data, run, fabric, schedule)
        about = _about(config, method, data, parts, run)
        if fabric.is_global_zero:
            about["seen_sha256"] = save_seen_keys(run.best, _seen_keys(config, parts))
        state = loop.train(about, start, progress)
    except RuntimeError as error:
        if fabric.world_size > 1:
            raise EngineError(
                f"Rank {fabric.global_rank} of {fabric.world_size} stopped: {str(error).splitlines()[0][:200]}. "
                "If another rank ended, the same command resumes the run from its last checkpoint."
            ) from error
        raise
    finally:
        if schedule is not None:
            schedule.close()
    result = {
        "method": config.method["name"],
        "best": str(run.best),
        "epochs": min(state.epoch, config.max_epochs),
        "steps": state.step,
        "best_epoch": state.best_epoch,
        "validation_loss": state.best_loss,
        "frames_per_second": run.speed(),
    }
    if fabric.is_global_zero:
        if config.onnx:
            finish_encoder(run.best, None if is_registered(config.encoder) else method.encoder)
        run.finish(result)
        for logger in fabric.loggers:
            logger.finalize("success")
    fabric.barrier()
    return result


def _seen_keys(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> Keys:
    """Return the keys of the recordings that this run and its initial encoder have seen."""
    keys = seen_keys_of_stores(parts)[: None if config.max_epochs else 0]
    if config.init_from is None:
        return keys
    folder = find_encoder_folder(config.init_from)
    about = load_encoder_folder(folder)[1]
    if "seen_sha256" not in about and not was_trained_on_split(about, parts[0].store, parts[0].split):
        raise ConfigError(f"init_from: {folder} does not list the recordings that it has seen. Train it again.")
    return extend_seen_keys(folder, about, [keys])


def _about(
    config: PretrainConfig, method: Method, data: TrainingData, parts: tuple[TrainingStore, ...], run: Run
) -> dict[str, Any]:
    """Return the config of the encoder: all that is needed to use it, and its origin."""
    policy = parts[0].policy
    return {
        "format": "clocs-encoder-2",
        "encoder": {**describe_encoder(method.encoder), "name": config.encoder["name"]},
        "input": {
            "unit": data.train.unit,
            "sampling_rate": policy.sampling_rate,
            "num_samples": policy.num_samples,
            "leads": list(data.train.leads),
            "normalization": policy.normalization,
            "policy": policy.model_dump(mode="json"),
            "lead_dropout": method.drops_leads,
        },
        "training": {**run.config, "dataset": " + ".join(part.name for part in parts)},
        "licence": "; ".join(dict.fromkeys(part.store.manifest.dataset["licence"] for part in parts)),
    }


def build_fabric(config: PretrainConfig, run: Run) -> Fabric:
    """Return the Fabric of a run, which places modules on devices and connects ranks."""
    check_hardware(config)
    from lightning_fabric import Fabric  # the import takes seconds, and only training needs it

    from clocs.training.loggers import build_logger

    fabric = Fabric(
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=config.devices,
        num_nodes=config.num_nodes,
        strategy="ddp" if config.devices * config.num_nodes > 1 else "auto",
        precision=config.precision,
        loggers=[build_logger(name, run) for name in config.logger],
    )
    fabric.launch()
    return fabric
