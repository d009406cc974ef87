"""Removes recalled text from Hermes' own history: the rules, Hermes' database, and a list of the copies elsewhere."""

from strongroom.hermes.scrub.other_copies import Leftover, leftovers
from strongroom.hermes.scrub.session_facts import Facts
from strongroom.hermes.scrub.state_db import Finished, Scrubbed, find_recalled, finish, scrub, traces

__all__ = ["Facts", "Finished", "Leftover", "Scrubbed", "find_recalled", "finish", "leftovers", "scrub", "traces"]
