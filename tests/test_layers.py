"""The layers: a file imports its own layer or lower ones; parts of a folder do not import each other; no cycles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "clocs"

LAYERS = {
    "core": 0,
    "signals": 1,
    "measurements": 1,
    "formats": 1,
    "metrics": 1,
    "drawing": 1,
    "datasets": 2,
    "store": 2,
    "augmentations": 3,
    "encoders": 3,
    "losses": 3,
    "methods": 3,
    "training": 4,
    "inference": 5,
    "evaluation": 5,
    "similarity": 5,
    "experiments": 5,
    "publishing": 6,
    "service": 7,
    "cli": 7,
}
ROOT_FILES = {"__init__", "__main__"}
"""Files beside the folders; they stand above all layers."""

NEIGHBOURS: dict[str, set[str]] = {
    "signals": set(),
    "measurements": {"signals"},
    "formats": {"signals"},
    "metrics": set(),
    "drawing": {"signals"},
    "datasets": set(),
    "store": {"datasets"},
}
"""Up to layer 2, the folders of the same layer that a folder may import; above, all of them."""

PARTS: dict[str, set[str]] = {
    "formats": {
        "arrow_columns",
        "byte_fields",
        "channels",
        "demographics",
        "lead_codes",
        "reading",
        "writing",
        "xml_tree",
    },
    "formats/writers": {"edf_layout", "digital_values"},
    "datasets": {
        *("array_rows", "csv_tables", "dataset", "folder_tables", "overlaps"),
        *("published_split", "redaction", "task", "transfer"),
    },
    "encoders": {"convolution", "encoder", "fused_block", "pooling"},
    "losses": {"cosine", "full_precision", "loss"},
    "methods": {"contrast", "gather", "masked", "method"},
    "augmentations": {"augmentation", "compose"},
}
"""Folders of parts, with the modules that are the folder's framework and that its parts may import."""

LAST_WITHOUT_TORCH = 2
TORCH = {"torch", "lightning", "lightning_fabric"}
DRAWERS = {"util", "utils", "helper", "helpers", "common", "misc"}
HEAVY = ("torch", "pandas", "matplotlib", "scipy", "ray", "faiss")


