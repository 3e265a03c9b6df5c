"""Initial method and encoder of a run, and the config of a method object."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from clocs.core.errors import ConfigError
from clocs.core.options import options_of
from clocs.core.seeds import derived_seed
from clocs.encoders import Encoder, build_encoder
from clocs.encoders.encoder import describe_encoder, is_registered, parse_encoder
from clocs.methods import METHODS, Method, build_method
from clocs.methods.method import RUN_ARGUMENTS
from clocs.signals.framing import FramePolicy
from clocs.training.config import PretrainConfig, without_frame_options
from clocs.training.config_resolution import resolve_config
from clocs.training.data import TrainingStore
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.shipped import find_encoder_folder


def config_for_method(
    method: Method, store: Path, name: str | None = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> PretrainConfig:
    """Return the config of a run that trains a method object.

    Args:
        method: A registered method.
        store: Folder of the store.
        name: Name of the encoder, if its network is not registered.
        settings: Other keys of the config.

    Raises:
        ConfigError: The method is not registered, or its encoder has no name.
    """
    method_name = METHODS.name_of(type(method))
    if method_name is None:
        raise ConfigError(
            f"{type(method).__name__} has no name. Decorate the class with @clocs.methods.register('name')."
        )
    section = describe_encoder(method.encoder)
    if not is_registered(section):
        if name is None:
            raise ConfigError("The encoder's network is not registered. Pass name= to name it in the run.")
        encoder = {"name": name, "registered": False, **section["options"]}
    else:
        encoder = {"name": section["name"], **without_frame_options(section["options"])}
    sections = {
        "method": {"name": method_name, **options_of(method, exclude=RUN_ARGUMENTS)},
        "encoder": encoder,
        "store": store,
    }
    return resolve_config({**settings, **sections})


def build_initial_method(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> Method:
    """Build the method that a run starts from, with its encoder."""
    encoder = build_initial_encoder(config, parts[0].policy)
    num_classes = len(parts[0].store.manifest.dataset["classes"]) if len(parts) == 1 else 0
    return build_method(config.method, encoder, num_classes)


def build_initial_encoder(config: PretrainConfig, policy: FramePolicy) -> Encoder:
    """Build the encoder that a run starts from: random weights, or those of ``init_from``."""
    torch.manual_seed(derived_seed(config.seed, "weights"))
    encoder = build_encoder(config.encoder["name"], config.encoder_options(policy.num_samples))
    if config.init_from is not None:
        start, about = load_encoder_folder(find_encoder_folder(config.init_from))
        _refuse_other_encoder(config, policy, about["encoder"])
        encoder.load_state_dict(start.state_dict())
    return encoder


def _refuse_other_encoder(config: PretrainConfig, policy: FramePolicy, section: dict[str, Any]) -> None:
    """Refuse weights of an encoder with another name or other options."""
    sections = section, {"name": config.encoder["name"], "options": config.encoder_options(policy.num_samples)}
    # Parsing adds the defaults of options that are newer than the saved encoder.
    saved, configured = ({"name": each["name"], **parse_encoder(**each)} for each in sections)
    changes = {key: value for key, value in saved.items() if configured.get(key) != value}
    if changes:
        keys = {"num_samples": "frames.num_samples"}
        overrides = " ".join(f"{keys.get(key, f'encoder.{key}')}={value}" for key, value in changes.items())
        raise ConfigError(
            f"init_from: {config.init_from} differs from the encoder of this run. To use it, add: {overrides}"
        )


def warn_about_input_mismatch(init_from: str, policy: FramePolicy, unit: str) -> None:
    """Warn if the initial encoder was trained at another sampling rate or scale."""
    saved = load_encoder_folder(find_encoder_folder(init_from))[1]["input"]
    unknown_gain = saved["normalization"] == "none" and (saved.get("unit", "mV"), unit) == ("mV", "adu")
    expected = {
        "sampling_rate": saved["sampling_rate"],
        "normalization": "typical" if unknown_gain else saved["normalization"],
    }
    changes = {key: value for key, value in expected.items() if getattr(policy, key) != value}
    if not changes:
        return
    trained, configured = (
        ", ".join(f"{key} {'not stated' if values[key] is None else values[key]}" for key in changes)
        for values in (expected, policy.model_dump())
    )
    if changes.get("sampling_rate") is not None and policy.num_source_samples is not None:
        changes["num_source_samples"] = "null"  # a policy has one or the other
    overrides = " ".join(f"frames.{key}={value}" for key, value in changes.items() if value is not None)
    advice = f". To use the same, add: {overrides}" if overrides else ""
    warnings.warn(
        f"init_from: {init_from} was trained on frames of {trained}, this run has {configured}{advice}", stacklevel=2
    )
