"""Tables on the terminal."""

from __future__ import annotations

import pytest

from clocs.cli.printing import print_table


def test_words_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """In a label, an id or a path, brackets and colons are no markup and no emoji."""
    words = ("AF [old]", "ward[/x]/r4.hea", "[red]", ":heart:")
    print_table(["my[store]", ""], [(word, 12345) for word in words])
    said = capsys.readouterr().out
    assert all(word in said for word in (*words, "my[store]"))
    assert said.count("12,345") == len(words)
