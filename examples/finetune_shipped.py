"""Fine-tune a shipped encoder in a loop of your own, in plain PyTorch.

python examples/finetune_shipped.py --epochs 5
"""

import argparse
from pathlib import Path

import torch
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader

import clocs


def open_store(folder: Path, records: int) -> clocs.Store:
    """Open the store; create synthetic recordings on first use. Replace this by your own store."""
    if not folder.exists():
        clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": records}))
    return clocs.open_store(folder)


def main() -> None:
    """Train all weights on labelled frames of lead II and test on other patients."""
    parser = argparse.ArgumentParser(description="Fine-tune a shipped encoder on synthetic ECGs.")
    parser.add_argument("--store", type=Path, default=Path("stores/synthetic-examples"))
    parser.add_argument("--records", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    store = open_store(options.store, options.records)
    train, test = (
        clocs.FrameDataset(store, split="default", part=part, leads=("II",), seconds=5, sampling_rate=500)
        for part in ("train", "test")
    )
    encoder = clocs.load_encoder("clocs-small").module
    head = torch.nn.Linear(encoder.embedding_dim, len(train.classes))
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], 3e-4)
    for epoch in range(options.epochs):
        encoder.train()
        for batch in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            logits = head(encoder(batch["signal"][:, 0]))
            loss = torch.nn.functional.cross_entropy(logits, batch["target"].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    batch = test.batch(range(len(test)))
    with torch.no_grad():
        scores = head(encoder.eval()(batch["signal"][:, 0])).softmax(1)
    truth = batch["target"].int().argmax(1)
    print(f"test patients: macro AUC {roc_auc_score(truth, scores, multi_class='ovr'):.3f}")


if __name__ == "__main__":
    main()
