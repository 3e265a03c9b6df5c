"""Classify ECGs by a scikit-learn pipeline on embeddings. It needs no torch.

python examples/sklearn_pipeline.py
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clocs


def main() -> None:
    """Embed recordings of training patients, fit a classifier, and test it on other patients."""
    parser = argparse.ArgumentParser(description="A scikit-learn pipeline on embeddings of synthetic ECGs.")
    parser.add_argument("--store", type=Path, default=Path("stores/synthetic-examples"))
    parser.add_argument("--records", type=int, default=400)
    options = parser.parse_args()
    if not options.store.exists():
        clocs.split(clocs.ingest("synthetic", None, options.store, options={"num_records": options.records}))
    store = clocs.open_store(options.store)
    split, recordings = store.split(), list(store)
    rhythm = np.array([recording.labels[0] for recording in recordings])
    train, test = (np.flatnonzero(split.mask(part)) for part in ("train", "test"))

    pipeline = make_pipeline(clocs.EcgEmbedder("clocs-small"), StandardScaler(), LogisticRegression(max_iter=1000))
    pipeline.fit([recordings[number] for number in train], rhythm[train])
    scores = pipeline.predict_proba([recordings[number] for number in test])
    print(f"test patients: macro AUC {roc_auc_score(rhythm[test], scores, multi_class='ovr'):.3f}")


if __name__ == "__main__":
    main()
