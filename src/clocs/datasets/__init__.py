"""Layer 2: one module per dataset, with its files, labels, patients, licence and the paper's policies."""

from clocs.datasets.dataset import DATASETS, Dataset, Entry, SplitPolicy

__all__ = ["DATASETS", "Dataset", "Entry", "SplitPolicy"]
