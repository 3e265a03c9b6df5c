"""Ids of patients as somebody lists them, and as an index holds them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import PSEUDONYM, read_key


def ids_as_held(ids: Iterable[str], patients: list[pa.Array], gone: pa.Array, key: Path | None) -> pa.Array:
    """Each id once, sorted, in the form in which the index would hold it.

    ``patients``: the ids of each volume; ``gone``: those deleted before. Where all patients are under pseudonyms, a
    number would match nobody, and would stand in the index from then on: it takes the key, or is refused.
    """
    named = {name.strip() for name in ids} - {""}
    numbers = {name for name in named if not PSEUDONYM.fullmatch(name)}
    pseudonyms = [pc.match_substring_regex(part, f"^{PSEUDONYM.pattern}$") for part in patients or [gone]]
    if key is None:
        if numbers and all(pc.all(part).as_py() for part in pseudonyms):
            raise ConfigError(
                f"all patients of the index are under pseudonyms, and {len(numbers)} of {len(named)} ids are none: "
                "nobody was deleted. Name the file of the key that the pseudonyms were made with: --key"
            )
        held = _letters_as_held(named, [*patients, gone])
    else:
        if not any(pc.any(part).as_py() for part in pseudonyms):
            raise ConfigError("no patient of the index is under a pseudonym: nobody was deleted. Leave out --key")
        secret = read_key(key)
        held = (named - numbers) | {secret.patient(number) for number in numbers}
    return pa.array(sorted(held), pa.large_string())


def _letters_as_held(named: set[str], held: list[pa.Array]) -> set[str]:
    """Tables write letters in one way, so lists do, too; but ids that are names of files stay as they are."""
    asked = pa.array(sorted(named), pa.large_string())
    known = {name for part in held for name in part.filter(pc.is_in(part, value_set=asked)).to_pylist()}
    return {name if name in known else unicodedata.normalize("NFKC", name) for name in named}
