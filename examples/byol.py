"""BYOL in plain PyTorch: predict the output of a moving average for another augmented copy (Grill et al., 2020).

A predictor is trained with the encoder and dropped afterwards. There are no negatives.

    python examples/byol.py --epochs 20
"""

import argparse
from pathlib import Path

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

import clocs
from clocs import augmentations, encoders, losses


def open_store(folder: Path, records: int) -> clocs.Store:
    """Open the store; create synthetic recordings on first use. Replace this by your own store."""
    if not folder.exists():
        clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": records}))
    return clocs.open_store(folder)


def frames(store: clocs.Store, part: str, views: int = 1) -> clocs.FrameDataset:
    """Return frames of five seconds at 100 Hz of one part of the split."""
    return clocs.FrameDataset(
        store, split="default", part=part, leads="12", all_leads=True, seconds=5, sampling_rate=100, views=views
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
    target = AveragedModel(encoder, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    predictor = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    augment = augmentations.Compose([augmentations.GaussianNoise(0.02), "scaling", "lead_dropout"])
    criterion = losses.BYOLLoss(normalized=True)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *predictor.parameters()], 1e-3)
    loader = DataLoader(frames(store, "train"), batch_size=64, shuffle=True, drop_last=True)
    print(f"before training: macro AUC {probe(encoder.eval(), store):.3f}")
    for epoch in range(options.epochs):
        encoder.train()
        for batch in loader:
            first, second = (augment(batch["signal"][:, 0]) for _ in range(2))  # (B, 12, S)
            loss = criterion(predictor(encoder(torch.cat([first, second]))), target(torch.cat([second, first])))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target.update_parameters(encoder)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    print(f"after training: macro AUC {probe(encoder.eval(), store):.3f}")


if __name__ == "__main__":
    main()
