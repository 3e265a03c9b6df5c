"""Pre-training: one function from a config to an encoder, on one core or many ranks."""

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

from clocs.core.errors import ConfigError, EngineError, StoreError
from clocs.core.files import lock_folder
from clocs.encoders.encoder import describe_encoder, is_registered
from clocs.methods import METHODS, Method
from clocs.store.duplicates import Keys
from clocs.store.reader import StoreLike
from clocs.training.batches import DRAW_BLOCK
from clocs.training.checkpoint import Checkpoint, newest_undamaged
from clocs.training.config import PretrainConfig
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
    """Pre-train an encoder and return what the run found; a finished run is only looked up.

    Killed, the same call continues from the newest undamaged checkpoint, bit for bit as if it had not been.

    Args:
        config: A ready config's name (``cmsc-chapman``), a YAML file, a mapping; or a method built from an encoder,
            which is then trained from the weights that it has.
        overrides: ``key=value`` strings laid over the config. With a method: the store to train on, or its folder.
        name: Name of the encoder of a method, where its network is not registered. To load it, pass the network again.
        progress: Called after every step and epoch with what is known then.
        settings: Keys of the config, with a method: ``max_epochs=20, batch_size=64, leads=("I", "II")``.

    Returns:
        ``run`` and ``best``, the folders of the run and of its best encoder; ``max_epochs``, ``steps``, ``best_epoch``,
        ``validation_loss``, ``frames_per_second``; and ``resumed_from``, the step of the checkpoint from which the
        run continued, None where it began at its start.

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
        raise ConfigError("a store, name= and settings go with a method object; write key=value overrides of a config")
    else:
        values = config.model_dump(mode="json") if isinstance(config, PretrainConfig) and overrides else config
        method, options = None, values if isinstance(values, PretrainConfig) else resolve_config(values, overrides)
    _refuse_accumulation(options)
    _refuse_label_options(options)
    parts = open_training_stores(options)
    run = _named_run(options, parts, method)
    done = run.result()
    if done is None:
        torch.set_num_threads(options.num_threads)
        done = _run(options, parts, run, method, progress)
        _leave_group()
        return {**done, "run": str(run.folder), "already_finished": False}
    _refuse_lost_best(run)
    moved = {"best": str(run.best), "run": str(run.folder)}  # since it was finished, perhaps
    return {**done, **moved, "already_finished": True, "resumed_from": None}


def _folder(store: Sequence[str] | StoreLike) -> StoreLike:
    if isinstance(store, str | os.PathLike):
        return store
    raise ConfigError("pretrain(method, store): pass the store to train on, or its folder")


def _named_run(config: PretrainConfig, parts: tuple[TrainingStore, ...], method: Method | None) -> Run:
    """Return the run's folder, named by the changed values, the data and the given initial weights."""
    initial = None if method is None else weights_hash(method)
    if config.init_from is not None:
        initial = str(load_encoder_folder(find_encoder_folder(config.init_from))[1]["weights_sha256"])
    label = f"{config.method['name']}-{'-'.join(part.name for part in parts)}"
    origin = {"sources": [part.origin for part in parts], "initial": initial}
    described = {**config.describe(), **describe_stores(parts), "initial": initial}
    return Run(config.runs, label, config.identity(), origin, described)


def _leave_group() -> None:
    """Close the ranks' connections. Left open, a rank may abort as it exits; closed while a distributed
    model is alive, it may hang: so this comes after the run's objects are gone."""
    if torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()


def _refuse_accumulation(config: PretrainConfig) -> None:
    name = config.method["name"]
    if config.accumulate_batches > 1 and METHODS.get(name).needs_global_batch:
        raise ConfigError(
            f"accumulate_batches={config.accumulate_batches}: {name} compares the instances of a batch with each "
            "other, so a "
            "sum over small batches is another loss, with fewer negatives. Use more ranks, or a smaller batch."
        )


def _refuse_label_options(config: PretrainConfig) -> None:
    name = config.method["name"]
    needs_labels = METHODS.get(name).needs_labels
    if config.monitor == "auc" and not needs_labels:
        raise ConfigError(f"monitor=auc: {name} uses no labels, so there is no AUC; use best_by=loss")
    if config.label_fraction < 1 and not needs_labels:
        raise ConfigError(f"label_fraction={config.label_fraction}: {name} uses no labels, so it would change nothing")
    if config.label_fraction < 1 and config.label_unit == "frames" and config.instances_per_patient:
        raise ConfigError("same_patient does not go with label_draw=frames; use label_draw=patients")


def _run(
    config: PretrainConfig, parts: tuple[TrainingStore, ...], run: Run, method: Method | None, progress: Progress | None
) -> dict[str, Any]:
    fabric = _fabric(config, run)
    with _alone(run):
        start = from_rank_zero(lambda: _start(run))
        usual = torch.get_default_dtype()
        try:
            result = _train(config, parts, run, method, start, fabric, progress)
        finally:
            torch.set_default_dtype(usual)
    return {**result, "resumed_from": None if start is None else start.step}


