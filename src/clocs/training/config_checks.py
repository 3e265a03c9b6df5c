"""Checks of configs for keys that contradict each other, the method or the hardware."""

from __future__ import annotations

import torch

from clocs.core.errors import ConfigError
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.methods import METHODS
from clocs.training.batches import DRAW_BLOCK
from clocs.training.config import PretrainConfig


def check_config(config: PretrainConfig) -> None:
    """Check that the keys of a config fit each other and the method.

    Raises:
        ConfigError: They do not.
    """
    name = config.method["name"]
    method = METHODS.get(name)
    if config.accumulate_batches > 1 and method.needs_global_batch:
        raise ConfigError(
            f"accumulate_batches={config.accumulate_batches}: {name} compares the instances of a batch, "
            "so smaller batches would change the loss. Use more ranks or a smaller batch_size."
        )
    if config.monitor == "auc" and not method.needs_labels:
        raise ConfigError(f"monitor=auc: {name} uses no labels, so there is no AUC. Set monitor=loss.")
    if config.label_fraction < 1 and not method.needs_labels:
        raise ConfigError(f"label_fraction={config.label_fraction}: {name} uses no labels. Leave label_fraction out.")
    if config.label_fraction < 1 and config.label_unit == "frames" and config.instances_per_patient:
        raise ConfigError("instances_per_patient cannot be used with label_unit=frames. Set label_unit=patients.")
    if config.shuffle == "blocks":
        _check_blocks(config)
    if isinstance(to_location(config.runs), ObjectPath):
        raise ConfigError(f"runs={config.runs}: a run needs a local folder. Set mirror=s3://bucket/folder to copy it.")


def _check_blocks(config: PretrainConfig) -> None:
    """Check that no other key orders the training instances."""
    others = {
        "alternate_stores": config.alternate_stores,
        "instances_per_patient": config.instances_per_patient,
        "label_unit=frames": config.label_fraction < 1 and config.label_unit == "frames",
    }
    for name in (name for name, is_set in others.items() if is_set):
        raise ConfigError(f"shuffle=blocks cannot be used with {name}. Leave one of them out.")


def check_hardware(config: PretrainConfig) -> None:
    """Check that ranks can share a batch, and that the device supports the precision.

    Raises:
        ConfigError: They cannot, or it does not.
    """
    ranks = config.devices * config.num_nodes
    if ranks > 1 and config.batch_size % (ranks * DRAW_BLOCK):
        raise ConfigError(
            f"A batch of {config.batch_size} cannot be shared by {ranks} ranks, because each needs a multiple of "
            f"{DRAW_BLOCK} instances. Set batch_size to a multiple of {ranks * DRAW_BLOCK}."
        )
    if config.shuffle == "blocks" and config.shuffle_lanes % ranks:
        raise ConfigError(
            f"{config.shuffle_lanes} lanes cannot be shared by {ranks} ranks, because each takes whole lanes. Set "
            "shuffle_lanes to a multiple of the number of ranks."
        )
    if config.precision == "16-mixed" and not torch.cuda.is_available():
        raise ConfigError("precision=16-mixed needs a GPU. Set precision=32-true or bf16-mixed.")
