"""The base of every call, and the transport that carries calls into a vault. Pure: no I/O."""

from __future__ import annotations

from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from strongroom.model import DataClass, Op

A = TypeVar("A")

Names = tuple[str, ...] | None
"""Names of namespaces. None stands for all namespaces of the cap."""


class Call(msgspec.Struct, Generic[A], frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call to a vault. `A` is the type of its answer, and the class attribute `answer` holds that type.

    The cap must allow the operation `op` on data of the class `data_class`. `method` and `path` are the call's HTTP
    route.
    """

    op: ClassVar[Op]
    data_class: ClassVar[DataClass] = DataClass.MEMORY
    answer: ClassVar[type[msgspec.Struct]]
    method: ClassVar[str] = "POST"
    path: ClassVar[str]


class Transport(Protocol):
    """Carries calls into a vault in this process, or to a server. Thread-safe.

    Raises the errors of `strongroom.errors`, which are equal for a vault in this process and on a server.
    """

    def call(self, call: Call[A]) -> A: ...

    def with_cap(self, token: str) -> Transport:
        """A transport to the same vault under another cap. The transport shares open connections, and does not renew
        the cap.
        """
        ...
