"""Self-supervised learning on ECGs: contrastive learning of cardiac signals across space, time and patients (CLOCS).

The names exported here are imported on first access, so ``import clocs`` is quick and does not need PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from clocs.core.privacy.pseudonyms import make_key as make_key
    from clocs.core.recording import Episode as Episode
    from clocs.core.recording import Recording as Recording
    from clocs.core.stated_measurements import StatedMeasurements as StatedMeasurements
    from clocs.datasets import DATASETS as DATASETS
    from clocs.datasets.download import download as download
    from clocs.drawing.ecg_paper import draw_recording
    from clocs.evaluation.benchmark.benchmark import benchmark as benchmark
    from clocs.evaluation.finetune import FinetuneConfig as FinetuneConfig
    from clocs.evaluation.finetune import finetune as finetune
    from clocs.evaluation.probe import ProbeConfig as ProbeConfig
    from clocs.evaluation.probe import probe as probe
    from clocs.formats import read as read
    from clocs.formats.writing import write as write
    from clocs.inference.batch import classify_all as classify_all
    from clocs.inference.pretrained import load_encoder as load_encoder
    from clocs.inference.transformer import EcgEmbedder as EcgEmbedder
    from clocs.measurements.measurements import measure as measure
    from clocs.publishing.hub import from_pretrained as from_pretrained
    from clocs.publishing.hub import push_to_hub as push_to_hub
    from clocs.publishing.publish import publish as publish
    from clocs.signals.framing import FramePolicy as FramePolicy
    from clocs.signals.quality import GatePolicy as GatePolicy
    from clocs.signals.quality import assess as assess
    from clocs.similarity.archive.archive import open_archive as open_archive
    from clocs.similarity.archive.embedding import embed_store as embed_store
    from clocs.similarity.archive.prune import prune_embeddings as prune_embeddings
    from clocs.similarity.archive.withdraw import withdraw_embeddings as withdraw_embeddings
    from clocs.similarity.index.patient_index import PatientIndex as PatientIndex
    from clocs.similarity.index.patient_index import open_index as open_index
    from clocs.similarity.index.updates import build_index as build_index
    from clocs.similarity.scoring.audit import audit as audit
    from clocs.store.column_splits import split_by as split_by
    from clocs.store.column_splits import split_from_table as split_from_table
    from clocs.store.column_splits import split_published as split_published
    from clocs.store.compact import compact as compact
    from clocs.store.convert import convert as convert
    from clocs.store.deidentify import deidentify as deidentify
    from clocs.store.identity_scan import scan_identities as scan_identities
    from clocs.store.ingest import ingest as ingest
    from clocs.store.prune import prune as prune
    from clocs.store.splits import check_leaks as check_leaks
    from clocs.store.splits import make_split
    from clocs.store.store import Store as Store
    from clocs.store.store import open_store as open_store
    from clocs.store.summary import archive_report as archive_report
    from clocs.store.summary import info as info
    from clocs.store.task_targets import task_targets as task_targets
    from clocs.store.verify import verify as verify
    from clocs.store.withdraw import withdraw as withdraw
    from clocs.training.frame_dataset import FrameDataset as FrameDataset
    from clocs.training.pretrain import pretrain as pretrain

    plot, split = draw_recording, make_split

_EXPORTS = {
    "Episode": "clocs.core.recording:Episode",
    "Recording": "clocs.core.recording:Recording",
    "StatedMeasurements": "clocs.core.stated_measurements:StatedMeasurements",
    "DATASETS": "clocs.datasets:DATASETS",
    "download": "clocs.datasets.download:download",
    "plot": "clocs.drawing.ecg_paper:draw_recording",
    "classify_all": "clocs.inference.batch:classify_all",
    "load_encoder": "clocs.inference.pretrained:load_encoder",
    "from_pretrained": "clocs.publishing.hub:from_pretrained",
    "push_to_hub": "clocs.publishing.hub:push_to_hub",
    "EcgEmbedder": "clocs.inference.transformer:EcgEmbedder",
    "read": "clocs.formats:read",
    "write": "clocs.formats.writing:write",
    "FramePolicy": "clocs.signals.framing:FramePolicy",
    "GatePolicy": "clocs.signals.quality:GatePolicy",
    "assess": "clocs.signals.quality:assess",
    "measure": "clocs.measurements.measurements:measure",
    "archive_report": "clocs.store.summary:archive_report",
    "convert": "clocs.store.convert:convert",
    "deidentify": "clocs.store.deidentify:deidentify",
    "make_key": "clocs.core.privacy.pseudonyms:make_key",
    "scan_identities": "clocs.store.identity_scan:scan_identities",
    "ingest": "clocs.store.ingest:ingest",
    "check_leaks": "clocs.store.splits:check_leaks",
    "split": "clocs.store.splits:make_split",
    "split_by": "clocs.store.column_splits:split_by",
    "split_from_table": "clocs.store.column_splits:split_from_table",
    "split_published": "clocs.store.column_splits:split_published",
    "Store": "clocs.store.store:Store",
    "open_store": "clocs.store.store:open_store",
    "info": "clocs.store.summary:info",
    "task_targets": "clocs.store.task_targets:task_targets",
    "verify": "clocs.store.verify:verify",
    "withdraw": "clocs.store.withdraw:withdraw",
    "compact": "clocs.store.compact:compact",
    "prune": "clocs.store.prune:prune",
    "FrameDataset": "clocs.training.frame_dataset:FrameDataset",
    "pretrain": "clocs.training.pretrain:pretrain",
    "benchmark": "clocs.evaluation.benchmark.benchmark:benchmark",
    "probe": "clocs.evaluation.probe:probe",
    "finetune": "clocs.evaluation.finetune:finetune",
    "ProbeConfig": "clocs.evaluation.probe:ProbeConfig",
    "FinetuneConfig": "clocs.evaluation.finetune:FinetuneConfig",
    "publish": "clocs.publishing.publish:publish",
    "audit": "clocs.similarity.scoring.audit:audit",
    "embed_store": "clocs.similarity.archive.embedding:embed_store",
    "open_archive": "clocs.similarity.archive.archive:open_archive",
    "withdraw_embeddings": "clocs.similarity.archive.withdraw:withdraw_embeddings",
    "prune_embeddings": "clocs.similarity.archive.prune:prune_embeddings",
    "build_index": "clocs.similarity.index.updates:build_index",
    "open_index": "clocs.similarity.index.patient_index:open_index",
    "PatientIndex": "clocs.similarity.index.patient_index:PatientIndex",
}
"""Public name -> ``"module:attribute"``. Command-line commands have the same names as their functions here."""

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Import a public name on first access."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'clocs' has no attribute '{name}'")
    module, _, attribute = _EXPORTS[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        from clocs.core.errors import missing_train_extra

        if (missing_extra := missing_train_extra(error, f"clocs.{name}")) is None:
            raise
        raise missing_extra from error


def __dir__() -> list[str]:
    return sorted(__all__)
