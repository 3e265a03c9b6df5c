"""What a pre-training run is told; ready configs are a method's name and a dataset's."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from clocs.core.errors import ConfigError
from clocs.core.options import option_names, try_validate
from clocs.core.run_identity import changed_values
from clocs.datasets import DATASETS, Dataset
from clocs.encoders.encoder import ENCODERS, changed_encoder_options, is_registered, parse_encoder
from clocs.methods import METHODS, Method, changed_method, parse_method
from clocs.methods.method import GIVEN
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import canonical_lead
from clocs.training.labels import LabelDraw
from clocs.training.recommended import RECOMMENDED

OURS = "recommended"
"""In place of a method, in the name of a ready config."""
EXECUTION = frozenset(
    {
        "store",
        "extra_stores",
        "runs",
        "logger",
        "online_probe",
        "onnx",
        "num_threads",
        "devices",
        "num_nodes",
        "checkpoint_every",
    }
)
"""Where and how a run is carried out: not part of what it is."""
SECTIONS: dict[str, str | None] = {"method": "cmsc", "encoder": "cnn", "frames": None}
"""Keys with keys below them, and whose those are unless a ``name`` says otherwise."""
FROM_FRAMES = ("num_samples",)
"""Options of an encoder that follow from the frame policy."""
OF_PATCHES = {"name": "patch_transformer", "embedding_dim": 96, "head": "none"}
"""The encoder of ready configs whose method needs one of patches. Its embedding is the mean of the tokens."""
OF_TOKENS = {"name": "resnet", "embedding_dim": 192, "head": "none"}
"""The encoder of ready configs whose method trains tokens only. Its embedding is their mean and maximum over time."""


class PretrainConfig(BaseModel):
    """One pre-training run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: dict[str, Any] = Field(default_factory=lambda: {"name": SECTIONS["method"]}, validate_default=True)
    """``name`` and the method's options."""
    encoder: dict[str, Any] = Field(default_factory=lambda: {"name": SECTIONS["encoder"]}, validate_default=True)
    """``name`` and the encoder's options, except for ``num_samples``, which follows from the frame policy."""
    store: Path = Path("store")
    extra_stores: tuple[Path, ...] = ()
    """Trained on together with ``store``, whose frames they take over, each with its own leads and split."""
    alternate_stores: bool = False
    """Whether each batch is of one store, as many of each; else batches mix them as chance has it."""
    split: str = "default"
    frames: dict[str, Any] = Field(default_factory=dict)
    """Fields of the dataset's frame policy to replace, e.g. ``{"normalisation": "none"}``."""
    leads: tuple[str, ...] = ()
    """Empty: the policy's."""
    init_from: str | None = None
    """Start from this encoder (a shipped one's name, or a folder), not from random weights."""
    patient_fraction: float = Field(default=1.0, gt=0, le=1)
    """Share of the training patients that is used: what would more of them give?"""
    label_fraction: float = Field(default=1.0, gt=0, le=1)
    """Of the training labels, for methods that use them."""
    label_unit: LabelDraw = "patients"
    seed: int = Field(default=0, ge=0)
    max_epochs: int = Field(default=400, ge=0)
    """0: the encoder as it starts, to compare with."""
    patience: int = Field(default=15, gt=0)
    """Epochs that are not better than the best before the run ends."""
    monitor: Literal["loss", "auc"] = "loss"
    """What makes an epoch the best: validation loss or, where a method takes labels, validation AUC. With few labels,
    loss may rise while the order of the classes still gets better."""
    passes_per_epoch: int = Field(default=1, gt=0)
    """Passes over the data in an epoch. Of few labels, one is over in some steps, and validation costs more than it."""
    max_steps: int | None = Field(default=None, gt=0)
    """End after this many steps, whatever the epoch."""
    batch_size: int = Field(default=256, gt=1)
    """Instances in the global batch, over all ranks."""
    instances_per_patient: int = Field(default=0, ge=0)
    """Instances each patient brings to a batch; 0: as chance has it."""
    accumulate_batches: int = Field(default=1, gt=0)
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    """``cosine``: the learning rate falls to zero at the last step that epochs and steps allow."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from zero first."""
    weight_decay: float = Field(default=0.0, ge=0)
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true"] = "32-true"
    checkpoint_every: int = Field(default=100, gt=0)
    """Steps between checkpoints; there is one after every epoch, too."""
    runs: Path = Path("runs")
    logger: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Where metrics go besides the run's folder."""
    online_probe: int = Field(default=0, ge=0)
    """Epochs between fits of a linear probe on labelled frames, whose validation AUC is logged; 0: no probe. Training
    never depends on it."""
    onnx: bool = True
    """Write the best encoder's ONNX file when the run ends, by which it runs without torch. It takes seconds: a run
    whose encoder is only evaluated needs none."""
    num_threads: int = Field(default=1, gt=0)
    devices: int = Field(default=1, gt=0)
    num_nodes: int = Field(default=1, gt=0)

    @field_validator("method")
    @classmethod
    def _method_spelled_out(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Spell out all options."""
        try:
            return parse_method(given)
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @field_validator("encoder")
    @classmethod
    def _encoder_spelled_out(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Spell out all options except those that follow from the frame policy."""
        if not is_registered(given):
            return dict(given)
        name = str(given.get("name", SECTIONS["encoder"]))
        options = {key: value for key, value in given.items() if key != "name"}
        if options.keys() & FROM_FRAMES:
            raise ValueError("num_samples cannot be set here: write frames.num_samples=N for the samples of a frame")
        try:
            return {"name": name, **parse_encoder(name, options, given=FROM_FRAMES)}
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @field_validator("leads", "logger", "extra_stores", mode="before")
    @classmethod
    def _split_at_commas(cls, given: Any) -> Any:
        return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else given

    @field_validator("leads")
    @classmethod
    def _leads_spelled_alike(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        """However they are written, so that a run has one name."""
        return tuple(map(canonical_lead, given))

    def identity(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, without where and how the run is carried out, as JSON.

        ``init_from`` is left out: the hash of its weights is part of the run's origin.
        """
        values = changed_values(self, exclude={*EXECUTION, "method", "encoder", "init_from"})
        name, options = self.encoder["name"], self.encoder_options()
        changed = changed_encoder_options(name, options, given=FROM_FRAMES) if is_registered(self.encoder) else options
        values["encoder"] = {"name": name, **changed}
        values["method"] = changed_method(self.method)
        return values

    def encoder_options(self, num_samples: int | None = None) -> dict[str, Any]:
        """Return the options of the encoder.

        Args:
            num_samples: Samples of a frame, added for an encoder that needs them; None leaves them out.
        """
        options = {key: value for key, value in self.encoder.items() if key != "name"}
        if num_samples is not None and "num_samples" in option_names(ENCODERS.get(self.encoder["name"])):
            options["num_samples"] = num_samples
        return options

    def describe(self) -> dict[str, Any]:
        """Return all values, defaults spelled out, without where and how the run is carried out, as JSON."""
        return self.model_dump(mode="json", exclude=set(EXECUTION))


def without_frame_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoder's options without those that follow from the frame policy."""
    return {name: value for name, value in options.items() if name not in FROM_FRAMES}


def ready_configs() -> list[str]:
    """Names of all ready configs: ``method-dataset``, and ``recommended-dataset``."""
    return ["-".join(pair) for pair in _ready_pairs()]


def _ready_pairs() -> list[tuple[str, str]]:
    """Method and dataset of each ready config; either's name may have a hyphen in it."""
    recommended = METHODS.get(RECOMMENDED["method"]["name"])
    return [(OURS, dataset.name) for dataset in DATASETS if _goes_with(recommended, dataset)] + [
        (name, dataset.name)
        for name in METHODS.names()
        for dataset in DATASETS
        if _goes_with(METHODS.get(name), dataset)
    ]


def _goes_with(method: type[Method], dataset: Dataset) -> bool:
    """Return whether a dataset has the frames that a method takes, labels if it needs them, and leads to compare."""
    if method.frame_policy not in dataset.frames or (method.needs_labels and not dataset.classes):
        return False
    policy = dataset.frames[method.frame_policy]
    return not method.leads_as_views or len(policy.leads) != 1 or policy.num_segments > 1


def ready_config(name: str) -> dict[str, Any]:
    """A method on a dataset, with the paper's settings for it; or what we recommend beyond the paper."""
    known = {"-".join(pair): pair for pair in reversed(_ready_pairs())}  # of two with one name, the first
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise ConfigError(f"no config '{name}': neither a file nor METHOD-DATASET.{hint}")
    method, dataset = known[name]
    if method == OURS:
        return {**copy.deepcopy(RECOMMENDED), "store": f"stores/{dataset}"}
    config: dict[str, Any] = {"method": {"name": method}, "store": f"stores/{dataset}"}
    if METHODS.get(method).needs_patches:
        config["encoder"] = dict(OF_PATCHES)
    elif METHODS.get(method).needs_tokens:
        config["encoder"] = dict(OF_TOKENS)
    if name == "mtssl-chapman":  # the paper: more tasks kept the network from converging
        config["method"]["augmentations"] = ["scaling", "flip_amplitude", "flip_time"]
    if name == "supervised-physionet2020" or name == "supervised-ptbxl":
        config["method"]["multi_label"] = True
    if dataset == "cardiology":  # in raw steps: noise can only be given by its relative size
        config["batch_size"] = 16
        steps = parse_method(config["method"])["augmentations"]
        noise = {"name": "gaussian_noise", "relative": True, "sigma": 0.05}
        config["method"]["augmentations"] = [noise if step["name"] == noise["name"] else step for step in steps]
    if dataset in ("synthetic", "ludb"):
        config |= {"batch_size": 64, "max_epochs": 20, "learning_rate": 1e-3}
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
        parsed, keys = _value(value, text), key.split(".")
        values = _laid_over(values, {key: parsed}) if len(keys) == 1 else _with_key(values, keys, parsed, text)
    below = {name: f"method.{name}" for method in METHODS for name in option_names(method, exclude=GIVEN)}
    below |= {name: f"encoder.{name}" for encoder in ENCODERS for name in option_names(encoder, exclude=FROM_FRAMES)}
    below |= {name: f"frames.{name}" for name in FramePolicy.model_fields}
    made, wrong = try_validate(PretrainConfig, values, below)
    if made is None:
        raise ConfigError("; ".join(wrong))
    return made


def _read(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    values = config if isinstance(config, Mapping) else _loaded(Path(config))
    if values is None:
        return ready_config(str(config))
    given = {key: value for key, value in values.items() if key != "base"}
    return _laid_over(ready_config(str(values["base"])) if "base" in values else {}, given)


def _loaded(path: Path) -> dict[str, Any] | None:
    """What a file says; None where there is none."""
    if not path.is_file():
        return None
    try:
        values = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold key: value pairs")
    return values


def _value(text: str, whole: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"'{whole}': the value is not YAML: {getattr(error, 'problem', error)}") from error


def _laid_over(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` over ``values``: sections key by key, all else as it is."""
    sections = {key: _section(key, values.get(key), given[key]) for key in SECTIONS if key in given}
    return {**values, **given, **sections}


def _section(key: str, values: Any, given: Any) -> Any:
    """A section over what it was; a name that is not the one it had starts it afresh, and may stand alone."""
    if isinstance(given, str) and SECTIONS[key] is not None:
        given = {"name": given}
    if not isinstance(given, Mapping):
        return given
    before = values if isinstance(values, Mapping) else {}
    name = before.get("name", SECTIONS[key])
    return {**(before if given.get("name", name) == name else {}), **given}


def _with_key(values: Mapping[str, Any], keys: list[str], value: Any, text: str) -> dict[str, Any]:
    """``values`` with one inner key laid over them."""
    if len(keys) == 1:
        return {**values, keys[0]: value}
    inner = values.get(keys[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"'{text}': '{keys[0]}' has no keys below it")
    return {**values, keys[0]: _with_key(inner, keys[1:], value, text)}
