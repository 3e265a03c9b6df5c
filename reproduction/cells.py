"""Cells of the paper's grid: one pre-training or one evaluation, in the paper's terms."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from clocs.evaluation.checkpoint import RANDOM
from clocs.experiments.cells import Cell, Workload
from clocs.experiments.workspace import Workspace
from clocs.signals.leads import STANDARD_LEADS, derivable_leads
from clocs.store.store import open_store
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.shipped import find_encoder_folder
from reproduction.paper_numbers import SINGLE_LEAD, counts
from reproduction.presets import Preset

Measure = Literal["distances", "neighbours", "audit", "groups"]
Level = Literal["frame", "recording"]
LEVELS: Final[tuple[Level, ...]] = ("frame", "recording")
"""Levels of an AUC: every lead and frame by itself, as in the paper, or the mean of a recording."""
RANDOM_EMBEDDING: Final = 128
"""Embedding dimension of random weights. Other dimensions need a pre-training of zero epochs."""
EPOCHS: Final = 400
"""Maximum number of epochs of a pre-training. The paper states no number."""
SHORT_EPOCHS: Final = {"byol": 100, "mtssl": 100}
"""Maximum number of epochs of methods with another one. The loss of BYOL does not tell when to stop, because its target
moves, so it trains for all of them. An epoch of MT-SSL takes seven times as long as one of CMSC."""
KEPT_EPOCHS: Final = (1, 5, 25, 50, 100, 200, 400)
"""Numbers of epochs after which a pre-training keeps its encoder, besides that of the lowest loss."""
SEPARATE_SPLIT: Final = "apart"
"""Name of a second split, for a pre-training that includes test patients of the default split."""
FULL_DOWNLOADS: Final = "publishers' full downloads (12 leads)"


class PaperCell(Cell):
    """Fields that pre-trainings and evaluations share."""

    dataset: str
    preset: Preset = "paper"
    embedding_dim: int = 128
    leads: int = 4
    seed: int = 0

    def missing_inputs(self, workspace: Workspace) -> list[str]:
        """Return the stores that are missing, and whether the data lack leads."""
        found = super().missing_inputs(workspace)
        several = [name for name in self.datasets if self.leads == len(STANDARD_LEADS) and name not in SINGLE_LEAD]
        if not all(workspace.has_store(name) and _has_all_leads(workspace.store(name)) for name in several):
            found.append(FULL_DOWNLOADS)
        return found


class Pretraining(PaperCell):
    """A pre-training of an encoder."""

    kind: ClassVar[str] = "pretraining"

    method: str
    max_epochs: int = Field(default=EPOCHS, ge=0)
    """Maximum number of epochs. 0: initial weights."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the method, such as augmentations or BYOL's decay."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Other keys of the pre-training's config, such as encoder or frames."""
    extra_datasets: tuple[str, ...] = ()
    """Datasets that are trained on together with the first."""
    pca: bool = False
    """Replace the last layer, after training, by a PCA of the pooled activations of every block."""

    @property
    def trained(self) -> Pretraining:
        """The same pre-training before its last layer is replaced."""
        return self.model_copy(update={"pca": False})

    @property
    def requires(self) -> tuple[Pretraining, ...]:
        """The training behind a PCA."""
        return (self.trained,) if self.pca else ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """All datasets that it is trained on."""
        return (self.dataset, *self.extra_datasets)

    @property
    def label(self) -> str:
        """The readable part of the name."""
        return f"{self.method}-{'-'.join(self.datasets)}-e{self.embedding_dim}-s{self.seed}"

    def folder(self, workspace: Workspace) -> Path:
        """Return the folder of the trained encoder."""
        return workspace.runs / "encoders" / workspace.name(self)

    def has_output(self, workspace: Workspace) -> bool:
        """Return whether the trained encoder is there."""
        return (self.folder(workspace) / "config.json").exists()

    def workload(self) -> Workload:
        """Return thousands of frames that pass the network."""
        if self.pca:  # its time includes that of its training
            amount = sum(_training_frames(dataset, self.leads) for dataset in self.datasets)
            return _workload(amount, "pca", self, self)
        views = VIEWS.get(self.method, 2)
        if self.config.get("max_steps") is not None:
            amount = views * self.config["max_steps"] * self.config.get("batch_size", 256) / 1000
        else:
            frames = [_training_frames(dataset, self.leads, self.method in SEGMENTED) for dataset in self.datasets]
            amount = views * self.max_epochs * sum(frames)
        return _workload(float(amount), "pretraining", self, self)


