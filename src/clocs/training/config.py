"""What a pre-training run is told; ready configs are a method's name and a dataset's."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from clocs.core.errors import ConfigError
from clocs.core.later import Later, later, without_unused
from clocs.datasets import DATASETS
from clocs.encoders.encoder import ENCODERS, EncoderOptions, parse_encoder
from clocs.methods import METHODS, parse_method
from clocs.training.labels import LabelDraw
from clocs.training.recommended import RECOMMENDED

OURS = "recommended"
"""In place of a method, in the name of a ready config."""
EXECUTION = frozenset({"store", "more_stores", "runs", "track", "threads", "devices", "nodes"})
"""Where and how a run is carried out: not part of what it is."""


class PretrainConfig(BaseModel):
    """One pre-training run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: dict[str, Any] = Field(default_factory=lambda: {"name": "cmsc"}, validate_default=True)
    """``name`` and the method's options."""
    encoder: dict[str, Any] = Field(default_factory=lambda: {"name": "cnn"}, validate_default=True)
    """``name`` and the encoder's options, but for embedding, channels and samples."""
    embedding: int = Field(default=128, gt=0)
    store: Path = Path("store")
    more_stores: tuple[Path, ...] = ()
    """Trained on together with ``store``, whose frames they take over, each with its own leads and split."""
    take_turns: Annotated[bool, Later()] = False
    """Whether each batch is of one store, as many of each; else batches mix them as chance has it."""
    split: str = "default"
    frames: dict[str, Any] = Field(default_factory=dict)
    """Fields of the dataset's frame policy to replace, e.g. ``{"normalisation": "none"}``."""
    leads: tuple[str, ...] = ()
    """Empty: the policy's."""
    initial: Annotated[str | None, Later()] = None
    """Start from this encoder (the ``best`` folder of a run), not from random weights."""
    patients: Annotated[float, Later()] = Field(default=1.0, gt=0, le=1)
    """Share of the training patients that is used: what would more of them give?"""
    fraction: Annotated[float, Later()] = Field(default=1.0, gt=0, le=1)
    """Of the training labels, for methods that use them."""
    label_draw: Annotated[LabelDraw, Later()] = "patients"
    seed: int = 0
    epochs: int = Field(default=400, ge=0)
    """0: the encoder as it starts, to compare with."""
    patience: int = Field(default=15, gt=0)
    """Epochs that are not better than the best before the run ends."""
    best_by: Annotated[Literal["loss", "auc"], Later()] = "loss"
    """What makes an epoch the best: validation loss or, where a method takes labels, validation AUC. With few labels,
    loss may rise while the order of the classes still gets better."""
    repeats: Annotated[int, Later()] = Field(default=1, gt=0)
    """Passes over the data in an epoch. Of few labels, one is over in some steps, and validation costs more than it."""
    steps: int | None = Field(default=None, gt=0)
    """End after this many steps, whatever the epoch."""
    batch: int = Field(default=256, gt=1)
    """Instances in the global batch, over all ranks."""
    same_patient: int = Field(default=0, ge=0)
    """Instances each patient brings to a batch; 0: as chance has it."""
    accumulate: int = Field(default=1, gt=0)
    optimiser: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Annotated[Literal["constant", "cosine"], Later()] = "constant"
    """``cosine``: the learning rate falls to zero at the last step that epochs and steps allow."""
    warmup_steps: Annotated[int, Later()] = Field(default=0, ge=0)
    """Steps over which the learning rate rises from zero first."""
    weight_decay: float = Field(default=0.0, ge=0)
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true"] = "32-true"
    checkpoint_steps: int = Field(default=100, gt=0)
    """Steps between checkpoints; there is one after every epoch, too."""
    runs: Path = Path("runs")
    track: tuple[Literal["tensorboard", "mlflow"], ...] = ()
    """Where metrics go besides the run's folder."""
    threads: int = Field(default=1, gt=0)
    devices: int = Field(default=1, gt=0)
    nodes: int = Field(default=1, gt=0)

    @field_validator("method")
    @classmethod
    def _method_spelled_out(cls, given: dict[str, Any]) -> dict[str, Any]:
        """With all options, so that a changed default changes the run's name."""
        try:
            method = parse_method(given)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return {"name": method.name, **method.model_dump(mode="json")}

    @field_validator("encoder")
    @classmethod
    def _encoder_spelled_out(cls, given: dict[str, Any]) -> dict[str, Any]:
        """With all options but those that follow from the rest of the config."""
        name, options = given.get("name", "cnn"), {key: value for key, value in given.items() if key != "name"}
        try:
            parsed = parse_encoder(str(name), options)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return {"name": name, **parsed.model_dump(mode="json", exclude=set(EncoderOptions.model_fields))}

    @field_validator("leads", "track", "more_stores", mode="before")
    @classmethod
    def _split_at_commas(cls, given: Any) -> Any:
        return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else given

    def identity(self) -> dict[str, Any]:
        """What the run is, as JSON."""
        whole = self.model_dump(mode="json", exclude=set(EXECUTION))
        whole["method"] = without_unused(whole["method"], later(METHODS.get(self.method["name"])))
        whole["encoder"] = without_unused(whole["encoder"], later(ENCODERS.get(self.encoder["name"]).options))
        return without_unused(whole, LATER)


