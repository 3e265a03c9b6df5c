"""The method that a run starts from: built by the config's names, or described by a config where it is an object."""

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
        name: Name of the encoder, where its network is not registered.
        settings: Other keys of the config.

    Raises:
        ConfigError: The method has no name, or its encoder has none.
    """
    known = METHODS.name_of(type(method))
    if known is None:
        raise ConfigError(f"{type(method).__name__} has no name. Decorate the class: @clocs.methods.register('name')")
    section = describe_encoder(method.encoder)
    if not is_registered(section):
        if name is None:
            raise ConfigError("the encoder's network is not registered: pass name=, under which the run keeps it")
        encoder = {"name": name, "registered": False, **section["options"]}
    else:
        encoder = {"name": section["name"], **without_frame_options(section["options"])}
    given = {"method": {"name": known, **options_of(method, exclude=RUN_ARGUMENTS)}, "encoder": encoder, "store": store}
    return resolve_config({**settings, **given})


def build_initial_method(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> Method:
    """Return the method that a run starts from, with its encoder."""
    encoder = build_initial_encoder(config, parts[0].policy)
    num_classes = len(parts[0].store.manifest.dataset["classes"]) if len(parts) == 1 else 0
    return build_method(config.method, encoder, num_classes)


def build_initial_encoder(config: PretrainConfig, policy: FramePolicy) -> Encoder:
    """Return the encoder that a run starts from."""
    torch.manual_seed(derived_seed(config.seed, "weights"))
    encoder = build_encoder(config.encoder["name"], config.encoder_options(policy.num_samples))
    if config.init_from is not None:
        start, about = load_encoder_folder(find_encoder_folder(config.init_from))
        _refuse_other_encoder(config, policy, about["encoder"])
        encoder.load_state_dict(start.state_dict())
    return encoder


def _refuse_other_encoder(config: PretrainConfig, policy: FramePolicy, given: dict[str, Any]) -> None:
    """Weights fit one shape; what to write in the config to have it is said."""
    kinds = given, {"name": config.encoder["name"], "options": config.encoder_options(policy.num_samples)}
    # Parsed: an option that is newer than the encoder has its default there.
    theirs, ours = ({"name": kind["name"], **parse_encoder(**kind)} for kind in kinds)
    others = {key: value for key, value in theirs.items() if ours.get(key) != value}
    if others:
        places = {"num_samples": "frames.num_samples"}
        told = " ".join(f"{places.get(key, f'encoder.{key}')}={value}" for key, value in others.items())
        raise ConfigError(
            f"initial: {config.init_from} is another encoder than this run trains; to have it, add: {told}"
        )


def warn_about_input_mismatch(init_from: str, policy: FramePolicy, unit: str) -> None:
    """At another rate or scale, weights fit as well, but what they know is lost."""
    known = load_encoder_folder(find_encoder_folder(init_from))[1]["input"]
    unknown_gain = known["normalization"] == "none" and (known.get("unit", "mV"), unit) == ("mV", "adu")
    theirs = {
        "sampling_rate": known["sampling_rate"],
        "normalization": "typical" if unknown_gain else known["normalization"],
    }
    others = {key: value for key, value in theirs.items() if getattr(policy, key) != value}
    if not others:
        return
    told, ours = (
        ", ".join(f"{key} {'not stated' if of[key] is None else of[key]}" for key in others)
        for of in (theirs, policy.model_dump())
    )
    if others.get("sampling_rate") is not None and policy.num_source_samples is not None:
        others["num_source_samples"] = "null"  # a policy has one or the other
    keys = " ".join(f"frames.{key}={value}" for key, value in others.items() if value is not None)
    advice = f"; to have them, add: {keys}" if keys else ""
    warnings.warn(f"initial: {init_from} was trained on frames of {told}, this run has {ours}{advice}", stacklevel=2)
