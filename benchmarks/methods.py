"""Measure what pre-training adds to a network: the AUC of a linear probe with and without it.

    python benchmarks/methods.py synthetic
    python benchmarks/methods.py ptbxl --source PTBXL
    python benchmarks/methods.py table

Each method trains its network for some minutes of one core, and the encoder after the last step is probed. The same
network without training is probed in the same way. Stores and runs are kept: a killed command continues where it was,
and a finished run is not trained again. PTB-XL trains on its folds 1 to 8 and is scored on fold 9. Fold 10 is not used.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import clocs
from clocs.core.storage.files import write_bytes
from clocs.evaluation.results import compare
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.encoder_module import load_encoder_folder

SPLITS = {"synthetic": "default", "ptbxl": "folds"}
SCORED_ON: dict[str, Literal["validation", "test"]] = {"synthetic": "test", "ptbxl": "validation"}
AUGMENTATIONS = (
    {"name": "scaling", "low": 0.7, "high": 1.4},
    {"name": "gaussian_noise", "sigma": 0.02},
    {"name": "baseline_wander", "amplitude": 0.1},
    {"name": "mask", "mask_fraction": 0.2},
    {"name": "lead_dropout", "probability": 0.2},
)
RESNET = {"name": "resnet", "in_channels": 12, "stem_stride": 1}
PATCHES = {"name": "patch_transformer", "in_channels": 12, "patch_size": 10, "head": "none", "embedding_dim": 96}
SEGMENTS = {"num_samples": 500, "sampling_rate": 100, "num_segments": 2}


@dataclass(frozen=True)
class Row:
    """One method on one network.

    Attributes:
        method: Name and options of the method.
        encoder: Name and options of the network.
        steps: Steps of each dataset, chosen to take 2 minutes and 15 minutes on the machine of the published table.
        config: Other keys of the pre-training's config.
    """

    method: dict[str, Any]
    encoder: dict[str, Any]
    steps: dict[str, int]
    config: dict[str, Any] = field(default_factory=dict)


ROWS = {
    "vicreg": Row(
        {"name": "vicreg", "augmentations": AUGMENTATIONS},
        RESNET,
        {"synthetic": 560, "ptbxl": 2700},
        {"frames": SEGMENTS, "precision": "bf16-mixed"},
    ),
    "cpc": Row(
        {"name": "cpc", "first_step": 3, "steps": 8},
        RESNET | {"kernel_size": 3, "head": "none", "embedding_dim": 192},
        {"synthetic": 540, "ptbxl": 2700},
        {"precision": "bf16-mixed"},
    ),
    "mae": Row(
        {"name": "mae", "mask_ratio": 0.3, "normalize_patches": False}, PATCHES, {"synthetic": 550, "ptbxl": 2900}
    ),
    "jepa": Row({"name": "jepa", "decay": 0.99}, PATCHES, {"synthetic": 410, "ptbxl": 2100}),
    "vicreg-s4d": Row(
        {"name": "vicreg", "augmentations": AUGMENTATIONS},
        {"name": "s4d", "in_channels": 12, "stem_stride": 2},
        {"synthetic": 108, "ptbxl": 540},
        {"frames": SEGMENTS},
    ),
    "cmsc": Row(
        {"name": "cmsc", "augmentations": AUGMENTATIONS},
        RESNET,
        {"synthetic": 720, "ptbxl": 3500},
        {"precision": "bf16-mixed"},
    ),
}


def prepare_store(dataset: str, stores: Path, source: str | None) -> Path:
    """Ingest a dataset at 100 Hz and split it, unless that is done; return the store's folder."""
    folder = stores / f"{dataset}-100hz"
    if dataset == "synthetic":
        options: dict[str, Any] = {"num_records": 2000, "leads": 12, "sampling_rate": 100, "task": "findings"}
        clocs.split(clocs.ingest(dataset, None, folder, options=options))
    elif not (folder / "splits" / "folds.json").exists():
        if source is None:
            raise SystemExit("PTB-XL is not ingested yet: pass --source, its folder as published")
        store = clocs.ingest(dataset, source, folder, options={"sampling_rate": "100"})
        clocs.split_by(store, "strat_fold", train=range(1, 9), validation=9, test=10, name="folds")
    return folder