def imported(path: PurePosixPath, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Every module or name that nodes of a file import, as its dotted parts from the root."""
    here = ("clocs", *path.parent.parts)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield (*base, *module, alias.name)


def violations(name: str, source: str) -> list[str]:
    """What a file, named by its path below ``clocs``, does against the rules."""
    path = PurePosixPath(name)
    drawers = [part for part in (*path.parent.parts, path.stem) if part.strip("_") in DRAWERS]
    if drawers:
        return [f"{name}: '{drawers[0]}' says nothing about what it holds"]
    if len(path.parts) == 1:
        return [] if path.stem in ROOT_FILES else [f"{name}: stands beside the folders; give it a folder"]
    folder = path.parts[0]
    if folder not in LAYERS:
        return [f"{name}: folder '{folder}' has no layer; place it in LAYERS"]
    found = (_fault(folder, path, target) for target in imported(path, ast.walk(ast.parse(source))))
    return [f"{name}: {fault}" for fault in found if fault]


def _fault(folder: str, path: PurePosixPath, target: tuple[str, ...]) -> str:
    dotted = ".".join(target)
    layer = LAYERS[folder]
    if target[0] in TORCH and layer <= LAST_WITHOUT_TORCH:
        return f"imports {dotted} in layer {layer}"
    if target[0] in ("reproduction", "protocols"):
        return f"imports {dotted}, which is beside the package"
    if target[0] != "clocs" or target == ("clocs", "__version__"):
        return ""
    other = target[1] if len(target) > 1 else ""
    if other not in LAYERS:
        return f"imports {dotted}, which is in no layer; import from the folder that holds it"
    if LAYERS[other] > layer:
        return f"imports {dotted} of layer {LAYERS[other]} from layer {layer}"
    if other == folder:
        return _sibling_fault(path, target)
    if LAYERS[other] == layer and folder in NEIGHBOURS and other not in NEIGHBOURS[folder]:
        return f"imports {dotted}; {folder} may import of its layer only: {sorted(NEIGHBOURS[folder])}"
    return ""


def _sibling_fault(path: PurePosixPath, target: tuple[str, ...]) -> str:
    """In a folder of parts, a file may import the framework and, where it is a folder itself, its own files.

    The folder's own ``__init__`` exports the parts.
    """
    folder = next((above for above in path.parents if above.as_posix() in PARTS), None)
    if folder is None or target[1 : 1 + len(folder.parts)] != folder.parts or path == folder / "__init__.py":
        return ""
    depth = len(folder.parts)
    module = target[1 + depth] if len(target) > 1 + depth else "__init__"
    own = len(path.parts) > 1 + depth and path.parts[depth] == module
    return "" if own or module in PARTS[folder.as_posix()] else f"imports its sibling {'.'.join(target)}"


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, without those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from run_time_nodes(other)
        else:
            yield from run_time_nodes(child)


def import_cycle(sources: Mapping[str, str]) -> list[str]:
    """Find modules that import each other at run time, in a function or not.

    Args:
        sources: Source of each file, by its path below ``clocs``.

    Returns:
        The modules of one cycle, the first again at the end; empty where there is none.
    """
    modules = {_module(name): name for name in sources}
    graph: dict[str, set[str]] = {}
    for module, name in modules.items():
        targets = imported(PurePosixPath(name), run_time_nodes(ast.parse(sources[name])))
        graph[module] = {found for target in targets if (found := _holder(target, modules))} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _module(name: str) -> str:
    parts = PurePosixPath(name).with_suffix("").parts
    return ".".join(("clocs", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _holder(target: tuple[str, ...], modules: Mapping[str, str]) -> str:
    """The module that an imported name is, or is defined in; empty for other packages."""
    prefixes = (".".join(target[:length]) for length in range(len(target), 0, -1))
    return next((prefix for prefix in prefixes if prefix in modules), "")


def _files() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_there_are_files_to_check() -> None:
    assert {"core/recording.py", "formats/edf.py", "datasets/chapman.py"} <= set(_files())


def reproduction_violations(name: str, source: str) -> list[str]:
    """What a file of ``reproduction/`` or ``protocols/``, which stand above all layers, does against the rules."""
    path = PurePosixPath(name)
    drawers = [part for part in (*path.parent.parts, path.stem) if part.strip("_") in DRAWERS]
    unknown = [
        ".".join(target)
        for target in imported(path, ast.walk(ast.parse(source)))
        if target[0] == "clocs" and target != ("clocs", "__version__") and (len(target) < 2 or target[1] not in LAYERS)
    ]
    return [*(f"{name}: '{part}' says nothing about what it holds" for part in drawers), *unknown]


@pytest.mark.parametrize(
    "path",
    sorted(path for folder in ("reproduction", "protocols") for path in (ROOT / folder).rglob("*.py")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_the_reproduction_imports_from_folders_of_the_package(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert reproduction_violations(name, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [("cells.py", "from clocs import read"), ("cells.py", "import clocs"), ("report/utils.py", "")],
)
def test_a_planted_violation_of_the_reproduction_is_caught(name: str, source: str) -> None:
    assert len(reproduction_violations(name, source)) == 1


@pytest.mark.parametrize("name", _files())
def test_a_file_keeps_to_its_layer(name: str) -> None:
    assert violations(name, (PACKAGE / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("core/hashes.py", "from clocs.signals.leads import add_derived_leads", id="upwards"),
        pytest.param("core/hashes.py", "def late():\n    import clocs.store.manifest", id="upwards, in a function"),
        pytest.param("core/hashes.py", "from ..store import manifest", id="upwards, relative"),
        pytest.param("core/hashes.py", "from clocs import store", id="upwards, from the root"),
        pytest.param(
            "core/hashes.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from clocs.store import Store",
            id="upwards, for types only",
        ),
        pytest.param("training/loop.py", "from clocs.evaluation.probe import probe", id="upwards, above layer 2"),
        pytest.param("experiments/grid.py", "from clocs.cli.main import app", id="upwards, to the last layer"),
        pytest.param("cli/data.py", "from reproduction.cells import Evaluation", id="beside the package"),
        pytest.param("store/ingest.py", "from clocs import read", id="the root's lazy names"),
        pytest.param("cli/data.py", "import clocs", id="the root itself"),
        pytest.param("signals/leads.py", "from clocs.formats.reading import read", id="signals to formats"),
        pytest.param("signals/leads.py", "from clocs.metrics import auc", id="signals to metrics"),
        pytest.param("signals/leads.py", "from clocs import drawing", id="signals to drawing"),
        pytest.param("drawing/paper.py", "from clocs.formats import read", id="drawing to formats"),
        pytest.param("drawing/paper.py", "from clocs.metrics.auc import auc", id="drawing to metrics"),
        pytest.param("formats/edf.py", "from clocs.drawing.paper import draw", id="formats to drawing"),
        pytest.param("datasets/chapman.py", "from clocs.store.manifest import Manifest", id="datasets to store"),
        pytest.param("formats/edf.py", "from clocs.formats.irhythm import IRHYTHM", id="sibling"),
        pytest.param("formats/edf.py", "from clocs.formats import irhythm", id="sibling, from its folder"),
        pytest.param("formats/edf.py", "from .irhythm import IRHYTHM", id="sibling, relative"),
        pytest.param("formats/edf.py", "from . import irhythm", id="sibling, relative from its folder"),
        pytest.param("formats/edf.py", "import clocs.formats", id="sibling, through the folder"),
        pytest.param("formats/reading.py", "from clocs.formats.edf import EDF", id="framework to a part"),
        pytest.param("datasets/ludb.py", "from clocs.datasets.ptbxl import PTBXL", id="sibling dataset"),
        pytest.param("encoders/cnn.py", "from clocs.encoders.resnet import ResNet", id="sibling encoder"),
        pytest.param("losses/clocs.py", "from clocs.losses.nce import nce", id="sibling loss"),
        pytest.param("methods/cmsc.py", "from clocs.methods.cmlc import CMLC", id="sibling method"),
        pytest.param("augmentations/noise.py", "from clocs.augmentations.masks import Mask", id="sibling augmentation"),
        pytest.param("formats/writers/edf.py", "from . import dicom", id="sibling, deeper and relative"),
        pytest.param("core/seeds.py", "import torch", id="torch in layer 0"),
        pytest.param("signals/quality.py", "import torch.nn.functional as F", id="torch in layer 1"),
        pytest.param("store/frames.py", "def late():\n    from torch import tensor", id="torch in layer 2"),
        pytest.param("warehouse/shelf.py", "", id="unknown folder"),
        pytest.param("shelf.py", "", id="unknown file beside the folders"),
        pytest.param("core/utils.py", "", id="drawer"),
        pytest.param("store/_helpers.py", "", id="private drawer"),
        pytest.param("store/common/rows.py", "", id="drawer that is a folder"),
        pytest.param("utils.py", "", id="drawer beside the folders"),
    ],
)
def test_a_planted_violation_is_caught(name: str, source: str) -> None:
    assert len(violations(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("__init__.py", "from clocs.cli.main import app"),
        ("core/hashes.py", "import os\nfrom pathlib import Path\nfrom clocs.core.errors import StoreError"),
        ("core/hashes.py", "from .errors import StoreError"),
        ("store/ingest.py", "from clocs import __version__\nfrom clocs.datasets.dataset import Dataset"),
        ("store/ingest.py", "from clocs.store.manifest import Manifest"),
        ("formats/edf.py", "from clocs.formats.reading import Format\nfrom clocs.signals import leads"),
        ("formats/__init__.py", "from clocs.formats.reading import read"),
        ("formats/scp/huffman.py", "from clocs.formats.scp.sections import Section\nfrom . import tables"),
        (
            "drawing/paper.py",
            "from clocs.core.recording import Recording\nfrom clocs.signals.leads import STANDARD_LEADS",
        ),
        ("datasets/ludb.py", "from clocs.formats import read_from"),
        ("augmentations/noise.py", "from clocs.augmentations.augmentation import Augmentation"),
        ("methods/cmsc.py", "import torch\nfrom clocs.losses.nce import nce\nfrom clocs.augmentations import noise"),
        ("cli/data.py", "from clocs.service.api import serve"),
    ],
)
def test_what_is_allowed_passes(name: str, source: str) -> None:
    assert violations(name, source) == []


def test_no_module_imports_itself_through_others() -> None:
    assert import_cycle({name: (PACKAGE / name).read_text(encoding="utf-8") for name in _files()}) == []


@pytest.mark.parametrize(
    ("sources", "cycle"),
    [
        pytest.param(
            {
                "store/store.py": "def late():\n    from clocs.store.splits import load_split",
                "store/splits.py": "from .groups import groups",
                "store/groups.py": "from clocs.store import store",
            },
            {"clocs.store.store", "clocs.store.splits", "clocs.store.groups"},
            id="in a folder",
        ),
        pytest.param(
            {"training/loop.py": "import clocs.methods.cmsc", "methods/cmsc.py": "from clocs.training.loop import run"},
            {"clocs.training.loop", "clocs.methods.cmsc"},
            id="between folders",
        ),
        pytest.param(
            {"formats/__init__.py": "from .edf import EDF", "formats/edf.py": "from clocs.formats import read"},
            {"clocs.formats", "clocs.formats.edf"},
            id="through the folder",
        ),
        pytest.param(
            {
                "store/a.py": "if TYPE_CHECKING:\n    import os\nelse:\n    import clocs.store.b",
                "store/b.py": "import clocs.store.a",
            },
            {"clocs.store.a", "clocs.store.b"},
            id="for what is not types",
        ),
    ],
)
def test_a_planted_cycle_is_caught(sources: dict[str, str], cycle: set[str]) -> None:
    assert set(import_cycle(sources)) == cycle


@pytest.mark.parametrize("condition", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_an_import_for_types_closes_no_cycle(condition: str) -> None:
    types = f"if {condition}:\n    from clocs.store.store import Store"
    sources = {"store/store.py": "from clocs.store.frames import Frames", "store/frames.py": types}
    assert import_cycle(sources) == []


@pytest.mark.parametrize("module", ["clocs", "clocs.cli.main"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    """Starting a command, or a worker process, must not pay for libraries it may never use."""
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
