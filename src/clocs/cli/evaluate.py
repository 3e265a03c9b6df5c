"""``clocs evaluate``: evaluation, comparison and publication of encoders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.cli.arguments import AsJson, Checkpoint, EvaluationDevice, SplitName, SplitStoreFolder, Threads
from clocs.cli.terminal import training_progress
from clocs.core.errors import ConfigError

evaluate = typer.Typer(help="Evaluate, compare and publish encoders.", no_args_is_help=True)

Fraction = Annotated[float | None, typer.Option(show_default="0.5", help="Use this fraction of the training labels.")]
Labelled = Annotated[
    int | None, typer.Option(min=1, help="Use the labels of this number of training patients, instead of a fraction.")
]
LabelUnit = Annotated[str, typer.Option(help="Draw the fraction over patients, or over frames as in the paper's code.")]
Seed = Annotated[int, typer.Option(min=0, help="Set the seed of the label draw and of random weights.")]
Frames = Annotated[
    str,
    typer.Option(
        help="Cut frames as in the encoder's training (encoder), or as the paper does for the dataset (paper)."
    ),
]
Subgroups = Annotated[
    str, typer.Option(help="Also score the groups of these columns of the store, such as sex,age,device.")
]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Store runs in this folder.")]
MoreStores = Annotated[
    list[Path] | None,
    typer.Option("--extra-store", help="Add another store. Repeatable."),
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
    representation: Annotated[
        str,
        typer.Option(
            help="Classify recordings with all their leads (concatenated_leads), or single frames as in the paper "
            "(frames)."
        ),
    ] = "concatenated_leads",
    task: Annotated[str | None, typer.Option(help="Predict this task of the store. Default: its classes.")] = None,
    leads: Annotated[
        str, typer.Option(help="Use these leads of recordings, such as I,II. Default: those that most have.")
    ] = "",
    frames: Frames = "encoder",
    subgroups: Subgroups = "",
    solver: Annotated[
        str,
        typer.Option(
            help="Fit frames by lbfgs (logistic regression), or by adam as the paper trains its linear layer."
        ),
    ] = "lbfgs",
    train_mode: Annotated[
        bool, typer.Option(help="Keep BatchNorm and dropout in training mode, as the paper's code does.")
    ] = False,
    runs: RunsFolder = Path("runs"),
    device: EvaluationDevice = None,
    num_threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Train a linear classifier on the embeddings of a frozen encoder, and test it."""
    import torch

    from clocs.core.options import validate_model
    from clocs.evaluation.probe import ProbeConfig, probe

    torch.set_num_threads(num_threads)
    labels = {**_labels(label_fraction, num_labelled_patients), "label_unit": label_unit, "seed": seed}
    kind = {"representation": representation, "task": task, "leads": _names(leads)}
    given = {
        **labels,
        **kind,
        "split": split,
        "frames": frames,
        "solver": solver,
        "train_mode": train_mode,
        "device": device,
    }
    config = validate_model(ProbeConfig, {**given, "subgroups": _names(subgroups)}, "clocs evaluate probe")
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
    subgroups: Subgroups = "",
    max_epochs: Annotated[int, typer.Option(help="Train for at most this number of epochs.")] = 400,
    patience: Annotated[
        int, typer.Option(help="Stop after this number of epochs without improvement in validation.")
    ] = 15,
    monitor: Annotated[str, typer.Option(help="Monitor this validation metric: loss or auc.")] = "loss",
    batch_size: Annotated[
        int, typer.Option(help="Set the number of instances per batch; 0 selects 16 for Cardiology and 256 otherwise.")
    ] = 0,
    passes_per_epoch: Annotated[
        int, typer.Option(help="Pass this number of times over the labelled frames per epoch.")
    ] = 1,
    optimizer: Annotated[str, typer.Option(help="Train with this optimizer: adam or adamw.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Set the learning rate.")] = 1e-4,
    runs: RunsFolder = Path("runs"),
    device: EvaluationDevice = None,
    num_threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Fine-tune an encoder together with a classifier, and test it. 'random' trains from scratch."""
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
    given = {**labels, **ends, **steps, "split": split, "frames": frames, "num_threads": num_threads, "device": device}
    config = validate_model(FinetuneConfig, {**given, "subgroups": _names(subgroups)}, "clocs evaluate finetune")
    with training_progress(max_epochs) as progress:
        found = finetune(checkpoint, store, config, runs=runs, progress=progress)
    _show(found, as_json)


def _labels(label_fraction: float | None, num_labelled_patients: int | None) -> dict[str, float | int]:
    """Return the selection of labels: a fraction, or a number of patients."""
    if label_fraction is not None and num_labelled_patients is not None:
        raise ConfigError("--label-fraction and --num-labelled-patients exclude each other. Pass one of them.")
    return {
        name: value
        for name, value in (("label_fraction", label_fraction), ("num_labelled_patients", num_labelled_patients))
        if value is not None
    }


def _names(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@evaluate.command("pca")
def pca_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the new encoder.")],
    extra_store: MoreStores = None,
    embedding_dim: Annotated[
        int | None, typer.Option(min=1, help="Keep this number of components. Default: the dimension of the embedding.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replace the embedding of an encoder by a PCA of the pooled activations of every block, without labels."""
    from clocs.evaluation.pca import write_pca_encoder

    found = write_pca_encoder(checkpoint, store, out, extra_stores=extra_store or (), embedding_dim=embedding_dim)
    summary = f"{found['folder']}: explains {found['explained']:.1%} of the variance"
    typer.echo(json.dumps(found) if as_json else summary)


