"""Run the cells of tutorials on PTB-XL, and write what they print and draw to ``tutorials/ptbxl``.

``python docs/run_on_ptbxl.py STORE [PAGE]...`` takes a store of PTB-XL whose split is the published folds. The cells
are those of the page, except for the text in ``CHANGED``. What cells with the tag ``result`` print and draw is written:
numbers and figures over many patients.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).parent
STORE = "stores/ptbxl"
"""Name of the store in the written pages."""
MAKE_STORE = re.compile(r'clocs\.ingest\("synthetic"[^)]*\)')
SPLIT = re.compile(r"^(split = )?clocs\.split\(store\)\n", re.M)
CELL = re.compile(r"```\{code-cell\}\n(?::tags: \[(\w+)\]\n)?(.*?)```", re.S)
CHANGED = {
    "few-labels": {"counts = (10, 20, 40)": "counts = (10, 100, 1000)"},
    "finetune": {"range(4)": "range(5)", "batch_size=32": "batch_size=256"},
    "method": {"max_epochs=2, batch_size=16": "max_epochs=5, batch_size=256"},
    "pretrain": {"max_epochs=5, passes_per_epoch=4, batch_size=16": "max_epochs=5, batch_size=256"},
}
"""For each page the text of its cells that changes, because PTB-XL has more patients."""


def cells(page: str, store: str) -> list[tuple[bool, str]]:
    """Return the cells of a page for a store: whether the result is written, and the code."""
    found = []
    for tag, code in CELL.findall((DOCS / "tutorials" / f"{page}.md").read_text()):
        code = MAKE_STORE.sub(f'clocs.open_store("{store}")', code).replace("%matplotlib inline\n", "")
        code = SPLIT.sub(lambda call: 'split = store.split("default")\n' if call[1] else "", code)
        for before, after in CHANGED[page].items():
            code = code.replace(before, after)
        found.append((tag == "result", code))
    return found


def changed_lines(page: str) -> list[str]:
    """Return the lines of the cells that differ from those of the page."""
    text = (DOCS / "tutorials" / f"{page}.md").read_text()
    lines = [line.strip() for _, code in cells(page, STORE) for line in code.splitlines()]
    return [line for line in lines if line and line not in text]


def run(page: str, store: str) -> None:
    """Run a page's cells in a temporary folder, and write the results."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams |= {"svg.hashsalt": page, "svg.fonttype": "none"}
    plt.show = lambda *args, **kwargs: None
    module = ModuleType("tutorial")
    sys.modules["tutorial"] = module
    results, begin, folder = [], time.process_time(), Path.cwd()
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        for number, (is_result, code) in enumerate(cells(page, store)):
            path = Path(f"cell{number}.py")
            path.write_text(code)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(path.resolve()), "exec"), vars(module))
            print(printed.getvalue(), end="", flush=True)
            if is_result:
                results += _written(page, printed.getvalue(), plt)
            plt.close("all")
        os.chdir(folder)
    minutes = (time.process_time() - begin) / 60
    _fragment(page).write_text(_text(page, results, minutes))


def _fragment(page: str) -> Path:
    folder = DOCS / "tutorials" / "ptbxl"
    folder.mkdir(exist_ok=True)
    return folder / f"{page}.md"


def _written(page: str, printed: str, plt: Any) -> list[str]:
    blocks = [f"```text\n{printed.rstrip()}\n```"] if printed.strip() else []
    for number in plt.get_fignums():
        name = f"{page}-{number}.svg"
        plt.figure(number).savefig(_fragment(page).with_name(name), bbox_inches="tight", metadata={"Date": None})
        blocks.append(f"![The figure above, on PTB-XL](ptbxl/{name})")
    return blocks


def _text(page: str, results: list[str], minutes: float) -> str:
    code = "\n".join(changed_lines(page))
    return "\n\n".join(
        [
            "PTB-XL has 21,799 recordings of 18,869 patients, with five diagnostic superclasses. The split is the "
            "published one: folds 1 to 8 train, 9 validates, 10 tests. These lines of the cells differ:",
            f"```python\n{code}\n```",
            *results,
            f"`python docs/run_on_ptbxl.py {STORE} {page}` makes this section, in {max(1, round(minutes))} minutes of "
            "processor time.\n",
        ]
    )


if __name__ == "__main__":
    for name in sys.argv[2:] or CHANGED:
        run(name, str(Path(sys.argv[1]).resolve()))
