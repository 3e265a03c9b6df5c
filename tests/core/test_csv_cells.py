"""Escaped cells are never formulas, unescaping restores the text, and numbers are not changed."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.csv_cells import escape_cell, escape_json, unescape_cell

STARTS = ("=", "+", "-", "@", "\t", "\r")
TEXTS = st.one_of(
    st.text(), st.tuples(st.sampled_from(("", "'", "''")), st.sampled_from(STARTS), st.text()).map("".join)
)


@pytest.mark.parametrize("start", STARTS)
def test_a_formula_is_escaped(start: str) -> None:
    assert escape_cell(f"{start}HYPERLINK(A1)") == f"'{start}HYPERLINK(A1)"


@pytest.mark.parametrize("number", ["-1", "+0.5", "-1e-05", "-.5", "7", "1.5E+20"])
def test_a_number_is_not_escaped(number: str) -> None:
    assert escape_cell(number) == number


@pytest.mark.parametrize("text", ["-1+1", "+49 30 1", "-1e", "--1", "-", "-1,5"])
def test_text_that_begins_like_a_number_is_escaped(text: str) -> None:
    assert escape_cell(text) == f"'{text}"


@given(TEXTS)
def test_unescaping_restores_the_text_and_no_cell_is_a_formula(text: str) -> None:
    cell = escape_cell(text)
    assert unescape_cell(cell) == text
    if cell.startswith(STARTS):
        float(cell)


@given(st.lists(TEXTS))
@pytest.mark.parametrize("separator", [",", ";"])
def test_no_string_in_json_begins_a_cell(separator: str, texts: list[str]) -> None:
    line = escape_json(f"# labels: {json.dumps(texts, ensure_ascii=False)}")
    assert json.loads(line.partition(":")[2]) == texts
    cells = next(csv.reader(io.StringIO(line), delimiter=separator, quoting=csv.QUOTE_NONE))
    assert not [cell for cell in cells if cell.startswith(STARTS)]
