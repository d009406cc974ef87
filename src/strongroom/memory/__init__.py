"""The memory service: the only path from a cap to a line.

`state` knows an open vault and follows other processes, `clerk` asks the gate and keeps the record, `putting`,
`delivering`, `recalling`, `profiles`, `forgetting` and `observing` carry out the operations, and `bound` is what
callers hold.
"""

from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.interface import Memory
from strongroom.memory.replica import Replica

__all__ = ["Caller", "DecisionRecorder", "Memory", "Replica"]
