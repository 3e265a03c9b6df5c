"""Patients that a user names for a withdrawal: how their ids are stored, and which of them are known."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import PSEUDONYM, normalize_patient_id, read_key
from clocs.store.withdrawn import WithdrawnPatients


@dataclass(frozen=True)
class WithdrawalCounts:
    """Number of named ids by what is known of them."""

    patients: int
    """Number of ids whose patients were withdrawn."""
    already_withdrawn: int
    """Number of ids that were withdrawn before."""
    unknown: int
    """Number of ids without a patient. Later additions leave them out."""


@dataclass(frozen=True)
class NamedPatients:
    """Ids that a user named, with their possible spellings in a folder."""

    spellings: Mapping[str, frozenset[str]]
    """Possible stored ids of each named id."""

    @property
    def ids(self) -> set[str]:
        """All possible stored ids."""
        return {name for names in self.spellings.values() for name in names}

    def count(
        self,
        folder: Path,
        before: WithdrawnPatients,
        found: Collection[str],
        newest: Collection[str],
        *,
        allow_unknown: bool,
    ) -> WithdrawalCounts:
        """Count the ids by what is known of them.

        Args:
            folder: Folder that was searched, for the message.
            before: Patients that were withdrawn before.
            found: Stored ids that were found in any version.
            newest: Those among them that were found in the newest version.
            allow_unknown: Count unknown ids instead of raising an error.

        Returns:
            The counts.

        Raises:
            ConfigError: An id is unknown.
        """
        distinct = {names: name for name, names in self.spellings.items()}  # a list may name a patient twice
        already, unknown = 0, []
        for names, name in distinct.items():
            if any(spelling in before for spelling in names):
                already += names.isdisjoint(newest)  # otherwise a killed withdrawal is continued
            elif names.isdisjoint(found):
                unknown.append(name)
        if unknown and not allow_unknown:
            raise ConfigError(
                f"No patient {', '.join(sorted(unknown)[:5])} in {folder}. Nothing was changed. To keep unknown ids "
                "out of later additions, pass --allow-unknown."
            ).with_code_hint("allow_unknown=True")
        return WithdrawalCounts(len(distinct) - already - len(unknown), already, len(unknown))


def name_patients(
    ids: Iterable[str], key: str | os.PathLike[str] | None, fingerprints: Collection[str | None], kind: str
) -> NamedPatients:
    """Return ids with their possible spellings in a folder.

    Args:
        ids: Ids from a user, of which blank ones are skipped.
        key: Key file of the pseudonyms, needed if the ids are original patient numbers.
        fingerprints: Fingerprints of the keys with which the folder's stores were made; None for a store without
            pseudonyms.
        kind: ``"store"``, ``"archive"`` or ``"index"``, for messages.

    Returns:
        The ids.

    Raises:
        ConfigError: There is no id, or the key is missing or another one.
    """
    named = {name.strip() for name in ids} - {""}
    if not named:
        raise ConfigError("Expected at least one patient id, got none.")
    numbers = {name for name in named if not PSEUDONYM.fullmatch(name)}
    has_plain_ids = None in fingerprints
    if key is None:
        if numbers and not has_plain_ids:
            raise ConfigError(
                f"The {kind} has pseudonyms, but {len(numbers)} of {len(named)} ids are not. Nothing was changed. Pass "
                "the key file of the pseudonyms with --key."
            )
        return NamedPatients({name: _plain(name) for name in named})
    secret = read_key(key)
    if secret.fingerprint not in fingerprints:
        problem = "has no pseudonyms" if set(fingerprints) == {None} else "was made with another key"
        raise ConfigError(f"The {kind} {problem}. Nothing was changed. Pass the ids and the key of this {kind}.")
    spellings = {name: {secret.patient(name) if name in numbers else name} for name in named}
    return NamedPatients(
        {name: frozenset(names | (_plain(name) if has_plain_ids else set())) for name, names in spellings.items()}
    )


def _plain(name: str) -> frozenset[str]:
    return frozenset({name, normalize_patient_id(name)})
