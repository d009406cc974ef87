"""The base of every call, and the transport that carries calls into a vault. Pure: no I/O."""

from __future__ import annotations

from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from strongroom.model import DataClass, Op

A = TypeVar("A")

Names = tuple[str, ...] | None
"""Namespaces; None stands for all of the cap's."""


class Call(msgspec.Struct, Generic[A], frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call to a vault. `A` is the type of its answer, the same as `answer`.

    `op` and `data_class` are what the cap must allow; `method` and `path` are its HTTP route.
    """

    op: ClassVar[Op]
    data_class: ClassVar[DataClass] = DataClass.MEMORY
    answer: ClassVar[type[msgspec.Struct]]
    method: ClassVar[str] = "POST"
    path: ClassVar[str]


class Transport(Protocol):
    """Carries calls into a vault in this process, or to a server. Thread-safe.

    Raises the errors of `strongroom.errors`, the same ones wherever the vault is.
    """

    def call(self, call: Call[A]) -> A: ...

    def with_cap(self, token: str) -> Transport:
        """A transport to the same place under another cap. Shares open connections, and does not renew that cap."""
        ...
