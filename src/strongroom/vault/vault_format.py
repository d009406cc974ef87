"""Raises a vault's format, after which lines may have details that older programs cannot read.

The owner decides when to do this, because from then on programs of an earlier version refuse the vault, or such lines.
The step cannot be undone.
"""

from __future__ import annotations

import msgspec

from strongroom.memory.vault_records import FORMAT, FORMATS, VaultFormatRecord
from strongroom.store import Swap
from strongroom.vault.key_rotation import retry_commit
from strongroom.vault.vault import Vault


def raise_format(vault: Vault) -> int:
    """Raise the format of a vault to the newest, and record that in the log.

    Returns the format that the vault had. If that is already the newest, nothing is done.
    """
    clerk, state = vault._clerk, vault._state
    before = state.records.format

    def change() -> None:
        stored = state.store.get(FORMAT)
        record = VaultFormatRecord.decoded(stored)
        if stored is None or record.v == FORMATS[-1]:
            return
        body = msgspec.json.encode(msgspec.structs.replace(record, v=FORMATS[-1]))
        clerk.admin.record_owner("upgrade", [Swap(FORMAT, body, stored.version)], detail=f"format {FORMATS[-1]}")

    retry_commit(state, change)
    return before
