"""Uses of the files of clocs. Each use yields all of its output exactly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.probe import probe
from clocs.evaluation.results import compare, load_scores
from clocs.inference.pretrained import load_encoder
from clocs.signals.framing import FramePolicy
from clocs.similarity.archive.archive import STORE_COLUMNS, open_archive
from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.updates import add_archive, build_index
from clocs.similarity.index.withdraw import withdraw_from_index
from clocs.store.frames import Frames
from clocs.store.ingest import ingest
from clocs.store.store import open_store
from clocs.store.summary import quarantined_rows
from clocs.training.curves import learning_curve
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.pretrain import pretrain
from clocs.training.runs import finished_epochs, read_config
from tests.faults.damage.serving import REFUSED, answers
from tests.faults.damage.specimens import CACHED, EMBEDDING, dataset, training
from tests.faults.stores import fingerprint

Found = Iterator[Any]
SAMPLE: Final = "source/records100/00000/00001_lr.hea"
"""Recording that is used as a query."""


def read_recordings(folder: Path) -> Found:
    """Yield every recording of the store with its metadata."""
    store = open_store(folder / "store")
    for recording in store:
        yield recording.digital, recording.gain, recording.baseline
        yield {name: value for name, value in vars(recording).items() if not isinstance(value, np.ndarray)}
    yield store.table(["record_id", "patient_id", "labels", "signal_hash"]).to_pydict()


def gather_frames(folder: Path) -> Found:
    """Yield all frames of the training part in one call, without resampling."""
    store = open_store(folder / "store")
    frames = Frames(store, FramePolicy(num_samples=400, sampling_rate=100), records=store.split().mask("train"))
    items = np.arange(len(frames))
    yield frames.gather(items), frames.targets(items)


def cached_frames(folder: Path) -> Found:
    """Yield the frames of two parts from their shared cache."""
    store = open_store(folder / "store")
    policy = store.frame_policy("segments").model_copy(update=CACHED)
    for part in ("train", "validation"):
        frames = Frames(store, policy, records=store.split().mask(part)).cached()
        yield frames.gather(np.arange(len(frames)))


def read_split(folder: Path) -> Found:
    """Yield the parts of the split."""
    split = open_store(folder / "store").split()
    yield split.parts, split.metadata, split.sha256


def read_quarantine(folder: Path) -> Found:
    """Yield the quarantined recordings with their reasons."""
    yield quarantined_rows(open_store(folder / "store"))


def ingest_again(folder: Path) -> Found:
    """Yield the store after the same ingest, which restores missing files."""
    ingest(dataset(), folder / "source", folder / "store")
    yield {name: sha256 for name, sha256 in fingerprint(folder / "store").items() if not name.startswith("frames/")}


def train(folder: Path) -> Found:
    """Train two steps of a new run."""
    yield from _trained(folder, "fresh", max_steps=2)


def resume(folder: Path) -> Found:
    """Resume an interrupted run to its end."""
    yield from _trained(folder, "interrupted")


def _trained(folder: Path, run: str, **changes: Any) -> Found:
    done = pretrain({}, training(folder, run, **changes))
    place = Path(done["run"])
    yield {key: done[key] for key in ("epochs", "steps", "best_epoch", "validation_loss")}
    yield (place / "best" / "model.safetensors").read_bytes()
    yield finished_epochs(place)


def look_up(folder: Path) -> Found:
    """Yield the result, the config and the learning curve of a finished run."""
    done = pretrain({}, training(folder, "finished"))
    yield {key: done[key] for key in ("epochs", "steps", "best_epoch", "validation_loss", "already_finished")}
    yield read_config(Path(done["run"]))
    curve = learning_curve(done["run"])
    yield {name: np.asarray(value).tolist() for name, value in vars(curve).items()}


def continue_from(folder: Path) -> Found:
    """Train two steps of a run that starts from the encoder."""
    yield from _trained(folder, "fresh", max_steps=2, init_from=folder / "encoder")


def evaluate(folder: Path) -> Found:
    """Yield the result and the scores of a finished evaluation, and its comparison with itself."""
    done = probe(folder / "encoder", folder / "store", runs=folder / "evaluations")
    run = Path(done.pop("run"))
    yield done
    scores = load_scores(run)
    yield scores.values, scores.truth, scores.record, scores.patient, scores.classes
    yield {level: vars(found) for level, found in compare([run], [run], replicates=2).items()}


def embed(folder: Path) -> Found:
    """Yield embeddings and classes of a recording, and the head that was trained with the encoder."""
    encoder = load_encoder(folder / "encoder")
    made = encoder.embed(folder / SAMPLE)
    yield made.values, made.lead, made.start, made.notes
    found = encoder.classify(folder / SAMPLE)
    yield [(item.name, item.meaning, item.probability, item.prevalence) for item in found.classes]


def load_trained_head(folder: Path) -> Found:
    """Yield the classifier that was trained with an encoder."""
    place = folder / "encoder"
    yield {name: value.numpy() for name, value in load_head(place, load_encoder_folder(place)[1]).state_dict().items()}


def check_leaks(folder: Path) -> Found:
    """Yield the recordings that the encoder was trained on."""
    store = open_store(folder / "store")
    yield check_leakage(folder / "encoder", load_encoder_folder(folder / "encoder")[1], store, store.split())


def embed_recordings(folder: Path) -> Found:
    """Yield a new archive of the whole store."""
    embed_store(folder / "encoder", folder / "store", folder / "new-archive")
    yield fingerprint(folder / "new-archive")


def embed_again(folder: Path) -> Found:
    """Yield the archive after the same embedding, which restores missing files."""
    embed_store(folder / "encoder", folder / "store", folder / "archive")
    yield fingerprint(folder / "archive")


def read_archive(folder: Path) -> Found:
    """Yield all vectors of the archive, and the metadata of its recordings."""
    archive = open_archive(folder / "archive")
    yield archive.vectors(), archive.lead_vectors(np.arange(len(archive))), archive.table(STORE_COLUMNS).to_pydict()


def index_archive(folder: Path) -> Found:
    """Yield a new index of the archive."""
    build_index(folder / "archive", folder / "new-index", "hnsw")
    yield fingerprint(folder / "new-index")


def search(folder: Path) -> Found:
    """Yield the nearest patients of vectors, of a record in the index, and of a file."""
    index = open_index(folder / "index")
    hits = index.search(np.eye(4, EMBEDDING), 5)
    yield hits.rows, hits.cosines, hits.patient_ids
    yield index.similar("00003_lr", 4).as_dict()
    yield index.similar(folder / SAMPLE, 4).as_dict()


def search_lists(folder: Path) -> Found:
    """Yield the nearest patients of vectors by inverted lists."""
    hits = open_index(folder / "list-index").search(np.eye(4, EMBEDDING // 2), 5)
    yield hits.rows, hits.cosines, hits.patient_ids


def change_index(folder: Path) -> Found:
    """Yield an index after an addition and a withdrawal. Withdrawn patients stay withdrawn."""
    place = folder / "index"
    yield vars(add_archive(place, folder / "archive"))
    yield vars(withdraw_from_index(place, [open_archive(folder / "archive").table().column("patient_id")[8].as_py()]))
    yield open_index(place).search(np.eye(4, EMBEDDING), 5).patient_ids


def serve(folder: Path) -> Found:
    """Yield the answers of the service, see ``answers``."""
    yield from answers(folder, folder / SAMPLE)


Use = Callable[[Path], Found]


def digests(found: Found) -> Iterator[str]:
    """Yield a hash of each output of a use."""
    for item in found:
        whole = hashlib.sha256()
        _add(whole, item)
        yield REFUSED if item is REFUSED else whole.hexdigest()


def _add(whole: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        whole.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, bytes):
        whole.update(value)
    elif isinstance(value, dict):
        whole.update(json.dumps([str(key) for key in value]).encode())
        _add(whole, tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            _add(whole, item)
    else:
        whole.update(f"{value!r};".encode())
