"""`strongroom wire hermes`: the steps in their order, for one home or for several.

First everything that is only looked at, so that what can be refused is refused before anything is written; then what
is written, the switch in config.yaml last. Running it again finishes, mends or finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.version import VERSION
from strongroom.wiring import homes, probing, reaching, shim, verifying, walls, writing, yamlfile
from strongroom.wiring.homes import Home
from strongroom.wiring.probing import Hermes
from strongroom.wiring.steps import Outcome, State, Step, Steps
from strongroom.wiring.work import Machine, Request, Vaults, Work
