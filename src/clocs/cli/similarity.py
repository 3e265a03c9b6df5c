"""``clocs similarity`` and ``clocs audit``: similarity scores, distances, maps, groups and privacy audit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.cli.arguments import (
    AsJson,
    Checkpoint,
    EvaluationDevice,
    Plot,
    SplitName,
    SplitStoreFolder,
    StoreFolder,
    Threads,
)
from clocs.cli.terminal import print_table
from clocs.core.errors import ConfigError

similarity = typer.Typer(help="Score similarity; measure distances; map and group patients.", no_args_is_help=True)

Checkpoints = Annotated[
    str, typer.Argument(metavar="CHECKPOINTS", help="Encoders as for 'clocs audit', separated by commas.")
]
Part = Annotated[str, typer.Option(help="Use this part of the split: train, validation or test; or all of the store.")]
Frames = Annotated[str, typer.Option(help="Cut recordings into frames by this rule: encoder, paper or segments.")]
Seed = Annotated[int, typer.Option(help="Set the seed of random weights and of UMAP.")]


class ClusterSelectionName(StrEnum):
    """Cluster selection methods of HDBSCAN."""

    EOM = "eom"
    LEAF = "leaf"


@similarity.command("score")
def score_command(
    checkpoints: Checkpoints,
    store: StoreFolder,
    k: Annotated[int, typer.Option("-k", help="Compare with this number of neighbours.")] = 10,
    split: SplitName = "default",
    part: Part = "test",
    frames: Frames = "encoder",
    seed: Seed = 0,
    device: EvaluationDevice = None,
    as_json: AsJson = False,
) -> None:
    """Score label agreement of the nearest patients, and retrieval of a patient's other segments."""
    from clocs.similarity.scoring.scores import score_similarity

    options: dict[str, Any] = {"split": split, "part": part, "frames": frames, "seed": seed, "device": device}
    found = {name: score_similarity(name, store, k=k, **options) for name in _split_names(checkpoints)}
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [row for name, one in found.items() for row in _score_rows(name, one)]
    print_table(["encoder", "measure", "value", "chance"], rows)
    _print_notes({name: one["notes"] for name, one in found.items()})


