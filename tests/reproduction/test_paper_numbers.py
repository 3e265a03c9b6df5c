"""The paper's numbers against its LaTeX source, against each other, and against what the package knows of its data."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pydantic import ValidationError

from clocs.core.errors import ConfigError
from clocs.datasets import DATASETS
from reproduction.paper_numbers import (
    Count,
    Result,
    Setting,
    counts,
    paper,
    results,
    settings,
)
from tests.conftest import ROOT
from tests.reproduction.paper_tables import DATASET_NAMES, METHOD_NAMES, SELF_SUPERVISED, columns, told

CELLS = {
    **{
        1: 6 * 2,
        2: 8 * 6,
        3: 10 * 2,
        4: 4 * 3 * 2,
        5: 0,
        6: 0,
        9: 4 * 5 * 2,
        17: 4 * 7 * 6,
        23: 4 * 3 * 2,
        24: 4 * 3 * 6,
    },
    **dict.fromkeys((7, 8, 10, 11, 12, 13, 14), 4 * 4 * 2),
    **dict.fromkeys((15, 16, 18, 19, 20, 21, 22), 4 * 5 * 6),
}
"""Results and counts of each table: parts, rows, columns. Tables 5 and 6 hold settings."""
BOLD_BUT_NOT_BEST = {(15, "b", 2, "cmsc"), (16, "b", 2, "cmlc")}
BEST_BUT_NOT_BOLD = {
    (15, "b", 2, "cmlc"),
    (19, "d", 3, "cmsmlc"),
    (20, "c", 3, "simclr"),
    (20, "c", 3, "cmsc"),
    (21, "a", 3, "simclr"),
    (21, "b", 3, "cmlc"),
}
"""The first is a slip of the paper; the others are ties."""

# --- against the source


@pytest.fixture(scope="module")
def source() -> list[str]:
    """Lines of the paper's LaTeX source; the first has the number 1."""
    path = Path(os.environ.get("CLOCS_PAPER", ROOT.parent / "shared" / "paper" / "clocs.tex"))
    if not path.exists():
        pytest.skip(f"no LaTeX source of the paper at {path}; set CLOCS_PAPER to where it is")
    return ["", *path.read_text(encoding="utf-8").splitlines()]


def tables_of(source: list[str]) -> list[tuple[int, int, str]]:
    """First line, last line and text of every table, in order."""
    text = "\n".join(source)
    spans = re.finditer(r"\\begin\{table(\*?)\}.*?\\end\{table\1\}", text, re.DOTALL)
    return [(text.count("\n", 0, at.start()), text.count("\n", 0, at.end()), at.group()) for at in spans]


def sections(source: list[str]) -> list[str]:
    """The number of the section that each line stands in, such as 6.2 or D.1.3."""
    numbers, appendix, found = [0, 0, 0], False, []
    for line in source:
        if line.strip() == r"\appendix":
            numbers, appendix = [0, 0, 0], True
        heading = re.match(r"\\((?:sub)*)section\{", line)
        if heading:
            depth = len(heading[1]) // 3
            numbers = [*numbers[:depth], numbers[depth] + 1, *[0] * (2 - depth)]
        first = chr(ord("A") + numbers[0] - 1) if appendix else str(numbers[0])
        found.append(".".join([first, *[str(number) for number in numbers[1:] if number]]))
    return found


