"""The memory service: the only code through which the holder of a cap can reach a line.

- `interface` is the API for callers.
- `decision_recorder` asks the gate, and records its decisions in the log.
- The modules of `ops` carry out the operations.
- `replica` holds the state of an open vault in this process, and keeps it current.
"""

from strongroom.memory.decision_recorder import Caller, DecisionRecorder, system_clock
from strongroom.memory.interface import Memory
from strongroom.memory.replica import Replica

__all__ = ["Caller", "DecisionRecorder", "Memory", "Replica", "system_clock"]
