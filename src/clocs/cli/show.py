"""``clocs show``: pictures of what training sees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import Overrides, Picture, StoreFolder

show = typer.Typer(help="Pictures of what training sees.", no_args_is_help=True)


@show.command()
def batch(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="As for 'clocs pretrain'.")],
    overrides: Overrides = None,
    out: Picture = Path("batch.png"),
    instances: Annotated[int, typer.Option(min=1, help="Instances whose views are drawn.")] = 4,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A run, its 'best', or a shipped encoder; default: one with fresh weights.")
    ] = None,
) -> None:
    """Draw the first training batch of a config: its views, and how alike its instances are."""
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
    record: Annotated[str, typer.Option(help="Record id within the store.")],
    out: Picture = Path("augmentations.png"),
    lead: Annotated[str | None, typer.Option(help="Default: the first one.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other augmentations.")] = 0,
) -> None:
    """Draw 5 s of a recording under every augmentation, with its defaults and applied for certain."""
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
    title: Annotated[str, typer.Option(help="Over the picture.")] = "",
) -> None:
    """Draw losses and effective rank of runs, epoch by epoch, side by side."""
    from clocs.training.curves import draw_runs

    draw_runs(runs, out, title)
    typer.echo(str(out))


@show.command()
def scores(
    evaluation: Annotated[Path, typer.Argument(metavar="EVALUATION", help="Folder that 'clocs evaluate' names.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the pictures.")] = Path(),
    level: Annotated[str, typer.Option(help="frame, recording or patient.")] = "recording",
) -> None:
    """Draw the ROC curves of an evaluation, and whether its probabilities mean what they say."""
    from clocs.evaluation.results import draw_scores

    for path in draw_scores(evaluation, out, level):
        typer.echo(str(path))
