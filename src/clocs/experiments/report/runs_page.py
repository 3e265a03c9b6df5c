"""The page of runs: every pre-training, whether it was still improving, and what limits these results have."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from clocs.core.files import canonical_json, content_hash
from clocs.experiments.cells import APART, EPOCHS
from clocs.experiments.paper_numbers import paper
from clocs.experiments.report.figures import Gallery
from clocs.experiments.report.learning import learning_curves, learning_table
from clocs.experiments.report.page import (
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
    counted,
    hours,
    listed,
)
from clocs.experiments.report.reading import FINETUNE_EPOCHS, Finished, Results
from clocs.signals.leads import STANDARD
from clocs.training.recommended import RECOMMENDED

OMITTED: Final = ("off_diagonals", "view_choice")
"""Options of the recommended method that a run may lack."""
SHORT: Final = 12
"""Digits of a hash that are shown."""


def runs_page(results: Results, gallery: Gallery) -> Page:
    """Limits first, then how the methods learned, then all runs."""
    trained = results.trained
    trials = [each for each in trained if each.cell["preset"] == "trial"]
    blocks: tuple[Block, ...] = (
        Heading("Limits"),
        Points(limits(results)),
        Heading("How the methods learned"),
        Text("On Chapman, the first seed; the dot is the encoder that is judged."),
        *gallery.panels(learning_curves(results)),
        learning_table(results),
        Heading("Pre-trainings"),
        _pretrainings([each for each in trained if each not in trials]),
        *_search(len(trials)),
        Heading("Data and versions"),
        _data(results),
        Text(f"Computed with {_versions(results)}."),
    )
    return Page("runs", "Runs and limits", blocks)


def _search(count: int) -> list[Block]:
    """Trials are kept apart from what is held against the paper."""
    trials = counted(count, "trial")
    text = f"Besides, those of {trials} of the search for what to recommend, judged by validation patients alone."
    return [Text(text)] if count else []


def limits(results: Results) -> tuple[str, ...]:
    """What must be known of these results before anything is concluded from them."""
    judged = results.judged
    trained = [each for each in results.trained if each.cell["epochs"] == EPOCHS and not each.cell.get("config")]
    improving = [each for each in trained if each.still_improving]
    return (
        f"Pre-training ends after at most {EPOCHS} epochs, for all methods alike; the paper states no number. "
        f"Of {counted(len(trained), 'run')}, {len(improving)} still improved when the cap ended them"
        f"{_named(improving)}: more epochs may change their values, and the order of methods.",
        *_first_epoch(trained),
        *_finetuned(judged),
        _seeds(judged),
        "Splits are ours and do not leak; the paper's are not published, so that its test patients are others.",
        "The paper does not say what a share of the labels is drawn over: here over patients.",
        *_leads(judged),
        "Times of training are a processor's; those of the first runs a clock's, with one thread, which is more where "
        "other work ran beside.",
        *_notes(judged),
    )


def _first_epoch(trained: Sequence[Finished]) -> list[str]:
    """A loss with a moving target may rise while the encoder gets better."""
    first = [each for each in trained if each.body["result"]["best_epoch"] == 0]
    text = (
        f"The validation loss of {counted(len(first), 'run')} was lowest after the first epoch{_named(first)}: that "
        "epoch's encoder is the one which is judged, as for all methods the one of the lowest validation loss."
    )
    return [text] if first else []


def _finetuned(judged: Sequence[Finished]) -> list[str]:
    """Those with the paper's cap; early cells did not say how they ended."""
    told = [each for each in judged if "still_improving" in each.body and each.cell["epochs"] == FINETUNE_EPOCHS]
    improving = sum(bool(each.body["still_improving"]) for each in told)
    text = (
        f"Of {counted(len(told), 'fine-tuning')}, {improving} still improved after {FINETUNE_EPOCHS} epochs, their cap."
    )
    return [text] if told else []


def _leads(judged: Sequence[Finished]) -> list[str]:
    if any(each.cell["leads"] == len(STANDARD) for each in judged):
        return []
    return ["Four leads (II, V2, aVL, aVR): the paper's experiments with twelve need the publishers' full downloads."]


def _named(improving: list[Finished]) -> str:
    names = dict.fromkeys(
        f"{METHOD_NAMES.get(each.cell['method'], each.cell['method'])} on {_datasets(each.cell)}" for each in improving
    )
    return f" ({listed(names)})" if names else ""


