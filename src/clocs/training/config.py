"""Configuration of a pre-training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from clocs.core.errors import ConfigError
from clocs.core.options import option_names
from clocs.core.run_identity import non_default_values
from clocs.encoders.encoder import ENCODERS, is_registered, non_default_encoder_options, parse_encoder
from clocs.methods.method import non_default_method, parse_method
from clocs.signals.leads import STANDARD_LEADS, canonical_lead
from clocs.training.labels import LabelUnit

EXECUTION_KEYS: Final = frozenset(
    {
        "store",
        "extra_stores",
        "runs",
        "mirror",
        "logger",
        "online_probe",
        "onnx",
        "num_threads",
        "batch_workers",
        "devices",
        "num_nodes",
        "checkpoint_every",
    }
)
"""Keys that say where and how a run is executed. They are not part of its identity."""
SECTIONS: Final[dict[str, str | None]] = {"method": "cmsc", "encoder": "cnn", "frames": None}
"""Keys with nested keys, and the default of their ``name``."""
FRAME_OPTIONS: Final = ("num_samples",)
"""Options of an encoder that follow from the frame policy."""


class PretrainConfig(BaseModel):
    """Configuration of a pre-training run.

    Keys of ready configs, of YAML files and of ``key=value`` overrides are the fields of this class. The run's name is
    a hash of all values that differ from the defaults, except for keys that only say where and how a run is executed.

    Example:
        >>> from clocs.training.config import PretrainConfig
        >>> PretrainConfig(method={"name": "simclr"}, batch_size=64).method["temperature"]
        0.1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: dict[str, Any] = Field(default_factory=lambda: {"name": SECTIONS["method"]}, validate_default=True)
    """Method: its ``name`` and its options, see :mod:`clocs.methods`."""
    encoder: dict[str, Any] = Field(default_factory=lambda: {"name": SECTIONS["encoder"]}, validate_default=True)
    """Encoder: its ``name`` and its options, see :mod:`clocs.encoders`. ``num_samples`` follows from the frames."""
    store: Path = Path("store")
    """Folder of the store to train on."""
    extra_stores: tuple[Path, ...] = ()
    """Folders of further stores to train on. Each has its own leads and split, and the frames of ``store``."""
    alternate_stores: bool = False
    """True if each batch comes from one store, in turn. Otherwise a batch mixes all stores at random."""
    split: str = "default"
    """Name of the saved split. Training and validation use its parts ``train`` and ``validation``."""
    frames: dict[str, Any] = Field(default_factory=dict)
    """Fields of :class:`clocs.FramePolicy` that replace those of the dataset, such as ``{"normalization": "none"}``."""
    leads: tuple[str, ...] = ()
    """Names of the leads, ``12`` for the twelve standard leads; empty for those of the frame policy."""
    init_from: str | None = None
    """Encoder to start from: a shipped encoder's name, or a folder. None starts from random weights."""
    patient_fraction: float = Field(default=1.0, gt=0, le=1)
    """Fraction of the training patients that is used, for learning curves over the amount of data."""
    label_fraction: float = Field(default=1.0, gt=0, le=1)
    """Fraction of the training labels that is used by methods with labels."""
    label_unit: LabelUnit = "patients"
    """Unit in which ``label_fraction`` is drawn: all labels of some ``patients``, or the labels of some ``frames``."""
    seed: int = Field(default=0, ge=0)
    """Root seed of initial weights, sampling, views and dropout."""
    max_epochs: int = Field(default=400, ge=0)
    """Largest number of epochs. 0 saves the encoder as initialized, as a baseline."""
    patience: int = Field(default=15, gt=0)
    """Number of epochs without improvement after which the run ends."""
    keep_epochs: tuple[PositiveInt, ...] = ()
    """Numbers of finished epochs after which the encoder is kept in a folder of its own, besides the best one."""
    monitor: Literal["loss", "auc"] = "loss"
    """Validation metric that selects the best epoch: loss or, for methods with labels, macro AUC. With few labels, the
    loss may rise while the AUC still improves."""
    passes_per_epoch: int = Field(default=1, gt=0)
    """Passes over the training data per epoch. Raise it for few labels, where validation takes longer than a pass."""
    max_steps: int | None = Field(default=None, gt=0)
    """Number of optimizer steps after which the run ends in any case; None for no limit."""
    batch_size: int = Field(default=256, gt=1)
    """Instances per batch, over all ranks."""
    instances_per_patient: int = Field(default=0, ge=0)
    """Instances of each patient in a batch, 2 or more; 0 samples instances without regard to patients."""
    shuffle: Literal["full", "blocks"] = "full"
    """Order of the training instances. ``full`` mixes all of them. ``blocks`` mixes the instances of few shards at a
    time, so that each rank reads its own share of the store."""
    shuffle_lanes: int = Field(default=64, gt=0)
    """With ``blocks``: number of lanes of which every batch has equal parts, a divisor of ``batch_size``. A rank takes
    whole lanes, and any number of ranks that divides them makes the same batches."""
    shuffle_window: int = Field(default=4, gt=0)
    """With ``blocks``: number of shards that a lane mixes at a time."""
    accumulate_batches: int = Field(default=1, gt=0)
    """Number of parts of a batch whose gradients are accumulated before a step, to save memory."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Optimizer."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Learning rate, after the warm-up."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of the learning rate. ``cosine`` decays it to zero at the last possible step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly from zero."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of the optimizer."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true"] = "32-true"
    """Precision, as Lightning Fabric names it. ``16-mixed`` needs a GPU."""
    checkpoint_every: int = Field(default=100, gt=0)
    """Steps between checkpoints. Every epoch ends with a checkpoint, too."""
    runs: Path = Path("runs")
    """Folder in which the run creates its own."""
    mirror: Path | None = None
    """Folder in a bucket, ``s3://bucket/runs``, to which the run is copied after each checkpoint, and from which
    another machine continues it; None for no copy."""
    logger: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Services that receive the metrics, besides the run's folder."""
    online_probe: int = Field(default=0, ge=0)
    """Epochs between fits of a linear probe on labelled frames, which logs its validation AUC; 0 for no probe. It does
    not influence training."""
    onnx: bool = True
    """Export the best encoder to ONNX at the end, so that it runs without torch. It takes a few seconds."""
    num_threads: int = Field(default=1, gt=0)
    """CPU threads of torch, per rank."""
    batch_workers: int = Field(default=0, ge=0)
    """Processes per rank that make batches, for a GPU that trains faster than a thread makes them; 0 for a thread. The
    batches are the same."""
    devices: int = Field(default=1, gt=0)
    """Devices per node, each with one rank."""
    num_nodes: int = Field(default=1, gt=0)
    """Number of nodes."""

    @field_validator("method")
    @classmethod
    def _with_all_method_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            return parse_method(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @field_validator("encoder")
    @classmethod
    def _with_all_encoder_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Add all options except those that follow from the frame policy."""
        if not is_registered(value):
            return dict(value)
        name = str(value.get("name", SECTIONS["encoder"]))
        options = {key: option for key, option in value.items() if key != "name"}
        if options.keys() & FRAME_OPTIONS:
            raise ValueError("num_samples follows from the frames. Set frames.num_samples=N instead.")
        try:
            return {"name": name, **parse_encoder(name, options, exclude=FRAME_OPTIONS)}
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @field_validator("leads", "logger", "extra_stores", "keep_epochs", mode="before")
    @classmethod
    def _split_at_commas(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("keep_epochs", mode="before")
    @classmethod
    def _one_epoch(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value

    @field_validator("leads", mode="before")  # runs before the validator above: pydantic calls the last one first
    @classmethod
    def _twelve_leads(cls, value: Any) -> Any:
        return STANDARD_LEADS if value in (12, "12") else value

    @field_validator("leads")
    @classmethod
    def _canonical_leads(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Spell leads in one way, so that equal runs have equal names."""
        return tuple(map(canonical_lead, value))

    def identity(self) -> dict[str, Any]:
        """Return the values that differ from the defaults as JSON, without the execution keys.

        ``init_from`` is left out: the hash of its weights is part of the run's origin.
        """
        values = non_default_values(self, exclude={*EXECUTION_KEYS, "method", "encoder", "init_from"})
        name, options = self.encoder["name"], self.encoder_options()
        if is_registered(self.encoder):
            options = non_default_encoder_options(name, options, exclude=FRAME_OPTIONS)
        values["encoder"] = {"name": name, **options}
        values["method"] = non_default_method(self.method)
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
        """Return all values as JSON, with defaults and without the execution keys."""
        return self.model_dump(mode="json", exclude=set(EXECUTION_KEYS))


def without_frame_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoder's options without those that follow from the frame policy."""
    return {name: value for name, value in options.items() if name not in FRAME_OPTIONS}
