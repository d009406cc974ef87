"""The memory service: the only path from a cap to a line.

`replica` knows an open vault and follows other processes, `decision_recorder` asks the gate and keeps the record, the
modules of `ops` carry out the operations, and `interface` is what callers hold.
"""

from strongroom.memory.decision_recorder import Caller, DecisionRecorder, system_clock
from strongroom.memory.interface import Memory
from strongroom.memory.replica import Replica

__all__ = ["Caller", "DecisionRecorder", "Memory", "Replica", "system_clock"]
