"""Committed examples of the file formats, made again by ``python -m tests.make_examples``.

``tests/examples`` has a small folder for each format: a store, an archive of embeddings, an index and an encoder, all
from synthetic recordings. ``expected.json`` has what they must give. From the first release on, a new format gets a new
folder, and the old ones stay.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch

import clocs
from clocs.encoders import ResNet
from clocs.encoders.encoder import describe_encoder
from clocs.inference.pretrained import FORMAT as ENCODER
from clocs.signals.framing import FramePolicy
from clocs.similarity.archive.manifest import FORMAT as ARCHIVE
from clocs.similarity.index.manifest import FORMAT as INDEX
from clocs.store.manifest import FORMAT as STORE
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder

EXAMPLES = Path(__file__).resolve().parent / "examples"
EXPECTED = EXAMPLES / "expected.json"
FORMATS = {"archive": ARCHIVE, "encoder": ENCODER, "index": INDEX, "store": STORE}


def _make_encoder(folder: Path) -> None:
    torch.manual_seed(11)
    module = ResNet(in_channels=2, embedding_dim=8, width=4, depth=1)
    with torch.no_grad():
        for _ in range(5):
            module(torch.rand(16, 2, 200))
    policy = FramePolicy(num_samples=200, sampling_rate=100, leads=("II", "V2"))
    described = {
        "unit": "mV",
        "sampling_rate": policy.sampling_rate,
        "num_samples": policy.num_samples,
        "leads": list(policy.leads),
        "normalization": policy.normalization,
        "policy": policy.model_dump(mode="json"),
    }
    save_encoder(folder, module, {"format": ENCODER, "encoder": describe_encoder(module), "input": described})
    finish_encoder(folder)


def main() -> None:
    """Write the examples of the current formats."""
    for name in FORMATS.values():
        shutil.rmtree(EXAMPLES / name, ignore_errors=True)
    EXAMPLES.mkdir(exist_ok=True)
    os.chdir(EXAMPLES)  # no path of this machine in the files
    options = {"num_records": 16, "recordings_per_patient": 1, "leads": 2, "sampling_rate": 250}
    store = clocs.ingest("synthetic", None, STORE, options=options)
    clocs.split(store)
    _make_encoder(Path(ENCODER))
    archive = clocs.embed_store(ENCODER, STORE, ARCHIVE)
    clocs.build_index(ARCHIVE, INDEX)
    sums = [float(recording.signal.sum()) for recording in store]
    pooled = clocs.load_encoder(ENCODER).embed(store.recording(0)).pooled()
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    expected[STORE] = {"sha256": store.sha256, "split": store.split().sha256, "sums": sums}
    expected[ARCHIVE] = expected[INDEX] = {"vectors": archive.vectors().tolist()}
    expected[ENCODER] = {"pooled": pooled.tolist()}
    for lock in EXAMPLES.rglob(".lock"):
        lock.unlink()
    EXPECTED.write_text(json.dumps(expected, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