LATER = later(PretrainConfig)
"""Keys that came after the first runs, with the value that leaves a run's name as it was."""


def ready_configs() -> list[str]:
    """Names of all ready configs: ``method-dataset``, and ``recommended-dataset``."""
    purpose = METHODS.get(RECOMMENDED["method"]["name"]).purpose
    recommended = [f"{OURS}-{dataset.name}" for dataset in DATASETS if purpose in dataset.frames]
    return recommended + [
        f"{method.name}-{dataset.name}"
        for method in METHODS
        for dataset in DATASETS
        if method.purpose in dataset.frames and (dataset.classes or not method.needs_labels)
    ]


def ready_config(name: str) -> dict[str, Any]:
    """A method on a dataset, with the paper's settings for it; or what we recommend beyond the paper."""
    known = ready_configs()
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise ConfigError(f"no config '{name}': neither a file nor METHOD-DATASET.{hint}")
    method, _, dataset = name.partition("-")
    if method == OURS:
        return {**copy.deepcopy(RECOMMENDED), "store": f"stores/{dataset}"}
    config: dict[str, Any] = {"method": {"name": method}, "store": f"stores/{dataset}"}
    if name == "mtssl-chapman":  # the paper: more tasks kept the network from converging
        tasks = ("scaling", "flip_amplitude", "flip_time")
        config["method"]["perturbations"] = [{"name": task, "probability": 1.0} for task in tasks]
    if name == "supervised-physionet2020" or name == "supervised-ptbxl":
        config["method"]["multi_label"] = True
    if dataset == "cardiology":  # in raw steps: noise can only be given by its relative size
        config["batch"] = 16
        steps = parse_method(config["method"]).perturbations
        noise = {"name": "gaussian", "relative": True, "sigma": 0.05}
        config["method"]["perturbations"] = [noise if step["name"] == "gaussian" else step for step in steps]
    if dataset in ("synthetic", "ludb"):
        config |= {"batch": 64, "epochs": 20, "learning_rate": 1e-3}
    return config


def resolve(config: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> PretrainConfig:
    """A ready config's name, a YAML or JSON file, or a mapping, with ``key.key=value`` laid over it.

    Everything that is wrong is said at once, unknown keys with the nearest known one.
    """
    values = _read(config)
    for text in overrides:
        key, found, value = text.partition("=")
        if not found:
            raise ConfigError(f"'{text}' is not key=value")
        _lay_over(values, key.split("."), yaml.safe_load(value), text)
    try:
        return PretrainConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(item) for item in error.errors())) from error


def _read(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, Mapping):
        return {**config}
    path = Path(config)
    if not path.is_file():
        return ready_config(str(config))
    try:
        values = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold key: value pairs")
    if "base" in values:
        return {**ready_config(str(values.pop("base"))), **values}
    return values


def _lay_over(values: dict[str, Any], keys: list[str], value: Any, text: str) -> None:
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"'{text}': '{key}' has no keys below it")
        values[key] = values = dict(inner)
    if keys == ["method"] and isinstance(value, str):
        value = {"name": value}
    values[keys[-1]] = value


def _explain(item: Any) -> str:
    key = ".".join(map(str, item["loc"]))
    if item["type"] != "extra_forbidden":
        return f"{key}: {item['msg']}"
    near = get_close_matches(key, PretrainConfig.model_fields, n=1)
    return f"unknown key '{key}'" + (f", did you mean '{near[0]}'?" if near else "")
