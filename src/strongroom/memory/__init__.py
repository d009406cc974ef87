"""The memory service: the only path from a cap to a line.

`replica` follows an open vault, `decision_recorder` asks the gate and records its decisions, the modules of `ops` carry
out the operations, and `interface` is the API for callers.
"""

from strongroom.memory.decision_recorder import Caller, DecisionRecorder, system_clock
from strongroom.memory.interface import Memory
from strongroom.memory.replica import Replica

__all__ = ["Caller", "DecisionRecorder", "Memory", "Replica", "system_clock"]
