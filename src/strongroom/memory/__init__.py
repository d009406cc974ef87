"""The memory service: the only path from a cap to a line.

`state` knows an open vault and follows other processes, `clerk` asks the gate and keeps the record, `putting`,
`delivering`, `recalling`, `profiles`, `forgetting` and `observing` carry out the operations, and `bound` is what
callers hold.
"""

from strongroom.memory.bound import Memory
from strongroom.memory.clerk import Caller, Clerk
from strongroom.memory.state import State

__all__ = ["Caller", "Clerk", "Memory", "State"]