@evaluate.command("publish")
def publish_command(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the published encoder, ready for model hubs.")],
    name: Annotated[str, typer.Option(help="Give the encoder this name.")],
    extra_store: MoreStores = None,
    split: Annotated[
        str | None, typer.Option(help="Use this split of stores that did not train the encoder. Default: default.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Fit a classifier for this task of the stores. Repeatable. Default: their classes."),
    ] = None,
    leads: Annotated[
        str, typer.Option(help="Fit classifiers of these leads only, such as I,II. Default: all that most have.")
    ] = "",
    cache: Annotated[
        Path | None, typer.Option(help="Store features of recordings here, to continue after an interruption.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Publish an encoder with calibrated classifiers and a model card.

    Each store's labels get a classifier, with weights for each set of leads: all twelve, six limb leads, I, II. Pass
    all stores that the encoder was trained on, or other stores of which it has seen no test patient. The latter adds
    classifiers for your own labels to a shipped encoder.
    """
    from clocs.publishing.publish import publish

    found = publish(
        checkpoint,
        store,
        out,
        name,
        extra_stores=extra_store or (),
        split=split,
        tasks=task or (),
        leads=_names(leads),
        cache=cache,
    )
    typer.echo(json.dumps(found) if as_json else (out / "README.md").read_text())


@evaluate.command("recalibrate")
def recalibrate_command(
    encoder: Checkpoint,
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Store with recordings and labels of your hospital.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the encoder with the calibrated classifier.")],
    classifier: Annotated[
        str | None, typer.Option(help="Calibrate this classifier of the encoder. Default: the first.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Take the labels of this task of the store. Default: its classes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Calibrate a published classifier on labels of your hospital, such as those of 100 patients.

    Classes are matched by name. A class with fewer than 5 patients keeps the published calibration; below 20 only the
    intercept moves, from 20 on the slope as well, from 500 on an isotonic curve follows. Results come from
    cross-validation over patients.
    """
    from clocs.publishing.recalibrate import recalibrate

    found = recalibrate(encoder, store, out, classifier=classifier, task=task)
    if as_json:
        typer.echo(json.dumps(found))
        return
    from clocs.cli.terminal import print_table
    from clocs.evaluation.scoring import format_interval

    counts = found["recordings"]
    typer.echo(
        f"{counts['labelled']:,} labelled recordings; left out: {counts['seen']:,} that the encoder has seen, "
        f"{counts['withheld']:,} whose classes are withheld"
    )
    for leads, result in found["results"].items():
        typer.echo(f"\n{leads}: {result['patients']:,} patients")
        rows = [
            (
                name,
                f"{one['patients']:,}",
                one["method"],
                *(format_interval(one[key]) for key in ("published_calibration_error", "calibration_error")),
            )
            for name, one in result["classes"].items()
        ]
        print_table(["class", "patients", "calibration", "error as published", "error now"], rows)
    typer.echo(f"Stored in {found['folder']}")


@evaluate.command("compare")
def compare_command(
    first: Annotated[
        str, typer.Argument(metavar="FIRST", help="Folders of evaluations, one per seed, separated by commas.")
    ],
    second: Annotated[
        str, typer.Argument(metavar="SECOND", help="Folders of the evaluations to compare with, in the same form.")
    ],
    as_json: AsJson = False,
) -> None:
    """Compare two encoders by the difference of their AUCs (first minus second), paired over patients."""
    from clocs.evaluation.results import compare

    found = compare(*([Path(folder.strip()) for folder in side.split(",")] for side in (first, second)))
    if as_json:
        typer.echo(json.dumps({level: item.as_dict() for level, item in found.items()}))
        return
    typer.echo("AUC of the first minus AUC of the second, with 95 % intervals over patients")
    for level, item in found.items():
        typer.echo(f"per {level:<10} {item.value:+.4f}  ({item.low:+.4f} to {item.high:+.4f})")


def _show(found: dict[str, Any], as_json: bool) -> None:
    """Print the result as JSON or as a table."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from clocs.evaluation.scoring import LEVELS, format_interval

    table = Table("", "AUC", "average precision", "calibration error", title="test part, 95 % intervals over patients")
    for level in (level for level in LEVELS if level in found["test"]):  # cached results have sorted keys
        table.add_row(f"per {level}, {found['test'][level]['rows']:,} rows", *_cells(found["test"][level]))
    for name, values in sorted(found["test"]["recording"]["classes"].items()):
        table.add_row(f"  {escape(name)}, {values['positives']:,} recordings", *_cells(values))
    Console().print(table)
    for name, values in found.get("subgroups", {}).items():
        auc = "too few recordings" if values["auc"] is None else f"AUC {format_interval(values['auc'])}"
        typer.echo(f"{name}, {values['recordings']:,} recordings: {auc}")
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(f"Stored in {found['run']}")


def _cells(values: dict[str, Any]) -> tuple[str, str, str]:
    from clocs.evaluation.scoring import format_interval

    return (
        format_interval(values["auc"]),
        format_interval(values["average_precision"]),
        f"{values['calibration_error']:.3f}",
    )


@evaluate.command("verdicts")
def verdicts_command(
    verdicts: Annotated[Path, typer.Argument(help="File verdicts.jsonl beside the audit log of a service.")],
    out: Annotated[Path, typer.Option(help="Write the labels to this CSV file.")],
) -> None:
    """Write the verdicts of a service's users as labels, with the probabilities that they saw."""
    from clocs.service.verdicts import export_labels

    typer.echo(f"{out}: {export_labels(verdicts, out)} labels")
