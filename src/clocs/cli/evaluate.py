"""``clocs evaluate``: what an encoder is worth, with intervals over patients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from clocs.cli.progress import TrainingProgress
from clocs.core.errors import ConfigError

evaluate = typer.Typer(help="Judge an encoder on a store's test patients.", no_args_is_help=True)

CHECKPOINT = typer.Argument(help="A run's folder, its 'best', a shipped encoder's name, or 'random'.")
STORE = typer.Argument(help="Folder of a store with a split.")
FRACTION = typer.Option(None, show_default="0.5", help="Share of the training labels that is used.")
LABELLED = typer.Option(None, min=1, help="So many training patients have labels, in place of a share.")
DRAW = typer.Option("patients", help="What the share is drawn over: patients, or frames (the released code's way).")
SEED = typer.Option(0, min=0, help="Of the label draw and of random weights.")
SPLIT = typer.Option("default", help="Name of the split.")
FRAMES = typer.Option("encoder", help="encoder: frames as it was trained on; paper: the dataset's own in the paper.")
RUNS = typer.Option(Path("runs"), help="Folder of all runs.")
JSON = typer.Option(False, "--json", help="End with one JSON object.")
MORE_STORES = typer.Option([], "--more-store", help="A further store that it was trained on; repeat it for more.")
THREADS = typer.Option(1, min=1, help="Threads of torch.")


@evaluate.command("probe")
def probe_command(
    checkpoint: str = CHECKPOINT,
    store: Path = STORE,
    fraction: float | None = FRACTION,
    labelled: int | None = LABELLED,
    label_draw: str = DRAW,
    seed: int = SEED,
    split: str = SPLIT,
    frames: str = FRAMES,
    solver: str = typer.Option("lbfgs", help="lbfgs: logistic regression; adam: as the paper trains its linear layer."),
    train_mode: bool = typer.Option(False, help="As the released code: BatchNorm and dropout active."),
    runs: Path = RUNS,
    threads: int = THREADS,
    as_json: bool = JSON,
) -> None:
    """Linear evaluation: the encoder frozen, a linear classifier on its embeddings."""
    import torch

    from clocs.core.options import checked
    from clocs.evaluation.probe import ProbeConfig, probe

    torch.set_num_threads(threads)
    labels = {**_labels(fraction, labelled), "label_draw": label_draw, "seed": seed}
    given = {**labels, "split": split, "frames": frames, "solver": solver, "train_mode": train_mode}
    config = checked(ProbeConfig, given, "clocs evaluate probe")
    _show(probe(checkpoint, store, config, runs=runs), as_json)


@evaluate.command("finetune")
def finetune_command(
    checkpoint: str = CHECKPOINT,
    store: Path = STORE,
    fraction: float | None = FRACTION,
    labelled: int | None = LABELLED,
    label_draw: str = DRAW,
    seed: int = SEED,
    split: str = SPLIT,
    frames: str = FRAMES,
    epochs: int = typer.Option(400, help="At most."),
    patience: int = typer.Option(15, help="Epochs that are no better in validation before training ends."),
    best_by: str = typer.Option("loss", help="What is better in validation: a lower loss, or a higher auc."),
    batch: int = typer.Option(0, help="Instances in a batch; 0: 16 for Cardiology, 256 otherwise."),
    repeats: int = typer.Option(1, help="Passes over the labelled frames in an epoch; more where they are few."),
    optimiser: str = typer.Option("adam", help="adam, or adamw."),
    learning_rate: float = typer.Option(1e-4, help="Of the optimiser."),
    runs: Path = RUNS,
    threads: int = THREADS,
    as_json: bool = JSON,
) -> None:
    """Fine-tuning: encoder and classifier trained together; 'random' trains from scratch."""
    from clocs.core.options import checked
    from clocs.evaluation.finetune import FinetuneConfig, finetune

    labels = {**_labels(fraction, labelled), "label_draw": label_draw, "seed": seed}
    ends = {"epochs": epochs, "patience": patience, "best_by": best_by}
    steps = {"batch": batch or None, "repeats": repeats, "optimiser": optimiser, "learning_rate": learning_rate}
    given = {**labels, **ends, **steps, "split": split, "frames": frames, "threads": threads}
    config = checked(FinetuneConfig, given, "clocs evaluate finetune")
    with TrainingProgress(epochs) as shown:
        found = finetune(checkpoint, store, config, runs=runs, progress=shown.update)
    _show(found, as_json)


def _labels(fraction: float | None, labelled: int | None) -> dict[str, float | int]:
    """A share of the labels, or those of so many patients."""
    if fraction is not None and labelled is not None:
        raise ConfigError("--fraction and --labelled are two ways to say which labels are used; give one of them")
    return {name: value for name, value in (("fraction", fraction), ("labelled", labelled)) if value is not None}


@evaluate.command("principal")
def principal_command(
    checkpoint: str = CHECKPOINT,
    store: Path = STORE,
    out: Path = typer.Argument(help="Folder to write."),
    more_store: list[Path] = MORE_STORES,
    as_json: bool = JSON,
) -> None:
    """Give a 'resnet' another embedding, without labels: principal components of what all its blocks tell."""
    from clocs.evaluation.principal import with_principal_components

    found = with_principal_components(checkpoint, store, out, more_stores=more_store)
    kept = f"{found['folder']}: keeps {found['explained']:.1%} of the variance"
    typer.echo(json.dumps(found) if as_json else kept)


@evaluate.command("publish")
def publish_command(
    checkpoint: str = CHECKPOINT,
    store: Path = STORE,
    out: Path = typer.Argument(help="Folder to write; model hubs take it as it is."),
    name: str = typer.Option(..., help="What the encoder is called."),
    more_store: list[Path] = MORE_STORES,
    as_json: bool = JSON,
) -> None:
    """Make an encoder ready for others: with a calibrated classifier for each store, and a model card."""
    from clocs.evaluation.publishing import publish

    found = publish(checkpoint, store, out, name, more_stores=more_store)
    typer.echo(json.dumps(found) if as_json else (out / "README.md").read_text())


@evaluate.command("compare")
def compare_command(
    first: str = typer.Argument(help="Folders of evaluations, one a seed, with commas between them."),
    second: str = typer.Argument(help="The same for what they are compared with."),
    as_json: bool = JSON,
) -> None:
    """The AUC of the first minus that of the second, with an interval over the same patients."""
    from clocs.evaluation.results import compare

    found = compare(*([Path(folder) for folder in side.split(",")] for side in (first, second)))
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

    from clocs.evaluation.judgement import LEVELS

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
    from clocs.evaluation.judgement import in_words

    return in_words(values["auc"]), in_words(values["average_precision"]), f"{values['calibration_error']:.3f}"
