"""``clocs evaluate``: what an encoder is worth, with intervals over patients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.cli.arguments import AsJson, Checkpoint, SplitName, SplitStoreFolder, Threads
from clocs.cli.terminal import training_progress
from clocs.core.errors import ConfigError

evaluate = typer.Typer(help="Judge an encoder on a store's test patients.", no_args_is_help=True)

Fraction = Annotated[float | None, typer.Option(show_default="0.5", help="Share of the training labels that is used.")]
Labelled = Annotated[
    int | None, typer.Option(min=1, help="So many training patients have labels, in place of a share.")
]
LabelUnit = Annotated[
    str, typer.Option(help="What the share is drawn over: patients, or frames (the released code's way).")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the label draw and of random weights.")]
Frames = Annotated[
    str, typer.Option(help="encoder: frames as it was trained on; paper: the dataset's own in the paper.")
]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Folder of all runs.")]
MoreStores = Annotated[
    list[Path] | None,
    typer.Option("--more-store", help="A further store; repeat it for more."),
]


@evaluate.command("probe")
def probe_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    label_fraction: Fraction = None,
    num_labelled_patients: Labelled = None,
    label_unit: LabelUnit = "patients",
    seed: Seed = 0,
    split: SplitName = "default",
    frames: Frames = "encoder",
    solver: Annotated[
        str, typer.Option(help="lbfgs: logistic regression; adam: as the paper trains its linear layer.")
    ] = "lbfgs",
    train_mode: Annotated[bool, typer.Option(help="As the released code: BatchNorm and dropout active.")] = False,
    runs: RunsFolder = Path("runs"),
    num_threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Linear evaluation: the encoder frozen, a linear classifier on its embeddings."""
    import torch

    from clocs.core.options import validate_model
    from clocs.evaluation.probe import ProbeConfig, probe

    torch.set_num_threads(num_threads)
    labels = {**_labels(label_fraction, num_labelled_patients), "label_unit": label_unit, "seed": seed}
    given = {**labels, "split": split, "frames": frames, "solver": solver, "train_mode": train_mode}
    config = validate_model(ProbeConfig, given, "clocs evaluate probe")
    _show(probe(checkpoint, store, config, runs=runs), as_json)


@evaluate.command("finetune")
def finetune_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    label_fraction: Fraction = None,
    num_labelled_patients: Labelled = None,
    label_unit: LabelUnit = "patients",
    seed: Seed = 0,
    split: SplitName = "default",
    frames: Frames = "encoder",
    max_epochs: Annotated[int, typer.Option(help="At most.")] = 400,
    patience: Annotated[int, typer.Option(help="Epochs that are no better in validation before training ends.")] = 15,
    monitor: Annotated[str, typer.Option(help="What is better in validation: a lower loss, or a higher auc.")] = "loss",
    batch_size: Annotated[int, typer.Option(help="Instances in a batch; 0: 16 for Cardiology, 256 otherwise.")] = 0,
    passes_per_epoch: Annotated[
        int, typer.Option(help="Passes over the labelled frames in an epoch; more where they are few.")
    ] = 1,
    optimizer: Annotated[str, typer.Option(help="adam, or adamw.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Of the optimiser.")] = 1e-4,
    runs: RunsFolder = Path("runs"),
    num_threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Fine-tuning: encoder and classifier trained together; 'random' trains from scratch."""
    from clocs.core.options import validate_model
    from clocs.evaluation.finetune import FinetuneConfig, finetune

    labels = {**_labels(label_fraction, num_labelled_patients), "label_unit": label_unit, "seed": seed}
    ends = {"max_epochs": max_epochs, "patience": patience, "monitor": monitor}
    steps = {
        "batch_size": batch_size or None,
        "passes_per_epoch": passes_per_epoch,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
    }
    given = {**labels, **ends, **steps, "split": split, "frames": frames, "num_threads": num_threads}
    config = validate_model(FinetuneConfig, given, "clocs evaluate finetune")
    with training_progress(max_epochs) as progress:
        found = finetune(checkpoint, store, config, runs=runs, progress=progress)
    _show(found, as_json)


def _labels(label_fraction: float | None, num_labelled_patients: int | None) -> dict[str, float | int]:
    """A share of the labels, or those of so many patients."""
    if label_fraction is not None and num_labelled_patients is not None:
        raise ConfigError(
            "--label-fraction and --num-labelled-patients are two ways to say which labels are used; give one of them"
        )
    return {
        name: value
        for name, value in (("label_fraction", label_fraction), ("num_labelled_patients", num_labelled_patients))
        if value is not None
    }


@evaluate.command("pca")
def pca_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    extra_store: MoreStores = None,
    embedding_dim: Annotated[
        int | None, typer.Option(min=1, help="Number of components; without it, the dimension of the embedding.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give an encoder another embedding, without labels: PCA of the pooled activations of every block."""
    from clocs.evaluation.pca import write_pca_encoder

    found = write_pca_encoder(checkpoint, store, out, extra_stores=extra_store or (), embedding_dim=embedding_dim)
    kept = f"{found['folder']}: keeps {found['explained']:.1%} of the variance"
    typer.echo(json.dumps(found) if as_json else kept)


@evaluate.command("publish")
def publish_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; model hubs take it as it is.")],
    name: Annotated[str, typer.Option(help="What the encoder is called.")],
    extra_store: MoreStores = None,
    split: Annotated[str | None, typer.Option(help="Of stores that did not train the encoder; else: default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an encoder ready for others: with a calibrated classifier for each store's labels, and a model card.

    The stores are all that the encoder was trained on, or others, of whose test patients it has seen nobody: so a
    shipped encoder gets a classifier for labels of your own.
    """
    from clocs.publishing.publish import publish

    found = publish(checkpoint, store, out, name, extra_stores=extra_store or (), split=split)
    typer.echo(json.dumps(found) if as_json else (out / "README.md").read_text())


@evaluate.command("compare")
def compare_command(
    first: Annotated[
        str, typer.Argument(metavar="FIRST", help="Folders of evaluations, one a seed, with commas between them.")
    ],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The same for what they are compared with.")],
    as_json: AsJson = False,
) -> None:
    """The AUC of the first minus that of the second, with an interval over the same patients."""
    from clocs.evaluation.results import compare

    found = compare(*([Path(folder.strip()) for folder in side.split(",")] for side in (first, second)))
    if as_json:
        typer.echo(json.dumps({level: item.as_dict() for level, item in found.items()}))
        return
    for level, item in found.items():
        typer.echo(f"per {level:<10} {item.value:+.4f}  ({item.low:+.4f} to {item.high:+.4f})")


def _show(found: dict[str, Any], as_json: bool) -> None:
    """One JSON object, or a table."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from clocs.evaluation.scoring import LEVELS

    table = Table("", "AUC", "average precision", "calibration error", title="test part, 95 % intervals over patients")
    for level in LEVELS:  # by name: a result that was looked up has its keys in another order
        table.add_row(f"per {level}, {found['test'][level]['rows']:,} rows", *_cells(found["test"][level]))
    for name, values in sorted(found["test"]["recording"]["classes"].items()):
        table.add_row(f"  {escape(name)}, {values['positives']:,} recordings", *_cells(values))
    Console().print(table)
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(f"kept in {found['run']}")


def _cells(values: dict[str, Any]) -> tuple[str, str, str]:
    from clocs.evaluation.scoring import format_interval

    return (
        format_interval(values["auc"]),
        format_interval(values["average_precision"]),
        f"{values['calibration_error']:.3f}",
    )
