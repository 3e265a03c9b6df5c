"""CMSC in plain PyTorch: adjacent segments of a recording are views of one patient (CLOCS, 2021).

Views of the same patient attract each other, all others repel.

    python examples/cmsc.py --epochs 20
"""

import argparse
from pathlib import Path

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader

import clocs
from clocs import encoders, losses

LEADS = "12"


def open_store(folder: Path, records: int) -> clocs.Store:
    """Open the store; create synthetic recordings on first use. Replace this by your own store."""
    if not folder.exists():
        clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": records}))
    return clocs.open_store(folder)


def frames(store: clocs.Store, part: str, views: int = 1) -> clocs.FrameDataset:
    """Return frames of five seconds at 100 Hz of one part of the split."""
    return clocs.FrameDataset(
        store, split="default", part=part, leads=LEADS, all_leads=True, seconds=5, sampling_rate=100, views=views
    )


@torch.no_grad()
def probe(encoder: encoders.Encoder, store: clocs.Store) -> float:
    """Return the macro AUC of a linear classifier of the rhythm on frozen embeddings of test patients."""
    rows = []
    for part in ("train", "test"):
        dataset = frames(store, part)
        batch = dataset.batch(range(len(dataset)))
        rows.append((encoder(batch["signal"][:, 0]), batch["target"].int().argmax(1)))
    (train_embeddings, train_labels), (test_embeddings, test_labels) = rows
    scores = LogisticRegression(max_iter=1000).fit(train_embeddings, train_labels).predict_proba(test_embeddings)
    return float(roc_auc_score(test_labels, scores, multi_class="ovr"))


def main() -> None:
    """Train, and probe before and after."""
    parser = argparse.ArgumentParser(description="Pre-train an encoder on synthetic ECGs.")
    parser.add_argument("--store", type=Path, default=Path("stores/synthetic-examples"))
    parser.add_argument("--records", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    store = open_store(options.store, options.records)
    encoder = encoders.ResNet(in_channels=12, embedding_dim=64, stem_stride=1)
    criterion = losses.PatientNCELoss(temperature=0.1)
    optimizer = torch.optim.AdamW(encoder.parameters(), 1e-3)
    loader = DataLoader(frames(store, "train", views=2), batch_size=64, shuffle=True, drop_last=True)
    print(f"before training: macro AUC {probe(encoder.eval(), store):.3f}")
    for epoch in range(options.epochs):
        encoder.train()
        for batch in loader:
            segments = batch["signal"].flatten(0, 1)  # (B * 2, 12, S)
            embeddings = encoder(segments).unflatten(0, (-1, 2))
            loss = criterion(embeddings, patients=batch["patient"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    print(f"after training: macro AUC {probe(encoder.eval(), store):.3f}")


if __name__ == "__main__":
    main()
