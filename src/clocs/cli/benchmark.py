"""``clocs benchmark``: evaluation of encoders and untrained controls on the tasks of stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def benchmark(
    encoders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENCODER]...", help="Shipped encoders, folders of encoders, or scratch:NETWORK."),
    ] = None,
    stores: Annotated[Path, typer.Option(help="Folder of stores, each with a split 'default'.")] = Path("stores"),
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("benchmark"),
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="STORE[:TASK]", help="Evaluate this task. Repeatable. Default: all tasks."),
    ] = None,
    way: Annotated[
        list[str] | None, typer.Option(help="linear, attentive or fine-tuned. Repeatable. Default: linear.")
    ] = None,
    train_on: Annotated[
        list[str] | None,
        typer.Option(metavar="STORE[:TASK]", help="Train networks on this task only. Repeatable. Default: all tasks."),
    ] = None,
    leads: Annotated[str, typer.Option(metavar="LEAD,...", help="Use only these leads, such as I. Default: all.")] = "",
    control: Annotated[
        list[str] | None, typer.Option(help="untrained, random-kernels or none. Repeatable. Default: both.")
    ] = None,
    label_fraction: Annotated[
        list[float] | None,
        typer.Option(help="Use the labels of this fraction of the patients. Repeatable. Default: 0.01, 0.1 and 1."),
    ] = None,
    selection: Annotated[
        list[str] | None,
        typer.Option(
            help="Select by validation or cross-validation. Repeatable. Default: both; trained networks: validation."
        ),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, help="Maximum number of epochs of a training.")] = None,
    engine: Annotated[str, typer.Option(help="serial, processes or ray.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
) -> None:
    """Evaluate encoders and untrained controls on recordings with labels. After a kill, the same command continues."""
    from clocs.core.options import validate_model
    from clocs.evaluation.benchmark.benchmark import CONTROLS
    from clocs.evaluation.benchmark.benchmark import benchmark as run_benchmark
    from clocs.evaluation.benchmark.page import PAGE
    from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions
    from clocs.experiments.grid import TaskOutcome

    def report(done: TaskOutcome) -> None:
        for name in done.names:
            typer.echo(f"{name}: {done.seconds:.0f} s", err=True)
        for name, message in done.failed.items():
            typer.echo(f"{name} failed: {message}", err=True)

    values = {"label_fractions": label_fraction, "selections": selection}
    options = validate_model(
        BenchmarkOptions, {name: value for name, value in values.items() if value is not None}, "benchmark"
    )
    controls = CONTROLS if control is None else tuple(name.replace("-", " ") for name in control if name != "none")
    result = run_benchmark(
        encoders or [],
        stores,
        out,
        tasks=tasks or (),
        ways=way or ("linear",),  # type: ignore[arg-type]  # checked by the benchmark
        trained_tasks=train_on or (),
        leads=leads.split(",") if leads else (),
        controls=controls,  # type: ignore[arg-type]  # checked by the benchmark
        options=options,
        max_epochs=max_epochs,
        engine=engine,  # type: ignore[arg-type]  # checked by the engine
        workers=workers,
        progress=report,
    )
    typer.echo(f"{len(result.rows)} cells in {out / PAGE}")
    if result.failed:
        raise typer.Exit(1)
