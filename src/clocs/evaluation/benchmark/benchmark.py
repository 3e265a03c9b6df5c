"""Benchmark of encoders on the tasks of stores, with untrained controls. A killed benchmark continues."""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clocs.core import engine as engines
from clocs.core.errors import ConfigError
from clocs.core.run_identity import identity_hash
from clocs.core.storage.files import write_bytes
from clocs.evaluation.benchmark.cells import RANDOM_KERNELS, BenchmarkCell, Control, Way, run_cell
from clocs.evaluation.benchmark.embedders import Embedder, EncoderEmbedder
from clocs.evaluation.benchmark.page import RESULTS, write_pages
from clocs.evaluation.benchmark.scratch_networks import SCRATCH
from clocs.evaluation.benchmark.summary import summarize, task_of, with_best_controls
from clocs.evaluation.benchmark.task_evaluation import PROTOCOL, BenchmarkOptions
from clocs.evaluation.benchmark.trained_evaluation import TrainedWay, trained_fractions, training_options
from clocs.evaluation.recording_classifier import choose_leads, common_leads
from clocs.experiments.grid import TaskOutcome, run_grid
from clocs.experiments.workspace import Workspace
from clocs.signals.leads import canonical_lead
from clocs.store.store import open_store
from clocs.store.task_targets import store_tasks

CONTROLS: Final[tuple[Control, ...]] = ("untrained", RANDOM_KERNELS)
"""Untrained controls: the network of each encoder, and random convolution kernels."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Results of a benchmark."""

    rows: list[dict[str, Any]]
    """Summaries of the finished cells, an encoder or control on a task each; those of earlier calls come first."""
    page: str
    """Tables of all tasks, in Markdown."""
    failed: list[str] = field(default_factory=list)
    """Name and error of each cell that failed."""


