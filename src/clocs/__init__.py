"""clocs: contrastive learning of cardiac signals across space, time and patients."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from clocs.core.recording import Episode as Episode
    from clocs.core.recording import Recording as Recording
    from clocs.datasets import DATASETS as DATASETS
    from clocs.datasets.download import download as download
    from clocs.drawing.ecg_paper import draw_recording
    from clocs.evaluation.finetune import FinetuneConfig as FinetuneConfig
    from clocs.evaluation.finetune import finetune as finetune
    from clocs.evaluation.pretrained import load_encoder as load_encoder
    from clocs.evaluation.probe import ProbeConfig as ProbeConfig
    from clocs.evaluation.probe import probe as probe
    from clocs.evaluation.publishing import publish as publish
    from clocs.evaluation.transformer import EcgEmbedder as EcgEmbedder
    from clocs.formats import read as read
    from clocs.signals.framing import FramePolicy as FramePolicy
    from clocs.signals.quality import GatePolicy as GatePolicy
    from clocs.signals.quality import assess as assess
    from clocs.store.ingest import ingest as ingest
    from clocs.store.splits import check_leaks as check_leaks
    from clocs.store.splits import make_split
    from clocs.store.store import Store as Store
    from clocs.store.store import open_store as open_store
    from clocs.store.summary import info as info
    from clocs.store.verify import verify as verify
    from clocs.training.pretrain import pretrain as pretrain

    plot, split = draw_recording, make_split

_PLACES = {
    "Episode": "clocs.core.recording:Episode",
    "Recording": "clocs.core.recording:Recording",
    "DATASETS": "clocs.datasets:DATASETS",
    "download": "clocs.datasets.download:download",
    "plot": "clocs.drawing.ecg_paper:draw_recording",
    "load_encoder": "clocs.evaluation.pretrained:load_encoder",
    "EcgEmbedder": "clocs.evaluation.transformer:EcgEmbedder",
    "read": "clocs.formats:read",
    "FramePolicy": "clocs.signals.framing:FramePolicy",
    "GatePolicy": "clocs.signals.quality:GatePolicy",
    "assess": "clocs.signals.quality:assess",
    "ingest": "clocs.store.ingest:ingest",
    "check_leaks": "clocs.store.splits:check_leaks",
    "split": "clocs.store.splits:make_split",
    "Store": "clocs.store.store:Store",
    "open_store": "clocs.store.store:open_store",
    "info": "clocs.store.summary:info",
    "verify": "clocs.store.verify:verify",
    "pretrain": "clocs.training.pretrain:pretrain",
    "probe": "clocs.evaluation.probe:probe",
    "finetune": "clocs.evaluation.finetune:finetune",
    "ProbeConfig": "clocs.evaluation.probe:ProbeConfig",
    "FinetuneConfig": "clocs.evaluation.finetune:FinetuneConfig",
    "publish": "clocs.evaluation.publishing:publish",
}
"""Public names and where they live; a command has its function under the same name."""

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``import clocs`` stays quick."""
    if name not in _PLACES:
        raise AttributeError(f"module 'clocs' has no attribute '{name}'")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
