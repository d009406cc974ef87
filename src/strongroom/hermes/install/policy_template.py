"""The text of a new policy: every key with what it means, so that the file is its own reference. Pure.

What stands here in force is the default of `policy`, so a line that is removed changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.hermes.install.toml_edit import render_value


@dataclass(frozen=True, slots=True)
class Wiring:
    """What `wire` itself decides and keeps up to date in a policy. One of `vault` and `url` is empty."""

    profile: str
    vault: str
    url: str
    ca_file: str
    cap: str
    state: str
    inbox: str
    namespaces: tuple[str, ...]


def policy_text(wiring: Wiring, *, me: tuple[str, ...] = (), tools: str = "none", masking: bool = True) -> str:
    """A new policy."""
    return _TEXT.format(
        **{name: render_value(getattr(wiring, name)) for name in Wiring.__slots__},
        me=render_value(me),
        tools=render_value(tools),
        masking=render_value(masking),
    )


_TEXT = """\
# How Hermes remembers through Strongroom, for the home that this file is in.
#
# An edit holds from the next turn on; Hermes need not be restarted. There is no secret in this file.
# `strongroom wire hermes` keeps the keys of the first part up to date and leaves all else as you write it.

# --- Where things are. Written by `strongroom wire hermes`.

# The profile of Hermes: every actor of this home begins with hermes/<profile>/.
profile = {profile}

# The vault, opened in Hermes' own process. Empty if a server is asked.
vault = {vault}

# The server that is asked instead, and the certificates to trust for it. Empty if there is none; for the public ones.
url = {url}
ca_file = {ca_file}

# The cap of this home, in a file of mode 0600 outside of it.
cap = {cap}

# What waits to be delivered, sealed to the vault's public key.
state = {state}
inbox = {inbox}

# The namespaces that Hermes reaches, from the most sensitive to the least. A reply that drew on several goes into the
# most sensitive of them.
namespaces = {namespaces}

# --- What is yours to decide.

# Everything of this home goes here, whatever it says, unless [chats] says otherwise. Empty: the rules decide.
namespace = ""

# Which tools the model gets: "none" (it cannot look around in memory), "forget", "recall" (and forget), or "full"
# (and remember).
tools = {tools}

[recall]
lines = 5          # how many lines a turn may be given at most, up to 20; 0 for none
characters = 2000  # how many characters they may have together
patience = 0.3     # seconds to wait for lines to be read from disk
timeout = 2.0      # seconds to wait for a server
unrelated = false  # whether the newest lines are shown where none fits the question

[keep]
turns = true               # what is said; false keeps nothing new and still recalls
replies = true             # what the model answered
delegations = true         # what a subagent was given to do, and its result
memory_writes = true       # what the built-in memory tool writes and removes
import_files = true        # MEMORY.md, USER.md and SOUL.md as they are at the first start, once
mask_secrets = {masking}        # keys, tokens and private keys are masked before a line is kept
forget_requests = false    # turns in which something is asked to be forgotten, which repeat it
spool_bytes = 67108864     # how much may wait for a server that is out of reach

[off_the_record]
# Phrases: one that leaves out the turn it is said in, ones that switch keeping off and on again.
# turn = ["off the record"]
# off = ["stop remembering"]
# on = ["remember again"]
chats = []      # chats of which nothing is kept, as platform:id, such as "telegram:-1001234"
platforms = []  # platforms of which nothing is kept, such as "webhook"

[people]
# Your own accounts, as platform:id: what is said there and in the terminal is then one person's memory.
me = {me}

# Platforms that prove no one's id: whoever takes a name there would have its memory. So nobody has one in their direct
# chats; a channel has its own all the same.
unproven = ["irc", "raft"]

# Other people with several accounts.
[people.aliases]
# bob = ["telegram:23456", "discord:34567"]

[api_server]
# Requests without a session key are nobody's and get no memory, unless a name is given here: then they all share it.
shared_as = ""

[session]
# Which runs of an agent belong together: "per-session", "per-directory", "per-repo" or "global".
strategy = "per-directory"

[chats]
# Where a chat's lines go, whatever they say: the first thing that is looked at.
# "slack:C0123456" = "work"

# Rules by words, patterns and places are in Strongroom's own configuration file, for every runtime
# (`strongroom route --write-default` writes it). A [routing] table here takes their place for this home:
# [routing]
# default = "personal"
# [[routing.rules]]
# name = "trip"
# namespace = "travel"
# words = ["flight", "hotel"]
"""