def benchmark(
    encoders: Sequence[str | os.PathLike[str] | Embedder],
    stores: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    tasks: Sequence[str] = (),
    ways: Sequence[Way] = ("linear",),
    trained_tasks: Sequence[str] = (),
    leads: Sequence[str] = (),
    controls: Collection[Control] = CONTROLS,
    options: BenchmarkOptions | None = None,
    max_epochs: int | None = None,
    engine: engines.Engine = "serial",
    workers: int = 1,
    progress: Callable[[TaskOutcome], None] | None = None,
) -> BenchmarkResult:
    """Evaluate encoders and untrained controls on tasks, and write one page.

    The controls are each encoder's own network without training, and random convolution kernels. Finished cells are
    kept in ``out``. The same call therefore continues after an interruption, and a call with another encoder computes
    only the cells of that encoder. ``benchmark.json`` keeps the cells of earlier calls, unless the store or split of
    their task has changed. Encoders that have seen test recordings are rejected.

    Args:
        encoders: Names of shipped encoders, folders of encoders or runs, ``scratch:NETWORK`` for a registered encoder
            that is trained from scratch, such as ``scratch:resnet``, and embedders of other models, see
            :func:`clocs.evaluation.benchmark.embedders.load_embedder`. Which recordings the training of an embedder has
            seen is unknown and not checked.
        stores: Folder of stores, each with a split of the name ``default``.
        out: Folder of results: ``benchmark.json``, ``benchmark.md``, ``benchmark.html``, and cached features.
        tasks: Tasks as ``STORE`` for all tasks of a store or ``STORE:TASK``. Empty: all tasks of all stores.
        ways: Ways of evaluation: ``linear``, ``attentive`` and ``fine-tuned``. Networks named ``scratch:`` have their
            own.
        trained_tasks: Tasks that networks are trained on, as in ``tasks``; linear models are fitted on all tasks.
            Empty: all tasks.
        leads: Use only these leads, as a device with fewer records them; linear models alone. Empty: all leads.
        controls: Untrained controls to evaluate. Those that an earlier call has finished are compared with in any case.
        options: Label fractions and selections of the regularization or epoch. None: those of the protocol. Trained
            networks are stopped by validation labels unless selections are set.
        max_epochs: Maximum number of epochs of a training. None: that of the protocol.
        engine: ``serial``, ``processes`` or ``ray``.
        workers: Number of cells that run at the same time.
        progress: Called with the outcome of each cell.

    Returns:
        The rows, the page, and the cells that failed.

    Raises:
        ConfigError: There is no such store, task, encoder, lead or control, leads are chosen for networks that are
            trained, two encoders have one name, or an encoder is a module without a statement of its frames.

    Example:
        >>> from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions
        >>> made_up = {"num_records": 60, "leads": 1, "seconds": 5}
        >>> store = clocs.ingest("synthetic", None, "stores/synthetic", options=made_up)
        >>> split = clocs.split(store)
        >>> options = BenchmarkOptions(label_fractions=(1.0,), selections=("validation",), replicates=100)
        >>> result = clocs.benchmark([], "stores", "out", tasks=["synthetic:rhythm"], options=options)
        >>> [row["encoder"]["name"] for row in result.rows]
        ['random kernels']
    """
    folder = Path(out)
    workspace = Workspace(Path(stores), folder / "runs", folder)
    chosen = list(_chosen_tasks(Path(stores), tasks))
    names = _names(encoders)
    embedders = {encoder.name: encoder for encoder in encoders if isinstance(encoder, Embedder)}
    trained = set(_chosen_tasks(Path(stores), trained_tasks)) if trained_tasks else None
    if leads and (tuple(ways) != ("linear",) or any(name.startswith(SCRATCH) for name in names)):
        raise ConfigError("Leads can be chosen for linear models alone. Leave out other ways, or the leads.")
    if unknown := [control for control in controls if control not in CONTROLS]:
        raise ConfigError(f"Unknown control '{unknown[0]}'. Controls: {', '.join(CONTROLS)}.")
    chosen_leads = _known_leads(leads, {Path(stores) / store for store, _ in chosen})
    cells = [
        cell.model_copy(update={"leads": chosen_leads})
        for cell in _cells(names, chosen, ways, options or BenchmarkOptions(), max_epochs, trained)
    ]
    cells = list(_identified(cells, embedders))
    for cell in cells:
        workspace.name(cell)  # raises early if an encoder or a split is missing
    compute = functools.partial(run_cell, embedders=embedders) if embedders else run_cell
    wanted = [cell for cell in cells if not cell.control or cell.control in controls]
    summary = run_grid(wanted, workspace, compute, engine=engine, workers=workers, progress=progress)
    rows = summarize([row for cell in cells if (row := workspace.result(cell)) is not None])
    rows = with_best_controls(_earlier_rows(folder / RESULTS, rows) + rows)
    content = {"protocol": PROTOCOL, "rows": rows, "failed": summary.failed}
    write_bytes(folder / RESULTS, json.dumps(content, indent=1, sort_keys=True).encode())
    return BenchmarkResult(rows, write_pages(folder), summary.failed)


def _known_leads(leads: Sequence[str], stores: Iterable[Path]) -> tuple[str, ...]:
    """Return the standard names of leads, which most recordings of all stores have."""
    names = tuple(map(canonical_lead, leads))
    for store in map(open_store, sorted(stores) if names else ()):
        choose_leads(common_leads(store, store.frame_policy("evaluation")), names)
    return names


def _names(encoders: Sequence[str | os.PathLike[str] | Embedder]) -> list[str]:
    """Return the name of each encoder in tables, or its folder."""
    names = []
    for encoder in encoders:
        if not isinstance(encoder, str | os.PathLike | Embedder):
            raise ConfigError(
                f"{type(encoder).__name__}: its frames and leads are unknown. Pass load_embedder(module, policy=...), "
                "from clocs.evaluation.benchmark.embedders."
            )
        names.append(encoder.name if isinstance(encoder, Embedder) else os.fspath(encoder))
    again = [name for name, count in Counter(names).items() if count > 1]
    if again:
        raise ConfigError(f"Several encoders are named '{again[0]}'. Pass another name= to load_embedder.")
    return names


