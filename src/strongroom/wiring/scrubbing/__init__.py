"""Taking recalled text out of Hermes' own history: the rules, its database, and what stays out of reach."""

from strongroom.wiring.scrubbing.database import Finished, Scrubbed, finish, held, scrub, traces
from strongroom.wiring.scrubbing.facts import Facts
from strongroom.wiring.scrubbing.leftovers import Leftover, leftovers

__all__ = ["Facts", "Finished", "Leftover", "Scrubbed", "finish", "held", "leftovers", "scrub", "traces"]
