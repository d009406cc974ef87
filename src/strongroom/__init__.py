"""Gated memory for AI agents.

memory = strongroom.local()  # your own memory, made at first use
memory.put("Trip to Chengdu, May 25-29")
memory.get("when is my trip?")

A vault whose owner gives a cap to each of several users:

vault = strongroom.create(path)
cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"])
memory = vault.memory(cap)
memory.put("Trip to Chengdu, May 25-29", session="s1", author="alice")
memory.get("when is my trip?")

A vault on a server: memory = strongroom.connect("https://memory.example.org", cap)
"""

from strongroom import errors
from strongroom.caps.chain import Token
from strongroom.client import AsyncMemory, connect
from strongroom.keys import EnvironmentKeys, FileKeys, KeySource, PassphraseKeys
from strongroom.local_memory import local
from strongroom.memory import Memory
from strongroom.model import NewLine, actor_path
from strongroom.vault.backup import backup, restore
from strongroom.vault.create_open import attenuate, create, open, verify  # noqa: A004 - strongroom.open, as in gzip.open
from strongroom.vault.vault import Vault

__all__ = [
    "AsyncMemory",
    "EnvironmentKeys",
    "FileKeys",
    "KeySource",
    "Memory",
    "NewLine",
    "PassphraseKeys",
    "Token",
    "Vault",
    "actor_path",
    "attenuate",
    "backup",
    "connect",
    "create",
    "errors",
    "local",
    "open",
    "restore",
    "verify",
]
