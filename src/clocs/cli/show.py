"""``clocs show``: plots of batches, augmentations, training curves and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import Overrides, Picture, StoreFolder

show = typer.Typer(help="Plot batches, augmentations, training curves and scores.", no_args_is_help=True)


@show.command()
def batch(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Configuration, as for 'clocs pretrain'.")],
    overrides: Overrides = None,
    out: Picture = Path("batch.png"),
    instances: Annotated[int, typer.Option(min=1, help="Plot the views of this number of instances.")] = 4,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Use this run, checkpoint or shipped encoder. Default: random weights.")
    ] = None,
) -> None:
    """Plot the first training batch of a configuration: its views and the similarity of its instances."""
    from clocs.drawing.batch import draw_batch
    from clocs.drawing.figure import save_figure
    from clocs.training.config_resolution import resolve_config
    from clocs.training.preview import preview_batch

    settings = resolve_config(config, overrides or [])
    views, similarity = preview_batch(settings, instances=instances, checkpoint=checkpoint)
    save_figure(draw_batch(views, similarity, f"{settings.method['name']}: views of the first batch"), out, dpi=150)
    typer.echo(str(out))


@show.command()
def augmentations(
    store: StoreFolder,
    record: Annotated[str, typer.Option(help="Plot the recording with this id.")],
    out: Picture = Path("augmentations.png"),
    lead: Annotated[str | None, typer.Option(help="Plot this lead. Default: the first one.")] = None,
    seed: Annotated[int, typer.Option(help="Set the seed of the augmentations.")] = 0,
) -> None:
    """Plot 5 s of a recording under every augmentation, with default options and probability 1."""
    from clocs.drawing.batch import draw_augmentations
    from clocs.drawing.figure import save_figure
    from clocs.store.store import open_store
    from clocs.training.preview import preview_augmentations

    views = preview_augmentations(open_store(store), record, lead=lead, seed=seed)
    save_figure(draw_augmentations(views, views.instances[0]), out, dpi=150)
    typer.echo(str(out))


@show.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Picture = Path("curves.png"),
    title: Annotated[str, typer.Option(help="Set the title of the picture.")] = "",
) -> None:
    """Plot losses and effective ranks of runs by epoch."""
    from clocs.training.curves import draw_runs

    draw_runs(runs, out, title)
    typer.echo(str(out))


@show.command()
def scores(
    evaluation: Annotated[
        Path, typer.Argument(metavar="EVALUATION", help="Folder of an evaluation, printed by 'clocs evaluate'.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Write the pictures to this folder.")] = Path(),
    level: Annotated[str, typer.Option(help="Plot scores per frame, recording or patient.")] = "recording",
) -> None:
    """Plot ROC and calibration curves of an evaluation."""
    from clocs.evaluation.results import draw_scores

    for path in draw_scores(evaluation, out, level):
        typer.echo(str(path))