def _seeds(judged: Sequence[Finished]) -> str:
    seeds = Counter(content_hash(_without_seed(each.cell)) for each in judged)
    spread = Counter(seeds.values())
    if not spread:
        return "No evaluation is done yet."
    told = listed(f"{counted(spread[count], 'experiment')} with {counted(count, 'seed')}" for count in sorted(spread))
    return (
        f"Of {counted(spread.total(), 'experiment')} that are judged, {told}; the paper has {paper().seeds} each. An "
        "interval over patients says nothing about other seeds."
    )


def _without_seed(cell: dict[str, Any]) -> dict[str, Any]:
    """Nor with the precision of its pre-training, in which seeds of the one encoder differ."""
    start = cell.get("start")
    if start:
        config = {key: value for key, value in start.get("config", {}).items() if key != "precision"}
        start = {**start, "seed": None, "config": config}
    return {**cell, "seed": None, "start": start}


def _notes(judged: Sequence[Finished]) -> list[str]:
    """What evaluations noted themselves, such as frames at another rate than the encoder was trained on."""
    told = (note for each in judged for note in each.body["result"].get("notes", []))
    found = Counter(re.sub(r"(\d)\.0 Hz", r"\1 Hz", note) for note in told)  # earlier cells wrote 500.0
    return [f"Noted by {counted(count, 'evaluation')}: {note}." for note, count in sorted(found.items())]


def _pretrainings(trained: list[Finished]) -> Table:
    titles = ("", "data", "E", "seed", "preset", "epochs", "best epoch", "still improving", "time of one core")
    return Table(titles, tuple(_pretraining(each) for each in trained))


def _pretraining(each: Finished) -> tuple[Entry, ...]:
    cell, result = each.cell, each.body["result"]
    return (
        Entry(METHOD_NAMES.get(cell["method"], cell["method"]), _changes(cell)),
        Entry(_datasets(cell)),
        Entry(str(cell["embedding"])),
        Entry(str(cell["seed"])),
        Entry(cell["preset"]),
        Entry(str(result["epochs"])),
        Entry(str(result["best_epoch"] + 1)),
        Entry("yes" if each.still_improving else "no"),
        Entry(DASH if each.seconds is None else hours(each.seconds)),
    )


def _changes(cell: dict[str, Any]) -> str:
    """What a run does otherwise than its preset."""
    usual: dict[str, Any] = {}
    if cell["preset"] == "recommended":
        usual = json.loads(canonical_json({**RECOMMENDED, **RECOMMENDED["method"]}))
    told = {**cell["options"], **cell.get("config", {})}
    if told.get("split") == APART:
        return "leaks on purpose: the split is another than that of the evaluation"
    changed = {name: value for name, value in told.items() if usual.get(name) != value and name != "patience"}
    gone = [f"no {name}" for name in OMITTED if name in usual and name not in told]
    return ", ".join([*(f"{name} {_option(value)}" for name, value in changed.items()), *gone])


def _datasets(cell: dict[str, Any]) -> str:
    return " with ".join(DATASET_NAMES.get(name, name) for name in (cell["dataset"], *cell.get("more", ())))


def _option(value: Any) -> str:
    if isinstance(value, list):
        return " then ".join(str(each["name"] if isinstance(each, dict) else each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(f"{name} {inner}" for name, inner in value.items()) or "as the paper has them"
    return str(value)


def _data(results: Results) -> Table:
    """Stores and splits by their hashes, with how many cells used them."""
    used = Counter((name, *hashes) for each in results.finished for name, hashes in each.body["data"].items())
    rows = [
        (Entry(DATASET_NAMES.get(name, name)), *(Entry(f"`{each[:SHORT]}`") for each in hashes), Entry(f"{count:,}"))
        for (name, *hashes), count in sorted(used.items())
    ]
    return Table(("data", "store", "split", "cells"), tuple(rows))


def _versions(results: Results) -> str:
    found: dict[str, set[str]] = {}
    for each in results.finished:
        environment = each.body.get("environment", {})
        for name, version in {"Python": environment.get("python"), **environment.get("packages", {})}.items():
            if version:
                found.setdefault(name, set()).add(str(version))
    return (
        listed(f"{name} {' or '.join(sorted(versions))}" for name, versions in sorted(found.items())) if found else DASH
    )
