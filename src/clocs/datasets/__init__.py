"""Layer 2: one dataset each: where its files lie, labels, patients, licence, the paper's policies."""

from clocs.datasets.dataset import DATASETS, Dataset, Entry, SplitPolicy

__all__ = ["DATASETS", "Dataset", "Entry", "SplitPolicy"]