@similarity.command("distances")
def distances_command(
    checkpoints: Checkpoints,
    store: StoreFolder,
    split: SplitName = "default",
    part: Part = "validation",
    frames: Frames = "encoder",
    seed: Seed = 0,
    device: EvaluationDevice = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Measure distances within and between patients, as in figure 6 of the paper."""
    from clocs.drawing.embeddings import draw_distances
    from clocs.evaluation.scoring import format_interval
    from clocs.similarity.scoring.scores import score_distances

    options: dict[str, Any] = {"split": split, "part": part, "frames": frames, "seed": seed, "device": device}
    found = {name: score_distances(name, store, **options) for name in _split_names(checkpoints)}
    if plot is not None:
        short = {Path(name).name for name in found}
        titles = {name: Path(name).name if len(short) == len(found) else name for name in found}
        draw_distances({titles[name]: (one.intra, one.inter) for name, (one, _) in found.items()}, plot)
    summaries = {name: one for name, (_, one) in found.items()}
    if as_json:
        typer.echo(json.dumps(summaries))
        return
    rows = [
        (name, f"{one['intra']['mean']:.4g}", f"{one['inter']['mean']:.4g}", format_interval(one["separation"]))
        for name, one in summaries.items()
    ]
    print_table(["encoder", "mean within a patient", "mean between patients", "AUC between the two"], rows)
    _print_notes({name: one["notes"] for name, one in summaries.items()})


@similarity.command("map")
def map_command(
    checkpoint: Checkpoint,
    stores: Annotated[str, typer.Argument(metavar="STORES", help="Folders of stores, separated by commas.")],
    method: Annotated[str, typer.Option(help="Project with pca, or with umap (extra 'umap').")] = "pca",
    split: SplitName = "default",
    part: Part = "test",
    frames: Frames = "encoder",
    seed: Seed = 0,
    device: EvaluationDevice = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Plot a two-dimensional map of patients, colored by label, age, sex and site."""
    from clocs.drawing.embeddings import draw_map
    from clocs.similarity.patient_map import map_patients
    from clocs.similarity.scoring.cohort import open_cohort

    options: dict[str, Any] = {"split": split, "part": part, "frames": frames, "seed": seed, "device": device}
    cohorts = {store: open_cohort(checkpoint, store, **options) for store in _split_names(stores)}
    found = map_patients(list(cohorts.values()), method, seed=seed)
    target = plot or (None if as_json else Path("patient-map.png"))
    if target is not None:
        draw_map(found.points, found.metadata.color_columns(), target, axes_names=found.axis_labels())
    notes = {store: cohort.notes for store, cohort in cohorts.items()}
    if as_json:
        typer.echo(json.dumps({**found.as_dict(), "notes": notes}))
        return
    typer.echo(str(target))
    _print_notes(notes)


@similarity.command("groups")
def groups_command(
    checkpoint: Checkpoint,
    store: StoreFolder,
    min_group_size: Annotated[
        int | None,
        typer.Option(help="Set the minimum number of patients per group. Default: 15, or 1 % of all if that is more."),
    ] = None,
    cluster_selection: Annotated[
        ClusterSelectionName,
        typer.Option(help="Select the most persistent clusters (eom), or the smallest dense ones (leaf)."),
    ] = ClusterSelectionName.EOM,
    split: SplitName = "default",
    part: Part = "test",
    frames: Frames = "encoder",
    seed: Seed = 0,
    device: EvaluationDevice = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Cluster patients, and compare labels, ages and sexes of the groups with all patients."""
    from clocs.drawing.embeddings import draw_groups
    from clocs.similarity.patient_groups import group_patients
    from clocs.similarity.scoring.cohort import open_cohort

    options: dict[str, Any] = {"split": split, "part": part, "frames": frames, "seed": seed, "device": device}
    cohort = open_cohort(checkpoint, store, **options)
    found = group_patients(cohort, min_group_size=min_group_size, cluster_selection=cluster_selection.value)
    if plot is not None:
        names = {group.number: group.legend() for group in found.groups}
        draw_groups(found.patient_map.points, found.assignment, names, plot, axes_names=found.patient_map.axis_labels())
    if as_json:
        typer.echo(json.dumps({**found.as_dict(), "notes": cohort.notes}))
        return
    rows = []
    for group in found.groups:
        age, female = _or_dash(group.median_age, "{:.0f}"), _or_dash(group.female, "{:.0%}")
        rows.append((group.title, group.patients, group.describe_labels(), age, female))
    print_table(["group", "patients", "labels (ratio to all patients)", "median age", "female"], rows)
    stability = _or_dash(found.stability, "{:.2f}")
    typer.echo(f"stability with half of the patients: {stability} (adjusted Rand index, at most 1)")
    _print_notes({checkpoint: cohort.notes})


def _split_names(names: str) -> list[str]:
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ConfigError("Expected at least one name; separate several by commas.")
    return found


def _score_rows(name: str, found: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the table rows of one encoder."""
    from clocs.evaluation.scoring import format_interval

    rows = []
    if agreement := found["agreement"]:
        for kind in ("macro", "micro"):
            rows.append((f"precision at {agreement['k']}, {kind}", agreement[kind], agreement["chance"][kind]))
    for where, ranks in found["retrieval"].items():
        if ranks is None or "examples" in ranks:
            continue
        words = "another segment" if where == "any_segment" else "another recording"
        for kind in ("rank_1", "rank_10"):
            rows.append((f"{words}, {kind.replace('_', ' ')}", ranks[kind], ranks["chance"][kind]))
        rows.append((f"{words}, mean reciprocal rank", ranks["mean_reciprocal_rank"], None))
    shown = [(words, format_interval(value), _or_dash(chance, "{:.4f}")) for words, value, chance in rows]
    for where, ranks in found["retrieval"].items():
        for example in (ranks or {}).get("examples", ()):
            shown.append((f"patient {example['patient']}, {where.replace('_', ' ')}", f"rank {example['rank']:g}", ""))
    return [(name if not place else "", *row) for place, row in enumerate(shown)]


def _print_notes(found: Mapping[str, Sequence[str]]) -> None:
    for name, notes in found.items():
        for note in notes:
            typer.echo(f"{name}: {note}")


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def audit(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    split: SplitName = "default",
    frames: Frames = "encoder",
    seed: Annotated[int, typer.Option(min=0, help="Set the seed of random weights.")] = 0,
    device: EvaluationDevice = None,
    num_threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Audit an encoder for re-identification of patients and membership inference, by simple attacks."""
    import torch

    from clocs.similarity.scoring.audit import audit as run
    from clocs.similarity.scoring.audit import table_rows

    torch.set_num_threads(num_threads)
    found = run(checkpoint, store, split=split, frames=frames, seed=seed, device=device)
    if as_json:
        typer.echo(json.dumps(found))
        return
    print_table(["attack", "result", "chance"], table_rows(found))
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    typer.echo("Embeddings are personal data, whatever the results.")