def config_of(row: Row, dataset: str, store: Path, steps: int) -> dict[str, Any]:
    """Return the config of a run. The whole run is one epoch, so that the saved encoder is that of the last step."""
    config: dict[str, Any] = {
        "method": dict(row.method),
        "encoder": row.encoder,
        "store": store,
        "split": SPLITS[dataset],
        "leads": STANDARD_LEADS,
        "frames": {"num_samples": 500, "sampling_rate": 100},
        "max_epochs": 1,
        "passes_per_epoch": 10_000,
        "max_steps": steps,
        "batch_size": 128,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "weight_decay": 0.01,
        "schedule": "cosine",
        "warmup_steps": steps // 20,
        "onnx": False,
        "num_threads": 1,
    }
    if row.method["name"] == "jepa" and steps:
        config["method"]["decay_steps"] = steps
    untrained = {} if steps else {"max_epochs": 0, "max_steps": None}
    return config | row.config | untrained


def measure(name: str, dataset: str, store: Path, runs: Path, steps: int) -> dict[str, Any]:
    """Train one method, probe its network with and without training, and return the figures as JSON."""
    row, part = ROWS[name], SCORED_ON[dataset]
    probe = clocs.ProbeConfig(split=SPLITS[dataset], part=part, label_fraction=1.0)
    trained, untrained = (
        clocs.pretrain(config_of(row, dataset, store, count) | {"runs": runs}) for count in (steps, 0)
    )
    probed = [clocs.probe(run["run"], store, probe, runs=runs) for run in (trained, untrained)]
    gain = compare(*([Path(found["run"])] for found in probed))["recording"]
    timing = (Path(trained["run"]) / "timing.jsonl").read_text().splitlines()
    encoder, _ = load_encoder_folder(Path(trained["best"]))
    return {
        "method": name,
        "encoder": row.encoder["name"],
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "steps": trained["steps"],
        "minutes": sum(json.loads(line)["processor"] for line in timing) / 60,
        "trained": probed[0][part]["recording"]["auc"],
        "untrained": probed[1][part]["recording"]["auc"],
        "gain": {"value": gain.value, "low": gain.low, "high": gain.high},
    }


def table(runs: Path) -> str:
    """Return the measured figures as a Markdown table."""
    found = {dataset: _rows(runs, dataset) for dataset in SPLITS}
    columns = ("method", "encoder, parameters", "minutes", "synthetic, test part", "PTB-XL, fold 9", "gain on PTB-XL")
    lines = [f"| {' | '.join(columns)} |", "|---|---|---|---|---|---|"]
    for name in ROWS:
        rows = [found[dataset].get(name) for dataset in SPLITS]
        known = next((row for row in rows if row), None)
        if known is None:
            continue
        minutes = ", ".join(f"{row['minutes']:.1f}" if row else "-" for row in rows)
        arrows = [f"{row['untrained']['value']:.3f} → {_interval(row['trained'])}" if row else "-" for row in rows]
        gain = _interval(rows[1]["gain"], "+.3f") if rows[1] else "-"
        encoder = f"`{known['encoder']}`, {known['parameters']:,}"
        lines.append(f"| `{known['method']}` | {encoder} | {minutes} | {arrows[0]} | {arrows[1]} | {gain} |")
    return "\n".join(lines)


def _rows(runs: Path, dataset: str) -> dict[str, Any]:
    path = runs / f"methods-{dataset}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _interval(found: dict[str, float], form: str = ".3f") -> str:
    return f"{found['value']:{form}} ({found['low']:{form}} to {found['high']:{form}})"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*SPLITS, "table"])
    parser.add_argument("--methods", nargs="+", choices=[*ROWS], default=[*ROWS])
    parser.add_argument("--source", help="folder of PTB-XL as published, until its store is made")
    parser.add_argument("--stores", type=Path, default=Path("stores"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--steps", type=int, help="of each method, in place of the steps of the published table")
    given = parser.parse_args()
    if given.command != "table":
        store = prepare_store(given.command, given.stores, given.source)
        for name in given.methods:
            steps = given.steps or ROWS[name].steps[given.command]
            row = measure(name, given.command, store, given.runs, steps)
            rows = _rows(given.runs, given.command) | {name: row}
            write_bytes(given.runs / f"methods-{given.command}.json", json.dumps(rows, indent=1).encode())
            print(json.dumps(row), flush=True)
    print(table(given.runs))


if __name__ == "__main__":
    main()
