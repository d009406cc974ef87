"""What no sound fleet does: each rule in the words with which a seed that breaks it says so.

`checking`, `ending`, `clients`, `workers` and `attacker` look for them. For each there is a fault in `planted` that
breaks it: a rule that nothing can break would say nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    # Of answers.
    HALT = "it came to a halt"
    FALSE_ALARM = "nobody has tampered, and a worker says so"
    FALSE_TAKEN_LOG = "nobody was in the way of a log, and it was given up"
    DEFECT = "an answer that nobody should hear"
    NO_ANSWER = "a healthy store, and no answer"
    NO_START = "a worker could not be opened"
    # Of caps.
    VOID_CAP = "a void cap was accepted"
    GOOD_CAP = "a good cap was refused"
    # Of lines.
    TWICE = "a line is there twice"
    MISSING = "a line is missing"
    NOT_FOUND = "lines that are there were not found"
    INVENTED = "a line that nobody put"
    BACK = "a line is back"
    TWO_IDS = "one line under several ids"
    LISTED_NOT_GOT = "what is listed is not what is got"
    DISAGREEING = "the workers do not agree"
    COMPACTION = "compaction failed"
    EXPIRED = "what has ended was answered"
    STORED = "what has ended is still stored"
    # Of profiles.
    INVENTED_PROFILE = "a profile that nobody wrote"
    MISSING_PROFILE = "a profile is missing"
    OLD_PROFILE = "an old profile"
    # Of logs.
    NO_LOG = "there is no log of a worker in the roster"
    GAP = "a log has a gap"
    UNSIGNED = "a bundle is not signed as it stands"
    UNRECORDED = "no log knows of it"
    FLAW = "an audit found a flaw"
    UNSETTLED = "nobody has tampered yet, and an audit is not settled"
    # Of what an attacker did.
    WENT_BACK = "a worker that had seen it went back"
    UNNAMED = "it was undone, and no audit named it"
    UNNAMED_BUNDLE = "a bundle was planted, and no audit named it"
    STOPPED = "a log was taken, and its worker did not go on"
    NO_ALARM = "a log was taken, and not one alarm was raised"
