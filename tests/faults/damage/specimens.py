"""A small specimen of everything that clocs writes, made of real recordings and restored after each case."""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from clocs.datasets import DATASETS, Dataset
from clocs.evaluation.probe import probe
from clocs.inference.classifier import FOLDER, Classifier, ClassifierCard, ClassInfo, LeadSet, LinearWeights
from clocs.inference.feature_space import FeatureSpace
from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.archive.withdraw import withdraw_embeddings
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import build_index
from clocs.similarity.index.withdraw import hide_patients, withdraw_from_index
from clocs.store.frames import Frames
from clocs.store.ingest import ingest
from clocs.store.named_patients import name_patients
from clocs.store.splits import make_split
from clocs.training.encoder_module import load_encoder_folder, save_encoder
from clocs.training.onnx_export import finish_encoder
from clocs.training.pretrain import pretrain
from tests.similarity.archives import clustered, write_archive

RECORDS: Final = 24
RECORDS_PER_SHARD: Final = 12
CUT, SHORT = 2, 5
"""Two recordings: one with a truncated file, which is quarantined, and one too short to embed."""
SHORT_SAMPLES: Final = 300
EMBEDDING: Final = 16
SPLIT_SEED: Final = 5
"""Seed of a split with patients of several classes in each part."""
LIST_ROWS: Final = 10_000
"""Number of patients of the IVF-PQ index. A smaller index is searched exactly."""
RUNS: Final = ("finished", "interrupted", "fresh")
"""Folders of training runs. The last does not exist yet. The index is the seed."""
STOP_AT: Final = 5
"""Step at which a run is interrupted. Checkpoints exist after step 4 and before."""


CACHED: Final[dict[str, Any]] = {"num_samples": 400, "sampling_rate": 125.0, "leads": ("II", "V2")}
"""Changes to the policy ``segments`` for cached frames."""


def dataset() -> Dataset:
    """Return PTB-XL with small shards."""
    return replace(DATASETS.get("ptbxl"), records_per_shard=RECORDS_PER_SHARD)


def training(folder: Path, run: str, **changes: Any) -> list[str]:
    """Return the options of one of ``RUNS``, with six steps."""
    options = {
        "store": folder / "store",
        "runs": folder / run,
        "seed": RUNS.index(run),
        "max_epochs": 2,
        "batch_size": 8,
    }
    options |= {"frames.num_samples": 400, "frames.sampling_rate": 125, "frames.num_segments": 2, "leads": "II,V2"}
    options |= {"encoder.embedding_dim": EMBEDDING, "checkpoint_every": 2, "onnx": "false"}
    return [f"{key}={value}" for key, value in {**options, **changes}.items()]


def make_specimens(originals: Path, folder: Path) -> None:
    """Make a store, splits, caches, runs, an encoder, an evaluation, an archive and two indexes."""
    _unpack(originals, folder / "source")
    store = ingest(dataset(), folder / "source", folder / "store")
    make_split(store, seed=SPLIT_SEED)
    Frames(store, store.frame_policy("segments").model_copy(update=CACHED)).cached()
    best = Path(pretrain({}, training(folder, "finished"))["best"])
    _interrupt(folder)
    _make_encoder(best, folder / "encoder")
    _evaluate(folder)
    embed_store(folder / "encoder", store, folder / "archive")
    withdraw_embeddings(folder / "archive", ["nobody"], allow_unknown=True)
    build_index(folder / "archive", folder / "index", "hnsw")
    withdraw_from_index(folder / "index", [store.recording(0).patient_id])
    hide_patients(Snapshot(folder / "index"), name_patients([store.recording(6).patient_id], None, {None}, "index"))
    _make_lists(folder)


