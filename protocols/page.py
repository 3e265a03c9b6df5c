"""Tables of the page about protocol faults, made from the results.

A block is ``<!-- protocols:NAME -->`` ... ``<!-- /protocols -->``, on separate lines or within a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.core.storage.files import write_bytes
from protocols.copied import COPIED_VALUES
from protocols.encoders import PRETRAINED, RANDOM, SCRATCH
from protocols.faults import CROSSED
from protocols.pretraining import PRETRAININGS
from protocols.results import Row, Rows

MARKED: Final = re.compile(r"(<!-- protocols:([\w-]+) -->)(.*?)(<!-- /protocols -->)", re.DOTALL)
ENCODERS: Final = (RANDOM, SCRATCH, PRETRAINED)
MISSING: Final = "not measured yet"
MODES: Final = {
    "eval": "frozen, eval mode",
    "train": "frozen weights, train mode",
    "all": "all weights trained",
}
INPUTS: Final = {
    "copied": "first 5 s, padded to 10 s",
    "first": "first 5 s",
    "whole": "whole recording",
}
COPIED_INPUTS: Final = {"copied": "copied", "whole": INPUTS["whole"]}
"""Inputs of the copied protocol. What is copied differs by dataset: the first 5 s, padded, or a recording of 10 s."""
ON: Final = {"copied": "on the copied input", "whole": "on whole recordings"}


def fill_page(path: Path, results: Path) -> None:
    """Fill the marked blocks of a page.

    Args:
        path: The page.
        results: Folder of the results.

    Raises:
        ConfigError: A block has no table of its name.
    """

    def replaced(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            raise ConfigError(f"{path}: no block '{found[2]}'. Choose from {', '.join(BLOCKS)}.")
        content = BLOCKS[found[2]](results)
        around = "\n" if "\n" in content else ""
        return f"{found[1]}{around}{content}{around}{found[4]}"

    text = path.read_text(encoding="utf-8")
    write_bytes(path, MARKED.sub(replaced, text).encode())


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    """Return an AUC with three digits."""
    return f"{value:.3f}".removeprefix("0")


def _interval(row: Row | None) -> str:
    return MISSING if row is None else f"{_number(row['auc'])} ({_number(row['low'])} to {_number(row['high'])})"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _name(row: Row | None, name: str) -> str:
    """Return the name of an encoder, with its runs from scratch or the steps of its pre-training."""
    if row is not None and "seeds" in row:
        return f"{name} ({row['seeds']} run{'s' * (row['seeds'] > 1)})"
    if row is None or "steps" not in row:
        return name
    return f"{name}, {row['steps']:,} steps" + ("" if row["is_finished"] else " (not finished)")


def _rows(results: Path, name: str) -> Rows:
    return Rows(results / f"{name}.json")


def _crossed(results: Path) -> str:
    rows, lines = _rows(results, "crossed"), []
    for encoder in ENCODERS:
        for labels in ("true", "crossed"):
            row = rows.find(encoder=encoder, labels=labels)
            classes = [MISSING] * 3 if row is None else [_number(row["classes"][name]) for name in CROSSED]
            lines.append([_name(row, encoder), labels, _interval(row), *classes])
    titles = [name.strip("_") for name in CROSSED]
    return _table(["encoder", "training labels", "macro AUC, 23 classes", *titles], lines)


def _crossed_counts(results: Path) -> str:
    row = _rows(results, "crossed").find(encoder="labels")
    if row is None:
        return MISSING
    counts = (f"{name.strip('_')} {train:,} / {test:,}" for name, (train, test) in row["positives"].items())
    return ", ".join(counts)


def _twins(results: Path) -> str:
    row = _rows(results, "duplicates").find(encoder="signals")
    if row is None:
        return MISSING
    found = row["counts"]
    share = 100 * found["twins"] / found["test"]
    return (
        f"{found['twins']} of {found['test']:,} test recordings ({share:.1f} %) have an identical signal in training, "
        f"{found['same_labels']} of them with the same labels; "
        f"{found['straddle']} of {found['groups']} groups of identical signals are in more than one part"
    )


def _duplicates(results: Path) -> str:
    rows, lines = _rows(results, "duplicates"), []
    for encoder in ENCODERS:
        row = rows.find(encoder=encoder)
        columns = ("all", "without_twins", "twins_not_trained")
        lines.append([_name(row, encoder), *(_interval(row and row[column]) for column in columns)])
    titles = ["all test recordings", "those without a twin", "all, twins removed from training"]
    return _table(["encoder", *titles], lines)


def _epochs(results: Path) -> str:
    lines = []
    for row in sorted(_rows(results, "epochs").rows, key=lambda row: ENCODERS.index(row["encoder"])):
        columns = [_number(row[name]) for name in ("by_validation", "last", "by_test")]
        gain = _signed(row["by_test"] - row["by_validation"])
        lines.append([_name(row, row["encoder"]), MODES[row["mode"]], *columns, gain])
    titles = ["epoch by validation", "last epoch", "best test epoch", "gain from the test set"]
    return _table(["encoder", "mode", *titles], lines)


def _inputs(results: Path) -> str:
    rows, lines = _rows(results, "inputs"), []
    for encoder in ENCODERS:
        found = [rows.find(encoder=encoder, input=kind) for kind in INPUTS]
        lines.append([_name(found[-1], encoder), *map(_interval, found)])
    return _table(["encoder", *INPUTS.values()], lines)


def _controls(results: Path) -> str:
    cpsc, super_classes = _rows(results, "inputs"), _rows(results, "controls")
    lines = []
    for encoder in ENCODERS:
        found = [cpsc.find(encoder=encoder, input="whole"), super_classes.find(encoder=encoder)]
        names = dict.fromkeys(_name(row, encoder) for row in found)
        lines.append([" / ".join(names), *map(_interval, found)])
    return _table(["encoder", "CPSC 2018, common split", "PTB-XL super, published folds"], lines)


def _fractions(results: Path) -> str:
    lines = []
    for row in sorted(_rows(results, "fractions").rows, key=lambda row: ENCODERS.index(row["encoder"])):
        draws, labelled = row["draws"], row["labelled"]
        spread = f"{_number(min(draws))} to {_number(max(draws))} ({len(draws)})"
        counts = f"{labelled['train']:,} / {labelled['validation']:,}"
        lines.append([_name(row, row["encoder"]), row["meaning"], counts, _number(sum(draws) / len(draws)), spread])
    titles = ["1 % means", "labels, training / validation", "mean AUC", "lowest to highest draw (draws)"]
    return _table(["encoder", *titles], lines)


def _copied(dataset: str) -> Callable[[Path], str]:
    def made(results: Path) -> str:
        lines = [["CLOCS, copied value", "unknown", "copied", *map(_number, COPIED_VALUES[dataset])]]
        for row in _rows(results, "copied").rows:
            if row["dataset"] == dataset:
                values = map(_interval, row["fractions"])
                name = _name(row, TITLES[row["encoder"]])
                lines.append([name, str(row["leads"]), COPIED_INPUTS[row["input"]], *values])
        return _table(["encoder", "leads", "input", "1 %", "10 %", "100 %"], lines)

    return made


def _verdict(dataset: str) -> Callable[[Path], str]:
    """Return a sentence that compares (a) with all labels with the copied value."""

    def made(results: Path) -> str:
        value = COPIED_VALUES[dataset][-1]
        found = {kind: _all_labels(results, dataset, kind) for kind in COPIED_INPUTS}
        lines = [
            f"(a) has {_interval(row)} {ON[kind]}, {_relation(row, value)} the copied {_number(value)}"
            + ("" if row["is_finished"] else " (its training is not finished)")
            for kind, row in found.items()
            if row is not None
        ]
        return "; ".join(lines) or f"(a) is {MISSING}"

    return made


def _all_labels(results: Path, dataset: str, kind: str) -> Row | None:
    """Return the AUC of (a) with all labels. That of CPSC 2018 is measured among the inputs, too."""
    if dataset == "cpsc":
        return _rows(results, "inputs").find(encoder=PRETRAINED, input=kind)
    row = _rows(results, "copied").find(dataset=dataset, encoder="paper", leads=4, input=kind)
    return None if row is None else {**row, **row["fractions"][-1]}


def _relation(found: Row, value: float) -> str:
    """Return how an interval lies to a value."""
    if found["low"] > value:
        return "above"
    return "below" if found["high"] < value else "not distinguishable from"


TITLES: Final = {
    "cnn, random": "paper's network, random weights",
    "paper": "(a) paper's network and loss",
    "equal": "(a) with equal weights of pairs",
    "resnet, random": "our ResNet, random weights",
    "resnet": "(b) CMSC loss, our ResNet",
}


def _parts(results: Path) -> str:
    """Return CPSC 2018 with all labels, with one part of the protocol changed after the other."""
    copied, epochs, twins, inputs = (_rows(results, name) for name in ("copied", "epochs", "duplicates", "inputs"))

    def probed(encoder: str, leads: int, kind: str) -> str:
        row = copied.find(dataset="cpsc", encoder=encoder, leads=leads, input=kind)
        return MISSING if row is None else _interval(row["fractions"][-1])

    def four_leads(encoder: str, kind: str) -> str:
        return _interval(inputs.find(encoder=encoder, input=kind))

    def stepwise(encoder: str, mode: str, column: str) -> str:
        row = epochs.find(encoder=encoder, mode=mode)
        return MISSING if row is None else _number(row[column])

    def twinless(encoder: str) -> str:
        row = twins.find(encoder=encoder)
        return MISSING if row is None else _interval(row["without_twins"])

    pairs = (PRETRAINED, RANDOM)
    lines = [
        ["probe", "copied input, train mode, best test epoch", *(stepwise(name, "train", "by_test") for name in pairs)],
        ["probe", "eval mode, epoch by validation", *(stepwise(name, "eval", "by_validation") for name in pairs)],
        ["probe", "L-BFGS, regularization by validation", *(four_leads(name, "copied") for name in pairs)],
        ["input", "whole recordings", *(four_leads(name, "whole") for name in pairs)],
        ["split", "test recordings without a twin", *map(twinless, pairs)],
        ["leads", "twelve leads, one at a time", probed("paper", 12, "whole"), ""],
        ["loss weighting", "equal weights of pairs, four leads", probed("equal", 4, "whole"), ""],
        ["network", "ResNet, twelve leads at once", *(probed(n, 12, "whole") for n in ("resnet", "resnet, random"))],
    ]
    return _table(["part", "changed to", "CMSC", "random weights"], lines)


def _trainings(results: Path) -> str:
    rows, lines = _rows(results, "trainings"), []
    for name, run in PRETRAININGS.items():
        row, planned = rows.find(run=name), f"{run.changes['max_steps']:,}"
        if row is None:
            lines.append([f"`{name}`", run.title, "0", planned, "0", "not started"])
        else:
            state = "finished" if row["is_finished"] else "not finished"
            lines.append([f"`{name}`", run.title, f"{row['steps']:,}", planned, f"{row['core_hours']:.2f}", state])
    return _table(["run", "trained", "steps", "at most", "core-hours", "state"], lines)


BLOCKS: Final[dict[str, Callable[[Path], str]]] = {
    "crossed": _crossed,
    "crossed-counts": _crossed_counts,
    "twins": _twins,
    "duplicates": _duplicates,
    "epochs": _epochs,
    "inputs": _inputs,
    "controls": _controls,
    "fractions": _fractions,
    "copied-cpsc": _copied("cpsc"),
    "copied-ptbxl": _copied("ptbxl"),
    "verdict-cpsc": _verdict("cpsc"),
    "verdict-ptbxl": _verdict("ptbxl"),
    "parts": _parts,
    "trainings": _trainings,
}
"""Contents of blocks by name."""