def body(table: str) -> str:
    """What its tabulars print, without layout, headings and captions."""
    tabulars = re.findall(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", table, re.DOTALL)
    text = "\n".join(tabulars).replace("Conv 1D", "")
    text = re.sub(r"\\multirow\{\d\}\{\*\}\{(\w| )*\*?\}|\\multicolumn\{\d\}\{\w\}", "", text)
    return re.sub(r"(PhysioNet|\\tau_\{d\} =) [\d.]+", "", text)


def test_tables_are_numbered_as_in_the_source(source: list[str]) -> None:
    where = sections(source)
    tables = [(number, *each) for number, each in enumerate(tables_of(source), 1)]
    assert [(each.number, each.line, each.last_line, each.section, each.label) for each in paper().tables] == [
        (number, first, last, where[first], labels(text)[0]) for number, first, last, text in tables
    ]


def labels(text: str) -> list[str]:
    return re.findall(r"\\label\{(.*?)\}", text)


@pytest.mark.parametrize("number", [1, 2, *range(7, 25)])
def test_every_result_of_a_table_is_in_the_file(source: list[str], number: int) -> None:
    text = tables_of(source)[number - 1][2]
    pair = r"([\d.]+)\s*\$\\pm\$\s*([\d.]+)"
    printed = Counter(f"{mean} ± {deviation}" for mean, deviation in re.findall(pair, text))
    assert printed.total() == text.count(r"\pm") > 0
    assert Counter(result.printed for result in results(table=number)) == printed
    bold = Counter(f"{mean} ± {deviation}" for mean, deviation in re.findall(r"\\textbf\{\s*" + pair, text))
    assert Counter(result.printed for result in results(table=number, bold=True)) == bold


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_every_number_of_the_other_tables_is_in_the_file(source: list[str], number: int) -> None:
    text = body(tables_of(source)[number - 1][2]).replace(r"10\textsuperscript{-4}", "0.0001")
    printed = Counter(float(found.replace(",", "")) for found in re.findall(r"(?<![\w.])\d[\d.,]*(?!S)", text))
    first = paper().tables[number - 1].line + 5
    rows: tuple[Count | Setting, ...] = (*counts(table=number), *settings(table=number))
    known = [row for row in rows if row.line > first]  # below the caption
    values = Counter(row.value for row in known if not isinstance(row.value, str))
    assert values == printed


def test_every_result_has_its_line_in_the_source(source: list[str]) -> None:
    spans = tables_of(source)
    for result in paper().results:
        first, last, _ = spans[result.table - 1]
        assert first < result.line < last
        method, *cells = source[result.line].split("&")
        cell = re.sub(r"\\(multicolumn\{1\}\{c\}|textbf|pm|\\)|[{}$]", " ", cells[result.column - 1])
        assert " ± ".join(cell.split()) == result.printed
        decay = re.search(r"\\tau_\{d\} = ([\d.]+)", method)
        named = METHOD_NAMES[result.method] if not decay else float(decay[1])
        assert (result.decay if decay else method.strip()) == named
        assert (result.decay is None) == (result.method != "byol")


def test_every_result_has_the_condition_of_its_headings(source: list[str]) -> None:
    spans = tables_of(source)
    for result in paper().results:
        first = spans[result.table - 1][0]
        above = source[first : result.line]
        rows = [line for line in above if re.match(r"(\\multirow\{1\}\{\*\}\{Pre-|Dataset|Downstream)", line)]
        names = [re.findall(r"Chapman|Cardiology|PhysioNet 20\d\d", line) for line in rows[-2:]]
        assert result.protocol == ("finetune" if rows[-1].startswith("Downstream") else "linear")
        evaluated = names[-1][result.column - 1]
        pretrained = names[0][(result.column - 1) // 3] if result.protocol == "finetune" else evaluated
        assert DATASET_NAMES[result.evaluation] == evaluated
        assert result.pretraining is None or DATASET_NAMES[result.pretraining] == pretrained
        assert (result.pretraining is None) == (result.method == "random")
        captions = [line for line in above if line.startswith(r"\caption")]
        fractions = re.findall(r"\$F=([\d.]+)\$", captions[-1])
        assert [result.label_fraction] == [float(each) for each in fractions]
        parts = sum(r"\begin{subtable}" in line for line in above)
        assert result.part == ("abcd"[parts - 1] if parts else "")
        (leads,) = re.findall(r"using (?:all )?(\d+) leads", captions[0])
        assert result.leads == int(leads)
        if 7 <= result.table <= 22:
            heading = next(line for line in reversed(source[:first]) if "section{" in line)
            assert re.findall(r"Embedding Dimension.*= ?(\d+)", heading) == [str(result.embedding_dim)]
        else:
            assert result.embedding_dim == 128


def test_settings_and_claims_are_on_their_lines(source: list[str]) -> None:
    where = sections(source)
    for setting in paper().settings:
        assert setting.printed in source[setting.line]
        assert setting.section == where[setting.line]
        inside = setting.table and paper().tables[setting.table - 1]
        assert not inside or inside.line < setting.line < inside.last_line
    for claim in paper().claims:
        assert all(number.printed in source[claim.line] for number in claim.numbers), claim.id
        assert (claim.section or "0") == where[claim.line]


def test_counts_are_on_their_lines(source: list[str]) -> None:
    parts = {3: ("train", "validation"), 4: ("train", "validation", "test")}
    for count in paper().counts:
        cells = source[count.line].split("&")[-len(parts[count.table]) :]
        assert count.split == parts[count.table][count.column - 1]
        assert re.search(rf"(?<![\d,]){count.printed}(?![\d,])", cells[count.column - 1])
        assert f"({count.printed})" in cells[count.column - 1] or count.quantity == "instances"
        assert int(count.printed.replace(",", "")) == count.value
        above = next(line for line in reversed(source[: count.line + 1]) if r"\multirow" in line)
        assert "{" + DATASET_NAMES[count.dataset] in above
        assert count.method is None or METHOD_NAMES[count.method] in re.split(r"[&\s]+", source[count.line])
        form = re.search(r"\\times (2?S)( \\times L)?", cells[count.column - 1])
        assert count.form == (form[1] + " x L" * bool(form[2]) if form else "")


# --- against each other


def test_tables_have_as_many_cells_as_their_rows_and_columns_make() -> None:
    assert {
        table.number: len(results(table=table.number) + counts(table=table.number)) for table in paper().tables
    } == CELLS
    assert len(results()) == 1428
    assert len(settings(table=5)) == 1 + 3 * 5 + 4  # the stride; kernel, channels, pooling, dropout; inputs, outputs
    assert len(settings(table=6)) == 1 + 4 * 2  # the optimiser; batch size and learning rate


def test_a_cell_of_a_table_is_there_once() -> None:
    places = Counter((result.table, result.line, result.column) for result in paper().results)
    assert set(places.values()) == {1}


def test_bold_results_are_the_best_self_supervised_ones() -> None:
    bold_not_best, best_not_bold = set(), set()
    for place, column in columns(r.number for r in paper().tables).items():
        rivals = [result for result in column if result.method in SELF_SUPERVISED]
        best = max(result.value for result in rivals)
        bold_not_best |= {(*place, result.method) for result in column if result.bold and result.value < best}
        best_not_bold |= {(*place, result.method) for result in rivals if not result.bold and result.value == best}
    assert bold_not_best == BOLD_BUT_NOT_BEST
    assert {place for place in best_not_bold if place[0] != 24} == BEST_BUT_NOT_BOLD
    assert not results(table=24, bold=True)
    assert not results(method="random", bold=True)
    assert not results(method="supervised", bold=True)


def test_repeated_results_are_equal() -> None:
    found: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    fields = ("protocol", "method", "pretraining", "evaluation", "embedding_dim", "label_fraction", "leads", "decay")
    for result in results():
        found[tuple(getattr(result, field) for field in fields)].append(result)
    for same in found.values():
        assert len({(result.value, result.deviation) for result in same}) == 1
    repeated = Counter(map(len, found.values()))
    assert repeated.total() < 1428 == sum(number * count for number, count in repeated.items())


def test_the_parts_of_a_dataset_add_up_to_what_the_package_finds() -> None:
    for name in DATASET_NAMES:
        instances = sum(count.value for count in counts(table=4, dataset=name, quantity="instances"))
        assert instances == DATASETS.get(name).expected["instances"]
    for method in ("byol", "simclr"):
        for count in counts(method=method):
            (same,) = counts(table=4, dataset=count.dataset, split=count.split, quantity="instances")
            assert count.value == same.value


def test_layer_sizes_are_consistent() -> None:
    width = told("all", "frame_samples")
    for layer in ("layer 1", "layer 2", "layer 3"):
        width = ((width - told(layer, "kernel")) // told("encoder", "stride") + 1) // told(layer, "max_pool")
    assert width * told("layer 3", "channels_out") == told("layer 4", "inputs")


def test_unknown_fields_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"datset: no field of a Result; it has protocol, method"):
        results(datset="chapman")
    with pytest.raises(ConfigError, match="no field of a Setting"):
        settings(method="byol")


def test_a_result_that_differs_from_its_printed_text_is_rejected() -> None:
    good = results(table=1)[0].model_dump()
    Result.model_validate(good)
    for wrong in (
        {"value": 0.678},
        {"deviation": 0.025},
        {"printed": "0.677"},
        {"value": 1.2, "printed": "1.2 ± 0.024"},
    ):
        with pytest.raises(ValidationError):
            Result.model_validate(good | wrong)


def test_a_well_known_number() -> None:
    (result,) = results(table=1, method="cmsc", evaluation="chapman")
    assert (result.value, result.deviation, result.bold, result.leads, result.label_fraction) == (
        0.896,
        0.005,
        True,
        4,
        0.5,
    )
    assert [setting.value for setting in settings(subject="cardiology", name="batch")] == [16]