def _unpack(originals: Path, folder: Path) -> None:
    """Unpack every second of the first recordings of PTB-XL at 100 Hz, and their table."""
    with zipfile.ZipFile(originals) as opened:
        names = [name for name in opened.namelist() if name.startswith("ptbxl/")]
        headers = sorted(name for name in names if name.startswith("ptbxl/records100/") and name.endswith(".hea"))
        stems = {name.removesuffix(".hea"): number for number, name in enumerate(headers[::2][:RECORDS])}
        for name in names:
            number = stems.get(name.rpartition(".")[0])
            if number is not None or name == "ptbxl/ptbxl_database.csv":
                path = folder / name.removeprefix("ptbxl/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_shortened(opened.read(name), path.suffix, number))


def _shortened(data: bytes, ending: str, number: int | None) -> bytes:
    if number == CUT and ending == ".dat":
        return data[:-1001]
    if number == SHORT:
        return data[: SHORT_SAMPLES * 12 * 2] if ending == ".dat" else data.replace(b" 1000\n", b" 300\n", 1)
    return data


class _InterruptedError(Exception):
    """Ends a training run between two steps."""


def _interrupt(folder: Path) -> None:
    def stop(known: dict[str, Any]) -> None:
        if "loss" in known and known["step"] == STOP_AT:
            raise _InterruptedError

    try:
        pretrain({}, training(folder, "interrupted"), progress=stop)
    except _InterruptedError:
        return
    raise AssertionError("the run was not interrupted")


def _make_encoder(best: Path, folder: Path) -> None:
    """Make an encoder with every optional file."""
    module, about = load_encoder_folder(best)
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    shutil.copytree(best, folder)
    save_encoder(folder, module, about, torch.nn.Linear(EMBEDDING, 2))
    card = ClassifierCard(
        classes=tuple(ClassInfo(name, f"meaning of {name}", 0.5) for name in ("one", "other")),
        multi_label=True,
        lead_sets=(LeadSet(("II", "V2"), ((1.0, 0.0),) * 2, ((),) * 2, None, None, 9.0),),
        heart_rates=(30.0, 200.0),
        max_frames=3,
        limitations=(),
        trained_on={},
        encoder_sha256=about["weights_sha256"],
    )
    weights = LinearWeights.rounded(random.normal(size=(2, 2 * 3 * EMBEDDING)), np.zeros(2))
    space = FeatureSpace(np.zeros((2, EMBEDDING), np.float32), np.eye(EMBEDDING, dtype=np.float32))
    Classifier(card, (weights,), (space,)).save(folder / FOLDER / "made")
    assert finish_encoder(folder) == ""


def _evaluate(folder: Path) -> None:
    """Make a finished evaluation, and delete its frames."""
    needed = set(_files(folder / "store" / "frames"))
    probe(folder / "encoder", folder / "store", runs=folder / "evaluations")
    for path in set(_files(folder / "store" / "frames")) - needed:
        path.unlink()


def _make_lists(folder: Path) -> None:
    """Make an IVF-PQ index of random vectors, and an archive of few shards."""
    rows = [{"record_id": f"r{number}", "patient_id": f"p{number}"} for number in range(LIST_ROWS)]
    archive = folder / "list-archive"
    write_archive(archive, rows, clustered(LIST_ROWS, EMBEDDING // 2), per_shard=LIST_ROWS)
    build_index(archive, folder / "list-index", "ivfpq")
    shutil.rmtree(archive)


class Specimens:
    """Bytes and times of all files of a folder that cases may change. The source never changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bytes = {path: path.read_bytes() for path in self._files()}
        self._times = {path: path.stat() for path in self._bytes}
        self._changed = {path: about.st_ctime_ns for path, about in self._times.items()}
        self._places = {path for path in folder.rglob("*") if path.is_dir()}

    def restore(self) -> None:
        """Restore every file that was changed, added or removed."""
        found = self._files()
        for path in found - self._bytes.keys():
            path.unlink()
        for path, before in self._changed.items():
            if path not in found or path.stat().st_ctime_ns != before:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._bytes[path])
                os.utime(path, ns=(self._times[path].st_atime_ns, self._times[path].st_mtime_ns))
                self._changed[path] = path.stat().st_ctime_ns
        for place in sorted({path for path in self.folder.rglob("*") if path.is_dir()} - self._places, reverse=True):
            place.rmdir()

    def _files(self) -> set[Path]:
        return {path for path in _files(self.folder) if not path.is_relative_to(self.folder / "source")}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