def _identified(cells: Iterable[BenchmarkCell], embedders: Mapping[str, Embedder]) -> Iterator[BenchmarkCell]:
    """Iterate over cells, those of embedders with their hash. An embedder without a torch module has no control."""
    hashes = {name: identity_hash({"embedder": embedder.identity}) for name, embedder in embedders.items()}
    for cell in cells:
        if cell.encoder not in embedders:
            yield cell
        elif not cell.control or isinstance(embedders[cell.encoder], EncoderEmbedder):
            yield cell.model_copy(update={"embedder_sha256": hashes[cell.encoder]})


def _earlier_rows(results: Path, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of earlier results that ``rows`` do not cover, on the stores and splits of today."""
    earlier = json.loads(results.read_bytes())["rows"] if results.exists() else []
    data = {task_of(row): row["origin"]["data"] for row in rows}
    return [
        row
        for row in earlier
        if not any(_covers(other, row) for other in rows)
        and data.get(task_of(row), row["origin"]["data"]) == row["origin"]["data"]
    ]


def _covers(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether a row is the same evaluation as another, with all its label fractions and selections."""

    def parts(row: dict[str, Any]) -> tuple[dict[str, Any], set[tuple[Any, ...]]]:
        lines = {(line["features"], line["label_fraction"], line["selection"]) for line in row["rows"]}
        return {name: value for name, value in row["cell"].items() if name != "options"}, lines

    (cell, lines), (other_cell, other_lines) = parts(row), parts(other)
    return cell == other_cell and lines >= other_lines


def _chosen_tasks(stores: Path, tasks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Iterate over the names of stores and tasks."""
    found = sorted(path.name for path in stores.iterdir() if path.is_dir()) if stores.is_dir() else []
    if not found:
        raise ConfigError(f"{stores} has no stores. Pass the folder that contains the folders of stores.")
    for text in tasks or found:
        name, _, task = text.partition(":")
        if name not in found:
            raise ConfigError(f"{stores} has no store '{name}'. Its stores: {', '.join(found)}.")
        known = store_tasks(open_store(stores / name))
        if task and task not in known:
            raise ConfigError(f"Store '{name}' has no task '{task}'. Its tasks: {', '.join(known)}.")
        yield from ((name, each) for each in ([task] if task else known))


def _cells(
    encoders: Sequence[str],
    tasks: Iterable[tuple[str, str]],
    ways: Sequence[Way],
    options: BenchmarkOptions,
    max_epochs: int | None = None,
    trained_tasks: Collection[tuple[str, str]] | None = None,
) -> Iterator[BenchmarkCell]:
    """Iterate over the cells of each store: for each way encoders with their controls; then random kernels."""
    by_store: dict[str, list[str]] = {}
    for store, task in tasks:
        by_store.setdefault(store, []).append(task)
    for store, names in by_store.items():
        for encoder, control, way in _evaluations(encoders, ways):
            for task in names:
                cell = BenchmarkCell(encoder=encoder, control=control, dataset=store, task=task, options=options)
                if way == "linear":
                    yield cell
                elif trained_tasks is None or (store, task) in trained_tasks:
                    yield _trained(cell, way, max_epochs)
        for task in names:
            yield BenchmarkCell(control=RANDOM_KERNELS, dataset=store, task=task, options=options)


def _evaluations(encoders: Sequence[str], ways: Sequence[Way]) -> Iterator[tuple[str, Control, Way]]:
    """Iterate over encoders, controls and ways. The control of fine-tuning is a network trained from scratch."""
    for encoder in encoders:
        if encoder.startswith(SCRATCH):
            yield encoder, "", "from scratch"
            continue
        for way in ways:
            yield encoder, "", way
            if way != "fine-tuned":
                yield encoder, "untrained", way


def _trained(cell: BenchmarkCell, way: TrainedWay, max_epochs: int | None) -> BenchmarkCell:
    """Return the cell of another way than linear, with all options of its training."""
    training = training_options(way, cell.encoder)
    if max_epochs is not None:
        training = training.model_copy(update={"max_epochs": max_epochs})
    options = cell.options
    changes: dict[str, Any] = {"label_fractions": trained_fractions(cell.encoder, options)}
    if "selections" not in options.model_fields_set:
        changes["selections"] = ("validation",)
    options = options.model_copy(update=changes)
    return cell.model_copy(update={"way": way, "options": options, "training": training})
