"""Workflows, templates, lock files and the packages that are built from the repository."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from clocs import __version__
from tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URL = "https://host.example/owner/name"
if not WORKFLOWS:
    pytest.skip("not a checkout: the source package has no workflows", allow_module_level=True)


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path.stem}/{name}", job) for path in WORKFLOWS for name, job in load(path)["jobs"].items()]


def verbs() -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.M))


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The module that fills in metadata at build time."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "job"), jobs())
def test_a_job_calls_verbs_of_the_makefile(name: str, job: dict[str, Any]) -> None:
    """The only other command publishes, which no one does locally."""
    for step in job["steps"]:
        if "run" in step:
            command, verb, *_ = shlex.split(step["run"])
            assert (command == "make" and verb in verbs()) or step["run"].startswith("gh release create"), step
    assert job["timeout-minutes"] <= 90


@pytest.mark.parametrize(("name", "job"), jobs())
def test_a_job_has_no_right_that_it_does_not_need(name: str, job: dict[str, Any]) -> None:
    allowed = {
        "release/build": {"contents": "read", "id-token": "write", "attestations": "write"},
        "release/publish": {"id-token": "write"},
        "release/announce": {"contents": "write"},
        "release/site": {"contents": "read", "pages": "write", "id-token": "write"},
    }
    assert job.get("permissions", {}) == allowed.get(name, {})


def test_workflows_read_by_default_and_hold_no_secret() -> None:
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {"contents": "read"}
        assert "secrets." not in path.read_text()


def test_every_supported_python_is_tested() -> None:
    prefix = "Programming Language :: Python :: 3."
    listed = {item.rpartition(" ")[2] for item in PROJECT["classifiers"] if item.startswith(prefix)}
    matrix = load(ROOT / ".github" / "workflows" / "checks.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == listed
    assert any(item["os"].startswith("macos") for item in matrix["include"])
    policy = (ROOT / "docs" / "reference" / "policy.md").read_text()
    assert f"| Python | {', '.join(sorted(listed))} |" in policy
    (torch,) = [item for item in PROJECT["optional-dependencies"]["train"] if item.startswith("torch")]
    assert f"| {torch.removeprefix('torch>=')} and newer |" in policy


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_file_has_versions_and_hashes_only(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\+cpu|file:|://|@ |^-|index-url|find-links", text, re.M)
    assert not re.search(r"^(torch|triton|nvidia-|cuda-)", text, re.M)
    entries = re.findall(r"^\S.*(?:\n[ ]{4}--hash.*)*", re.sub(r"^ *#.*\n", "", text, flags=re.M), re.M)
    assert len(entries) > 20
    for entry in entries:
        first, *hashes = entry.split("\\\n")
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+ ", first), first
        assert hashes
        assert all(re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64} ?", item.rstrip("\n")) for item in hashes), first


@pytest.mark.parametrize(("lock", "extras"), [("container", ("serve", "search")), ("dev", ("all", "dev", "docs"))])
def test_a_lock_file_has_every_direct_dependency(lock: str, extras: tuple[str, ...]) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    locked = set(re.findall(r"^([a-z0-9-]+)==", text, re.M))
    needed = _names(PROJECT["dependencies"]) | {name for extra in extras for name in _extra(extra)}
    assert needed - {"torch"} <= locked, "run make lock"


def _extra(name: str) -> set[str]:
    """Return the packages of an extra and of the extras that it names."""
    found: set[str] = set()
    for item in PROJECT["optional-dependencies"][name]:
        nested = re.fullmatch(r"clocs\[(.*)\]", item)
        found |= {part for each in nested[1].split(",") for part in _extra(each)} if nested else _names([item])
    return found


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", item)[0].lower().replace("_", "-") for item in requirements}


def test_issue_forms_ask_for_no_patient_data() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert {path.stem for path in forms} == {"bug", "idea"}
    for path in forms:
        form = load(path)
        assert {"name", "description", "body"} <= set(form)
        named = [item["id"] for item in form["body"] if item["type"] != "markdown"]
        assert len(named) == len(set(named))
    assert "Never attach recordings of patients" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()


def test_the_contributing_page_lists_every_verb() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "RELEASING.md").read_text()
    assert {verb for verb in verbs() if not re.search(rf"`make [^`]*\b{verb}\b|\bmake {verb}\b", page)} == {"help"}


def test_first_tasks_name_folders_that_exist() -> None:
    rows = re.findall(
        r"^\| (\d+)\. .*? \| `(.*?)` \| `(.*?)`", (ROOT / "docs" / "background" / "first-tasks.md").read_text(), re.M
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, 11))
    for _, file, test in rows:
        assert (ROOT / file).parent.is_dir(), file
        assert (ROOT / test).parent.is_dir(), test


README = """![Viewer](docs/a.png)

<picture>
  <source srcset="docs/dark.png">
  <img src="docs/light.png" alt="x">
</picture>

See [the card](src/card.md), [below](#below), [the paper](https://paper.example/x).
"""


def test_without_an_address_pictures_and_relative_links_are_left_out(hook: ModuleType) -> None:
    text = hook.absolute_readme(README, "", "1.2.3")
    assert text.strip() == "See the card, [below](#below), [the paper](https://paper.example/x)."
    assert hook.project_urls("") == {}
    assert "repository-code" not in hook.citation("license: x\n", "", "1.2.3")


def test_with_an_address_pictures_and_links_are_absolute(hook: ModuleType) -> None:
    text = hook.absolute_readme(README, URL, "1.2.3")
    for path in ("docs/a.png", "docs/dark.png", "docs/light.png"):
        assert f"{URL}/raw/v1.2.3/{path}" in text
    assert f"[the card]({URL}/blob/v1.2.3/src/card.md)" in text
    assert "[below](#below), [the paper](https://paper.example/x)" in text
    assert hook.project_urls(URL)["Issues"] == f"{URL}/issues"
    found = yaml.safe_load(hook.citation((ROOT / "CITATION.cff").read_text(), URL, "1.2.3"))
    assert (found["version"], found["repository-code"]) == ("1.2.3", URL)


def test_the_address_is_written_in_no_file(hook: ModuleType) -> None:
    """Files name the variable, and the version comes from the package."""
    assert hook.package_version() == __version__
    for name in ("pyproject.toml", "CITATION.cff", "README.md", "docs/conf.py"):
        assert not re.search(r"https://(github|gitlab|codeberg)\.\w+/[\w-]+/clocs\b", (ROOT / name).read_text()), name


def build(source: Path, out: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Build sdist and wheel from a copy of the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if name.startswith(("src/", "docs/", "hatch", "pyproject", "README", "LICENSE", "C", ".gitignore")):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    monkeypatch.setenv("CLOCS_REPOSITORY_URL", url)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_packages_built_twice_are_equal_and_have_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install 'clocs[dev]'")
    first, second = (build(tmp_path / name / "in", tmp_path / name / "out", URL, monkeypatch) for name in "ab")
    assert first == second
    assert set(first) == {f"clocs-{__version__}.tar.gz", f"clocs-{__version__}-py3-none-any.whl"}
    with zipfile.ZipFile(tmp_path / "a" / "out" / f"clocs-{__version__}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"clocs-{__version__}.dist-info/METADATA").decode()
        assert not [name for name in wheel.namelist() if not name.startswith(("clocs/", "clocs-"))]
    assert f"Project-URL: Source, {URL}\n" in metadata
    assert "](docs/" not in metadata
    with tarfile.open(tmp_path / "a" / "out" / f"clocs-{__version__}.tar.gz") as archive:
        assert f"clocs-{__version__}/hatch_build.py" in archive.getnames()
