"""The page of runs: every pre-training, and the limitations of the results."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from clocs.core.files import canonical_json
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.ready_configs import RECOMMENDED
from reproduction.cells import EPOCHS, SEPARATE_SPLIT, AnyCell, Evaluation, Pretraining
from reproduction.paper_numbers import paper
from reproduction.report.figures import Gallery
from reproduction.report.learning import learning_curves, learning_table
from reproduction.report.page import (
    DASH,
    DATASET_NAMES,
    METHOD_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Points,
    Table,
    Text,
    count_text,
    duration_text,
    join_words,
)
from reproduction.report.results import FINETUNE_EPOCHS, FinishedCell, Results

OMITTED: Final = ("off_diagonals", "view_choice")
"""Options of the recommended method that a run may lack."""
HASH_DIGITS: Final = 12
"""Number of digits of a hash."""


def runs_page(results: Results, gallery: Gallery) -> Page:
    """Return the page: limitations, learning curves, and all runs."""
    trained = results.trained
    trials = [each for each in trained if each.cell.preset == "trial"]
    blocks: tuple[Block, ...] = (
        Heading("Limits"),
        Points(limits(results)),
        Heading("How the methods learned"),
        Text("On Chapman, the first seed; the dot is the encoder that is judged."),
        *gallery.panels(learning_curves(results)),
        *_learned(results),
        Heading("Pre-trainings"),
        _pretrainings([each for each in trained if each not in trials]),
        *_search(len(trials)),
        Heading("Data and versions"),
        _data(results),
        Text(f"Computed with {_versions(results)}."),
    )
    return Page("runs", "Runs and limits", blocks)


def _learned(results: Results) -> list[Block]:
    table = learning_table(results)
    return [table] if table.rows else [Text("No results yet.")]


def _search(count: int) -> list[Block]:
    """Return a note on the trials of the search, which are not compared with the paper."""
    trials = count_text(count, "trial")
    text = f"Besides, those of {trials} of the search for what to recommend, judged by validation patients alone."
    return [Text(text)] if count else []


def limits(results: Results) -> tuple[str, ...]:
    """Return the limitations of the results, one sentence each."""
    tested = results.tested
    trained = [each for each in results.trained if each.cell.max_epochs == EPOCHS and not each.cell.config]
    return (
        *_cap(trained),
        *_first_epoch(trained),
        *_finetuned(tested),
        _seeds(tested),
        "Splits are ours and do not leak; the paper's are not published, so that its test patients are others.",
        "The paper does not say what a share of the labels is drawn over: here over patients.",
        *_leads(tested),
        "Times of training are a processor's; those of the first runs a clock's, with one thread, which is more where "
        "other work ran beside.",
        *_notes(tested),
    )


def _cap(trained: Sequence[FinishedCell]) -> list[str]:
    """Return a sentence on pre-trainings that the maximum of epochs ended."""
    text = f"Pre-training ends after at most {EPOCHS} epochs, for all methods alike; the paper states no number."
    if not trained:
        return [f"{text} None of these runs is done."]
    improving = [each for each in trained if each.still_improving]
    return [
        f"{text} Of {count_text(len(trained), 'run')}, {len(improving)} still improved when the cap ended them"
        f"{_named(improving)}: more epochs may change their values, and the order of methods."
    ]


def _first_epoch(trained: Sequence[FinishedCell]) -> list[str]:
    """Return a sentence on runs that were best at the start. A loss with a moving target may rise during training."""
    first = [each for each in trained if each.result["best_epoch"] == 0]
    text = (
        f"The validation loss of {count_text(len(first), 'run')} was lowest after the first epoch{_named(first)}: that "
        "epoch's encoder is the one which is judged, as for all methods the one of the lowest validation loss."
    )
    return [text] if first else []


def _finetuned(tested: Sequence[FinishedCell]) -> list[str]:
    """Return a sentence on fine-tunings that the maximum of epochs ended. Early rows do not have this value."""
    known = [each for each in tested if "still_improving" in each.row and each.cell.max_epochs == FINETUNE_EPOCHS]
    improving = sum(bool(each.row["still_improving"]) for each in known)
    count = count_text(len(known), "fine-tuning")
    text = f"Of {count}, {improving} still improved after {FINETUNE_EPOCHS} epochs, their cap."
    return [text] if known else []


def _leads(tested: Sequence[FinishedCell]) -> list[str]:
    if any(each.cell.leads == len(STANDARD_LEADS) for each in tested):
        return []
    return ["Four leads (II, V2, aVL, aVR): the paper's experiments with twelve need the publishers' full downloads."]


def _named(improving: Sequence[FinishedCell]) -> str:
    names = dict.fromkeys(
        f"{METHOD_NAMES.get(each.cell.method, each.cell.method)} on {_datasets(each.cell)}" for each in improving
    )
    return f" ({join_words(names)})" if names else ""


def _seeds(tested: Sequence[FinishedCell]) -> str:
    seeds = Counter(_without_seed(each.cell).key for each in tested if isinstance(each.cell, Evaluation))
    spread = Counter(seeds.values())
    if not spread:
        return "No evaluation is done yet."
    counts = join_words(
        f"{count_text(spread[count], 'experiment')} with {count_text(count, 'seed')}" for count in sorted(spread)
    )
    return (
        f"Of {count_text(spread.total(), 'experiment')} that are judged, {counts}; the paper has {paper().seeds} each. "
        "An "
        "interval over patients says nothing about other seeds."
    )


def _without_seed(cell: Evaluation) -> Evaluation:
    """Return a cell without its seed, and without the precision, which depends on the seed."""
    start = cell.start
    if start is not None:
        config = {key: value for key, value in start.config.items() if key != "precision"}
        start = start.model_copy(update={"seed": 0, "config": config})
    return cell.model_copy(update={"seed": 0, "start": start})


def _notes(tested: Sequence[FinishedCell]) -> list[str]:
    """Return the notes of evaluations, such as frames at another sampling rate than in training."""
    notes = (note for each in tested for note in each.result.get("notes", []))
    found = Counter(re.sub(r"(\d)\.0 Hz", r"\1 Hz", note) for note in notes)  # earlier rows have 500.0
    return [f"Noted by {count_text(count, 'evaluation')}: {note}." for note, count in sorted(found.items())]


def _pretrainings(trained: Sequence[FinishedCell]) -> Table:
    titles = ("", "data", "E", "seed", "preset", "epochs", "best epoch", "still improving", "time of one core")
    return Table(titles, tuple(_pretraining(each) for each in trained))


def _pretraining(each: FinishedCell) -> tuple[Entry, ...]:
    cell, result = each.cell, each.result
    assert isinstance(cell, Pretraining)
    return (
        Entry(METHOD_NAMES.get(cell.method, cell.method), _changes(cell)),
        Entry(_datasets(cell)),
        Entry(str(cell.embedding_dim)),
        Entry(str(cell.seed)),
        Entry(cell.preset),
        Entry(str(result["epochs"])),
        Entry(str(result["best_epoch"] + 1)),
        Entry("yes" if each.still_improving else "no"),
        Entry(DASH if each.seconds is None else duration_text(each.seconds)),
    )


def _changes(cell: Pretraining) -> str:
    """Return the changes of a run from its preset."""
    usual: dict[str, Any] = {}
    if cell.preset == "recommended":
        usual = json.loads(canonical_json({**RECOMMENDED, **RECOMMENDED["method"]}))
    given = cell.model_dump(mode="json")
    options = {**given["options"], **given["config"]}
    if options.get("split") == SEPARATE_SPLIT:
        return "leaks on purpose: the split is another than that of the evaluation"
    changed = {name: value for name, value in options.items() if usual.get(name) != value and name != "patience"}
    gone = [f"no {name}" for name in OMITTED if name in usual and name not in options]
    return ", ".join([*(f"{name} {_option(value)}" for name, value in sorted(changed.items())), *gone])


def _datasets(cell: AnyCell) -> str:
    names = cell.datasets if isinstance(cell, Pretraining) else (cell.dataset,)
    return " with ".join(DATASET_NAMES.get(name, name) for name in names)


def _option(value: Any) -> str:
    if isinstance(value, list):
        return " then ".join(str(each["name"] if isinstance(each, dict) else each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(f"{name} {inner}" for name, inner in value.items()) or "as the paper has them"
    return str(value)


def _data(results: Results) -> Table:
    """Return stores and splits by their hashes, with the number of cells."""
    used = Counter((name, *hashes) for each in results.finished for name, hashes in each.row["origin"]["data"].items())
    rows = [
        (
            Entry(DATASET_NAMES.get(name, name)),
            *(Entry(f"`{each[:HASH_DIGITS]}`") for each in hashes),
            Entry(f"{count:,}"),
        )
        for (name, *hashes), count in sorted(used.items())
    ]
    return Table(("data", "store", "split", "cells"), tuple(rows))


def _versions(results: Results) -> str:
    found: dict[str, set[str]] = {}
    for each in results.finished:
        environment = each.row.get("environment", {})
        for name, version in {"Python": environment.get("python"), **environment.get("packages", {})}.items():
            if version:
                found.setdefault(name, set()).add(str(version))
    versions = (f"{name} {' or '.join(sorted(known))}" for name, known in sorted(found.items()))
    return join_words(versions) if found else DASH
