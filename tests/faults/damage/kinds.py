"""Kinds of files, and the uses that read each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.damage import uses
from tests.faults.damage.uses import Use


@dataclass(frozen=True)
class Kind:
    """Files of one kind."""

    name: str
    """Name of the kind: what the files belong to, and what they are."""
    pattern: str
    """Pattern of their paths within the specimens."""
    uses: tuple[Use, ...]
    """Uses of the file. Cases alternate between them."""
    but: str = ""
    """Extension of matching files that belong to another kind."""

    def files(self, folder: Path) -> list[str]:
        """Return the files that are not empty, in a fixed order."""
        found = (path for path in folder.glob(self.pattern) if path.is_file() and path.stat().st_size)
        names = (path.relative_to(folder).as_posix() for path in found)
        return sorted(name for name in names if not (self.but and name.endswith(self.but)))


READ_STORE: Final = (
    uses.read_recordings,
    uses.gather_frames,
    uses.embed_recordings,
    uses.serve,
    uses.train,
)
LOAD: Final = (uses.embed, uses.search, uses.serve, uses.continue_from)
FIND: Final = (uses.search, uses.serve, uses.change_index)

KINDS: Final = (
    Kind("store: shard", "store/shards/*.arrow", READ_STORE),
    Kind("store: checksums", "store/shards/*", READ_STORE, but=".arrow"),
    Kind("store: segment", "store/metadata/*.arrow", READ_STORE),
    Kind("store: segment checksums", "store/metadata/*", READ_STORE, but=".arrow"),
    Kind("store: manifest", "store/manifest-*.json", (uses.read_recordings, uses.serve, uses.train)),
    Kind("store: quarantine", "store/quarantine-*.jsonl", (uses.read_quarantine,)),
    Kind("store: receipt", "store/receipts/*.json", (uses.ingest_again,)),
    Kind("cache: frames", "store/frames/*", (uses.cached_frames,)),
    Kind("split: parts", "store/splits/*.arrow", (uses.read_split, uses.gather_frames, uses.train)),
    Kind("split: description", "store/splits/*.json", (uses.read_split, uses.gather_frames, uses.train)),
    Kind("archive: shard", "archive/shards/*.arrow", (uses.read_archive, uses.index_archive, uses.search, uses.serve)),
    Kind(
        "archive: manifest", "archive/manifest-*.json", (uses.read_archive, uses.embed_again, uses.search, uses.serve)
    ),
    Kind("archive: refusals", "archive/refused-*.jsonl", (uses.embed_again,)),
    Kind("archive: receipt", "archive/receipts/*.json", (uses.embed_again,)),
    Kind("index: manifest", "index/index.json", FIND),
    Kind("index: vectors", "index/volumes/*/vectors.npy", FIND),
    Kind("index: patients", "index/volumes/*/patients.arrow", FIND),
    Kind("index: graph", "index/volumes/*/graph.faiss", FIND),
    Kind("index: lists", "list-index/volumes/*/lists.faiss", (uses.search_lists,)),
    Kind("index: dead rows", "index/tombstones/rows-*.arrow", FIND),
    Kind("index: withdrawn patients", "index/withdrawn.json", (uses.change_index,)),
    Kind("archive: withdrawn patients", "archive/withdrawn.json", (uses.embed_again,)),
    Kind("encoder: weights", "encoder/model.safetensors", LOAD),
    Kind("encoder: network", "encoder/model.onnx", (uses.embed, uses.serve)),
    Kind("encoder: config", "encoder/config.json", LOAD),
    Kind("encoder: head", "encoder/head.safetensors", (uses.load_trained_head,)),
    Kind("encoder: seen", "encoder/seen.npy", (uses.check_leaks, uses.continue_from)),
    Kind("encoder: classifier", "encoder/classifiers/*/classifier.json", (uses.embed, uses.serve)),
    Kind("encoder: classifier weights", "encoder/classifiers/*/classifier.safetensors", (uses.embed, uses.serve)),
    Kind("checkpoint: state", "interrupted/*/checkpoints/step-*.json", (uses.resume,)),
    Kind("checkpoint: tensors", "interrupted/*/checkpoints/step-*.safetensors", (uses.resume,)),
    Kind("run: config, interrupted", "interrupted/*/config.json", (uses.resume,)),
    Kind("run: metrics, interrupted", "interrupted/*/metrics.jsonl", (uses.resume,)),
    Kind("run: config", "finished/*/config.json", (uses.look_up,)),
    Kind("run: metrics", "finished/*/metrics.jsonl", (uses.look_up,)),
    Kind("run: result", "finished/*/result.json", (uses.look_up,)),
    Kind("evaluation: config", "evaluations/*/config.json", (uses.evaluate,)),
    Kind("evaluation: result", "evaluations/*/result.json", (uses.evaluate,)),
    Kind("evaluation: scores", "evaluations/*/scores.npz", (uses.evaluate,)),
)