class Evaluation(PaperCell):
    """A linear evaluation or a fine-tuning of one encoder, or a measure of its embeddings."""

    kind: ClassVar[str] = "evaluation"

    protocol: Literal["linear", "finetune"] | Measure
    start: Pretraining | None
    """Pre-training of the encoder. None: random weights, or a ``shipped`` encoder."""
    label_fraction: float = 0.5
    max_epochs: int = Field(default=EPOCHS, gt=0)
    """Maximum number of epochs of fine-tuning."""
    part: Literal["validation", "test"] = "test"
    """The part of the split whose patients are tested."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Other keys of the evaluation's config, or options of the measure."""
    shipped: str = ""
    """Name of an encoder that comes with the package."""

    @model_validator(mode="after")
    def _one_encoder(self) -> Self:
        if self.start is None and self.embedding_dim != RANDOM_EMBEDDING:
            raise ValueError(f"random weights have E = {RANDOM_EMBEDDING}; for others, start with max_epochs=0")
        if self.shipped and self.start is not None:
            raise ValueError(f"it starts either from {self.shipped} or from a pre-training")
        return self

    @property
    def method(self) -> str:
        """The method that trained the encoder, or the name of a shipped encoder."""
        if self.start is None:
            return self.shipped or RANDOM
        return self.start.method if self.start.max_epochs else RANDOM

    @property
    def requires(self) -> tuple[Pretraining, ...]:
        """The pre-training, behind what that requires."""
        return () if self.start is None else (*self.start.requires, self.start)

    @property
    def datasets(self) -> tuple[str, ...]:
        """All datasets that it depends on."""
        return tuple(dict.fromkeys((self.dataset, *(self.start.datasets if self.start is not None else ()))))

    @property
    def label(self) -> str:
        """The readable part of the name."""
        start = self.method if self.start is None else "-".join((self.start.method, *self.start.datasets))
        return f"{self.protocol}-{start}-{self.dataset}-e{self.embedding_dim}-f{self.label_fraction:g}-s{self.seed}"

    @property
    def initial_weights_sha256(self) -> str | None:
        """Hash of the weights of a shipped encoder."""
        return _weights(self.shipped) if self.shipped else None

    def workload(self) -> Workload:
        """Return thousands of frames that are trained on; of frozen encoders, those that are embedded."""
        passes = self.max_epochs * self.label_fraction if self.protocol == "finetune" else 1
        return _workload(_training_frames(self.dataset, self.leads) * passes, self.protocol, self, self.start)


AnyCell = Pretraining | Evaluation

DEFAULT_RATES: Final = {"pretraining": 0.15, "finetune": 0.2}
"""Seconds of one core for a thousand frames where no similar cell is finished, measured on a cloud machine."""
OTHER_RATE: Final = 0.4
OTHER_FRAMES: Final = 10_000
"""Training frames of datasets that the paper does not have."""
PAPER_LEADS: Final = 4
SEGMENTED: Final = frozenset({"cmsc", "cmlc", "cmsmlc"})
VIEWS: Final = {"supervised": 1, "mtssl": 6}
"""Frames that pass the network for each frame of the dataset; two for other methods."""


def _workload(amount: float, kind: str, cell: AnyCell, encoder: Pretraining | None) -> Workload:
    network = "cnn" if encoder is None else str(encoder.config.get("encoder", {}).get("name", "cnn"))
    if cell.preset == "trial":  # the costs of trials vary too much
        network = "trial"
    similar = (
        ("same method, dataset and preset", (kind, network, cell.dataset, cell.method, cell.preset)),
        ("same method and preset", (kind, network, cell.method, cell.preset)),
        ("same preset", (kind, network, cell.preset)),
        ("same method and dataset", (kind, network, cell.dataset, cell.method)),
        ("same dataset", (kind, network, cell.dataset)),
        ("same kind", (kind, network)),
    )
    return Workload(amount, similar, DEFAULT_RATES.get(kind, OTHER_RATE))


@lru_cache
def _training_frames(dataset: str, leads: int, segmented: bool = False) -> float:
    """Return thousands of training frames, from the paper's tables 3 and 4."""
    pairs = counts(table=3, split="train", dataset=dataset, method="cmsc") if segmented else ()
    frames = counts(table=4, split="train", dataset=dataset, quantity="instances")
    known = next((count.value for count in (*pairs, *frames)), OTHER_FRAMES)
    return known / 1000 * (1 if dataset in SINGLE_LEAD else leads / PAPER_LEADS)


@lru_cache(maxsize=64)
def _has_all_leads(store: Path) -> bool:
    held = (info.leads or () for info in open_store(store).shards)
    return all(set(STANDARD_LEADS) <= {*leads, *derivable_leads(leads)} for leads in held)


@lru_cache(maxsize=64)
def _weights(shipped: str) -> str:
    return str(load_encoder_folder(find_encoder_folder(shipped))[1]["weights_sha256"])


def paper_pretraining(method: str, dataset: str, seed: int, **changes: Any) -> Pretraining:
    """Return a pre-training by the protocol of the paper's tables.

    Args:
        method: Name of the method.
        dataset: Name of the dataset.
        seed: Seed of the run.
        changes: Other fields of the cell.
    """
    max_epochs = SHORT_EPOCHS.get(method, EPOCHS)
    patience = {"patience": max_epochs} if method == "byol" else {}
    config = {"keep_epochs": KEPT_EPOCHS, **patience, **changes.pop("config", {})}
    return Pretraining(method=method, dataset=dataset, seed=seed, max_epochs=max_epochs, config=config, **changes)


def parse_cell(described: dict[str, Any]) -> AnyCell:
    """Return the cell that ``describe`` described."""
    kinds: tuple[type[Pretraining] | type[Evaluation], ...] = (Pretraining, Evaluation)
    kind = {each.kind: each for each in kinds}[described["kind"]]
    return kind.model_validate({name: value for name, value in described.items() if name != "kind"})


def random_start(embedding_dim: int, seed: int) -> Pretraining | None:
    """Return where an evaluation of the paper's network with random weights starts."""
    if embedding_dim == RANDOM_EMBEDDING:
        return None
    # Initial weights depend only on the seed, not on method and dataset.
    return Pretraining(method="cmsc", dataset="chapman", embedding_dim=embedding_dim, seed=seed, max_epochs=0)
