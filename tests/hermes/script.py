"""The conversation that every host is driven through: what the user says, and what the model answers to it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Sequence

from tests.hermes.model_server import Rule, Script, ToolCall, by_rules

SESSIONS = ("first-session", "second-session")
TURNS = (
    ("turn", "My trip to Chengdu is on May 25."),
    ("turn with a provider's tool", "Please write down the hotel."),
    ("turn with memory add", "Please learn what I drink."),
    ("turn with memory replace", "Please correct what I drink."),
    ("turn with memory remove", "Please drop what I drink."),
    ("turn with delegation", "Please let someone check the trains."),
)
AFTER_COMPRESSION = ("turn after compression", "Are we still talking?")
AFTER_NEW = ("turn after /new", "Is this a fresh start?")
TASK = "Look up the trains to Leshan."
KEPT = "Trips go by train."
"""An entry of the built-in memory that stays."""

_RULES = (
    Rule("My trip to Chengdu", "Have a good trip."),
    Rule("write down the hotel", "It is written down.", (ToolCall("logged_note", {"text": "Hotel Jinli"}),)),
    Rule(
        "learn what I drink",
        "Learned.",
        (
            ToolCall("memory", {"action": "add", "target": "user", "content": "Drinks green tea."}),
            ToolCall("memory", {"action": "add", "target": "memory", "content": KEPT}),
        ),
    ),
    Rule(
        "correct what I drink",
        "Corrected.",
        (
            ToolCall(
                "memory",
                {
                    "action": "replace",
                    "target": "user",
                    "old_text": "green tea",
                    "content": "Drinks black tea.",
                },
            ),
        ),
    ),
    Rule(
        "drop what I drink",
        "Dropped.",
        (ToolCall("memory", {"action": "remove", "target": "user", "old_text": "black tea"}),),
    ),
    Rule(
        "let someone check the trains",
        "The trains run hourly.",
        (ToolCall("delegate_task", {"goal": TASK}),),
    ),
    Rule(TASK, "Hourly from the south station."),
    Rule("still talking", "Yes, we are."),
    Rule("fresh start", "It is."),
)


def model_script(rules: Sequence[Rule] = _RULES) -> Script:
    return by_rules(rules, without_tools="The user plans a trip to Chengdu and settled hotel, drinks and trains.")


def mark(event: str) -> None:
    """Write into the log that an event of the script begins."""
    with open(os.environ["LOGGED_CALLS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event}) + "\n")


def report(outside: Sequence[str], connected: Collection[str]) -> None:
    """Say on the last line what this process touched that was not its own."""
    sys.stdout.write("\n" + json.dumps({"outside": list(outside), "connected": sorted(connected)}) + "\n")