@contextlib.contextmanager
def _alone(run: Run) -> Iterator[None]:
    """Hold the run's folder on rank 0, for all ranks; where another process does, all of them are refused."""
    with contextlib.ExitStack() as held:
        from_rank_zero(lambda: held.enter_context(lock_folder(run.folder)))
        yield


def _start(run: Run) -> Checkpoint | None:
    """Choose the checkpoint to continue from."""
    chosen = newest_undamaged(run.checkpoints, run.metrics.path)
    if chosen is not None and chosen.state["best_epoch"] >= 0:
        _refuse_lost_best(run)
    return chosen


def _say_start(run: Run, start: Checkpoint | None) -> None:
    """Write down, and say, where a run that was begun before continues."""
    if start is None:
        return
    run.resumes.mend()
    why = "the newest undamaged checkpoint" if start.damaged else "the newest checkpoint"
    run.resumes.append(step=start.step, checkpoint=start.tensors.stem, why=why, damaged=list(start.damaged))
    _LOGGER.info("run %s continues after step %d, %s", run.folder, start.step, why)
    if start.damaged:
        warnings.warn(
            f"{'; '.join(start.damaged)}. The run continues after step {start.step} instead, from {start.tensors}",
            stacklevel=2,
        )


def _refuse_lost_best(run: Run) -> None:
    """An encoder that was found and deleted since comes back only by training again."""
    lost = [name for name in REQUIRED if not (run.best / name).exists()]
    if lost:
        raise StoreError(
            f"run {run.folder} had found an encoder, but {' and '.join(lost)} of {run.best} cannot be found. To train "
            f"it again from its start, delete {run.folder}"
        )


def _train(
    config: PretrainConfig,
    parts: tuple[TrainingStore, ...],
    run: Run,
    given: Method | None,
    start: Checkpoint | None,
    fabric: Fabric,
    progress: Progress | None,
) -> dict[str, Any]:
    if fabric.is_global_zero:
        warn_if_bfloat16_is_slow(config.precision, fabric.device)
        run.begin()
        _say_start(run, start)
    fabric.barrier()
    seen = _seen(config, parts)
    if config.precision == "64-true":  # else Fabric would hand a model's outputs on as float32
        torch.set_default_dtype(torch.float64)
    method = build_initial_method(config, parts) if given is None else given
    data = build_training_data(config, method, parts)
    if config.init_from is not None and fabric.is_global_zero:
        warn_about_input_mismatch(config.init_from, parts[0].policy, data.train.unit)
    loop = Loop(config, method, data, run, fabric)
    try:
        about = _about(config, method, data, parts, run)
        if fabric.is_global_zero:
            about["seen_sha256"] = save_seen_keys(run.best, seen)
        state = loop.train(about, start, progress)
    except RuntimeError as error:
        if fabric.world_size > 1:
            raise EngineError(
                f"rank {fabric.global_rank} of {fabric.world_size} stops: {str(error).splitlines()[0][:200]}. "
                "If another rank ended, the same command resumes the run from its last checkpoint."
            ) from error
        raise
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


def _seen(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> Keys:
    """Of this run, and of what it started from."""
    keys = seen_keys_of_stores(parts)[: None if config.max_epochs else 0]
    if config.init_from is None:
        return keys
    folder = find_encoder_folder(config.init_from)
    about = load_encoder_folder(folder)[1]
    if "seen_sha256" not in about and not was_trained_on_split(about, parts[0].store, parts[0].split):
        raise ConfigError(f"initial: {folder} does not say which recordings it has seen; train it again")
    return extend_seen_keys(folder, about, [keys])


def _about(
    config: PretrainConfig, method: Method, data: TrainingData, parts: tuple[TrainingStore, ...], run: Run
) -> dict[str, Any]:
    """Everything needed to use the encoder, and where it comes from."""
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


def _fabric(config: PretrainConfig, run: Run) -> Fabric:
    ranks = config.devices * config.num_nodes
    if ranks > 1 and config.batch_size % (ranks * DRAW_BLOCK):
        raise ConfigError(
            f"a batch of {config.batch_size} cannot be shared by {ranks} ranks: each needs a multiple of {DRAW_BLOCK} "
            f"instances, so make it a multiple of {ranks * DRAW_BLOCK}"
        )
    if config.precision == "16-mixed" and not torch.cuda.is_available():
        raise ConfigError("precision=16-mixed is for GPUs; a processor takes 32-true, or bf16-mixed where it has that")
    from lightning_fabric import Fabric  # seconds: who trains waits for it, and nobody else

    from clocs.training.loggers import build_logger

    fabric = Fabric(
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=config.devices,
        num_nodes=config.num_nodes,
        strategy="ddp" if ranks > 1 else "auto",
        precision=config.precision,
        loggers=[build_logger(name, run) for name in config.logger],
    )
    fabric.launch()
    return fabric
