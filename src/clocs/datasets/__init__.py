"""Layer 2: one module per dataset, with its files, labels, tasks, patients, licence and the paper's policies."""

from clocs.datasets.dataset import DATASETS, Dataset, Entry, SplitPolicy
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import Task

__all__ = ["DATASETS", "Dataset", "Entry", "PublishedSplit", "SplitPolicy", "Task"]
