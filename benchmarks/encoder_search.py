"""Search of an encoder by validation patients: pooled activations, random kernels and trained networks, and joins.

    python benchmarks/encoder_search.py run STORES CACHE [TRIAL ...]
    python benchmarks/encoder_search.py page

``CACHE`` is filled by ``encoder_features.py``. ``run`` computes the trials whose features are there and adds one line a
trial to ``results/encoder-search.jsonl``; ``page`` writes the tables of ``docs/background/encoder-search.md`` from it.
No test recording is read.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from encoder_blocks import Block, cached, core_seconds, finished_parts, recording_values
from encoder_features import used_records
from encoder_trials import REFERENCE, TRIALS, Trial
from page_tables import table, write_tables

import clocs
from clocs.core.seeds import generator
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.metrics.ranking import Ranking, auc, macro_average
from clocs.store.store import Store
from clocs.training.labels import sample_patients

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "encoder-search.jsonl", ROOT / "docs" / "background" / "encoder-search.md"
TASKS = {"super": ("ptbxl", "super"), "all": ("ptbxl", "all"), "cpsc": ("physionet2020", "cpsc2018")}
FRACTIONS = {"all labels": (1.0, 1), "a tenth": (0.1, 3)}
"""Label fractions with the number of draws of labelled patients."""
PENALTIES = 10.0 ** np.arange(-0.5, -6.1, -0.5)
"""Penalties, relative to the number of labelled recordings. Recordings have the mean square 1."""
PATIENCE = 2
"""Weaker penalties in a row below the best at which a path ends."""
REPLICATES = 200
REQUIRED = ("small", "kernels-100-10000")
"""Sources whose finished parts define the recordings of the search."""
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Predictions = dict[str, list[Floats]]
"""Predictions of the validation recordings by column of the table, one array (N, K) a draw."""


class Search:
    """Stores, cached features and targets.

    Args:
        stores: Folder of the stores.
        cache: Folder of the cached features.
    """

    def __init__(self, stores: Path, cache: Path) -> None:
        self.cache = cache
        self.stores = {name: clocs.open_store(stores / name) for name, _ in TASKS.values()}
        self.parts = frozenset.intersection(
            *(frozenset(finished_parts(cache / store / source)) for store in self.stores for source in REQUIRED)
        )
        self.used = {name: self._used(name, store) for name, store in self.stores.items()}

    def _used(self, name: str, store: Store) -> tuple[Mask, Mask]:
        """Return the training and the validation recordings of the parts that all required sources have."""
        found = np.zeros(len(store), np.bool_)
        found[np.unique(cached(self.cache / name / REQUIRED[0], self.parts)[1])] = True
        train, validation = used_records(store, name)
        return train & found, validation & found

    def can_run(self, trial: Trial) -> bool:
        """Return whether all features of a trial are in the cache."""
        folders = [self.cache / store / block.source for store in self.stores for block in trial.blocks]
        return all(self.parts <= finished_parts(folder) for folder in folders)

    @functools.lru_cache(maxsize=40)  # noqa: B019 - one search a process
    def products(self, store: str, block: Block) -> tuple[torch.Tensor, int]:
        """Return the inner products of used recordings (rows: all, columns: training), and the number of features.

        The mean square of a recording is scaled to 1.
        """
        train, validation = self.used[store]
        used = np.flatnonzero(train | validation)
        values = recording_values(self.cache / store, self.parts, block, used, train[used])
        values = scaled(values, train[used], block)
        rows, columns = torch.from_numpy(values), torch.from_numpy(values[train[used]])
        return rows @ columns.T / columns.square().sum(1).mean(), int((columns != 0).any(0).sum())

    def joined(self, store: str, trial: Trial) -> tuple[torch.Tensor, int]:
        """Return the weighted mean of the inner products of all blocks, and the number of features."""
        found = [(*self.products(store, block), weight) for block, weight in trial.blocks.items()]
        total = sum(weight for *_, weight in found)
        products = torch.stack([product * (weight / total) for product, _, weight in found]).sum(0)
        return products, sum(size for _, size, _ in found)

    def run(self, trial: Trial) -> tuple[dict[str, Any], Predictions]:
        """Return the line of a trial, and its predictions."""
        begin, dimensions = time.process_time(), []
        predictions: Predictions = {}
        scores: dict[str, float] = {}
        for task, (store, name) in TASKS.items():
            products, size = self.joined(store, trial)
            dimensions.append(size)
            truth = self.truth(store, name)
            for label, (fraction, draws) in FRACTIONS.items():
                found = [self._predict(products, store, name, fraction, draw) for draw in range(draws)]
                column = f"{task}, {label}"
                predictions[column] = found
                scores[column] = round(float(np.mean([macro_average(auc(truth, each)) for each in found])), 4)
        score = round(float(np.mean(list(scores.values()))), 4)
        cost = round(time.process_time() - begin) + sum(self._cost(block) for block in trial.blocks)
        about = {"trial": trial.name, "group": trial.group, "blocks": trial.about, "features": max(dimensions)}
        sizes = {name: [int(mask.sum()) for mask in masks] for name, masks in self.used.items()}
        return {**about, "score": score, **scores, "recordings": sizes, "core_seconds": cost}, predictions

    def truth(self, store: str, task: str) -> npt.NDArray[np.bool_]:
        """Return the classes of the validation recordings that take part, (N, K)."""
        targets = clocs.task_targets(self.stores[store], task)
        return np.asarray(targets.truth[self.used[store][1] & targets.included])

    def difference(self, one: Predictions, other: Predictions) -> list[float]:
        """Return the difference of two scores, and its 95 % interval over validation recordings."""
        columns = []
        for task, (store, name) in TASKS.items():
            truth = self.truth(store, name)
            draws = generator(0, "bootstrap", store, name).integers(len(truth), size=(REPLICATES, len(truth)))
            weights = np.stack([np.bincount(draw, minlength=len(truth)) for draw in draws], 1).astype(float)
            weights = np.concatenate([np.ones((len(truth), 1)), weights], 1)
            for label in FRACTIONS:
                both = [_macro_aucs(truth, each[f"{task}, {label}"], weights) for each in (one, other)]
                columns.append(both[0] - both[1])
        values = np.mean(columns, 0)
        return [round(float(value), 4) for value in (values[0], *np.quantile(values[1:], (0.025, 0.975)))]

    def _cost(self, block: Block) -> int:
        """Return the seconds of one core that the features of a block took."""
        return round(sum(core_seconds(self.cache / store / block.source, self.parts) for store in self.stores))

    def _predict(self, products: torch.Tensor, store: str, task: str, fraction: float, draw: int) -> Floats:
        """Return the predictions of the best penalty."""
        opened, (train, validation) = self.stores[store], self.used[store]
        targets = clocs.task_targets(opened, task)
        of_rows, of_columns = np.flatnonzero(train | validation), np.flatnonzero(train)
        labelled = sample_patients(opened, train & targets.included, fraction, draw)
        columns = products[:, torch.from_numpy(labelled[of_columns])]
        truth = torch.from_numpy(targets.truth[labelled] * np.float32(2) - 1)
        judged = columns[torch.from_numpy((validation & targets.included)[of_rows])]
        expected, tried, best = self.truth(store, task), list[float](), np.empty(0, np.float32)
        for predicted in ridge_path(columns[torch.from_numpy(labelled[of_rows])], judged, truth):
            tried.append(macro_average(auc(expected, predicted)))
            if tried[-1] == max(tried):
                best = predicted
            elif max(tried[-PATIENCE:]) < max(tried):
                break
        return best


def scaled(values: Floats, train: Mask, block: Block) -> Floats:
    """Return features standardized by training recordings; principal components keep their deviations."""
    standardization = Standardization.fit(values[train])
    if isinstance(block.components, int) and not block.rotated:
        standardization = replace(standardization, scale=np.ones_like(standardization.scale))
    return standardization.transform(values)


def _macro_aucs(truth: npt.NDArray[np.bool_], draws: list[Floats], weights: npt.NDArray[np.float64]) -> Any:
    """Return the macro AUC of each column of weights, a mean over draws."""
    return np.mean([np.nanmean(Ranking(truth, each).auc(weights), axis=0) for each in draws], axis=0)


def ridge_path(inner: torch.Tensor, outer: torch.Tensor, targets: torch.Tensor) -> Iterator[Floats]:
    """Yield the predictions of a ridge regression with an unpenalised bias for each penalty.

    Args:
        inner: Inner products of the labelled recordings, (N, N).
        outer: Inner products of the judged recordings with them, (M, N).
        targets: Targets of the labelled recordings, (N, K).
    """
    mean, offset = inner.mean(0), targets.mean(0)
    centred = inner - mean - mean[:, None] + mean.mean()
    judged = outer - mean - outer.mean(1, keepdim=True) + mean.mean()
    for penalty in PENALTIES:
        system = centred.clone()
        system.diagonal().add_(float(penalty) * len(inner))
        factor, failed = torch.linalg.cholesky_ex(system)
        if failed:  # below the precision of float32
            return
        yield np.asarray((judged @ torch.cholesky_solve(targets - offset, factor) + offset).numpy())


def run(stores: Path, cache: Path, names: list[str]) -> None:
    """Compute the trials of these names, or all that are missing, and add their lines."""
    search = Search(stores, cache)
    written = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    lines = {line["trial"]: line for line in map(json.loads, written)}
    reference: Predictions | None = None
    for trial in TRIALS:
        wanted = trial.name in names if names else trial.name not in lines
        if not (wanted or trial.name == REFERENCE) or not search.can_run(trial):
            continue
        line, predictions = search.run(trial)
        if trial.name == REFERENCE:
            reference = predictions
        assert reference is not None
        lines[trial.name] = line | {"minus_reference": search.difference(predictions, reference)}
        print(json.dumps(lines[trial.name]), flush=True)
        order = [lines[known.name] for known in TRIALS if known.name in lines]
        RESULTS.write_text("".join(json.dumps(each) + "\n" for each in order))


def page() -> None:
    """Write the tables of the page from the committed trials."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    columns = [f"{task}, {label}" for task in TASKS for label in FRACTIONS]
    tables = {}
    for group in dict.fromkeys(line["group"] for line in lines):
        rows = []
        for line in (line for line in lines if line["group"] == group):
            value, low, high = line["minus_reference"]
            values = [f"{line[column]:.3f}" for column in columns]
            pairs = [f"{one} / {other}" for one, other in zip(values[::2], values[1::2], strict=True)]
            rows.append([line["trial"], *pairs, f"{line['score']:.4f}", f"{value:+.4f} ({low:+.4f} to {high:+.4f})"])
        titles = ["trial", "super", "all", "CPSC 2018", "score", "minus `clocs-small`"]
        tables[group] = table(titles, rows)
    write_tables(PAGE, tables)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "page":
        page()
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
