"""Writes the text of a new policy: every key with its meaning, so that the file is its own reference. Pure.

The values that `wire` does not fill in are the defaults of `policy`, so removing these lines changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.hermes.install.toml_edit import render_value


@dataclass(frozen=True, slots=True)
class Wiring:
    """The part of a policy that `wire` writes and updates. Only one of `vault` and `url` is set."""

    profile: str
    vault: str
    url: str
    ca_file: str
    cap: str
    state: str
    inbox: str
    namespaces: tuple[str, ...]


def policy_text(wiring: Wiring, *, me: tuple[str, ...] = (), tools: str = "none", masking: bool = True) -> str:
    """The text of a new policy."""
    return _TEXT.format(
        **{name: render_value(getattr(wiring, name)) for name in Wiring.__slots__},
        me=render_value(me),
        tools=render_value(tools),
        masking=render_value(masking),
    )


_TEXT = """\
# The policy of this Hermes home: what Strongroom remembers, for whom, and where.
#
# An edit takes effect with the next turn; Hermes need not be restarted. There is no secret in this file.
# `strongroom wire hermes` updates the keys of the first part and leaves the rest as you write it.

# --- Where things are. Written by `strongroom wire hermes`.

# The Hermes profile: the names of all actors of this home begin with hermes/<profile>/.
profile = {profile}

# The vault that Hermes opens in its own process. Empty if it uses a server.
vault = {vault}

# The server that it uses instead, or empty; and a file with the certificates to trust for it, or empty for public ones.
url = {url}
ca_file = {ca_file}

# The file with the cap of this home: mode 0600, outside the home.
cap = {cap}

# The directory for turns that wait to be stored, and the vault's public key that they are encrypted to.
state = {state}
inbox = {inbox}

# The namespaces that Hermes uses, most sensitive first. A reply based on lines of several namespaces goes into the most
# sensitive of them.
namespaces = {namespaces}

# --- Your decisions.

# Put everything of this home into one namespace, except where [chats] names another. Empty: the routing rules decide.
namespace = ""

# Which memory tools the model gets: "none" (lines are only injected), "forget", "recall" (and forget), or "full" (and
# remember).
tools = {tools}

[recall]
lines = 3          # most lines that a turn may get, up to 20; 0 for none
characters = 2000  # most characters of these lines together
patience = 0.3     # seconds to wait for lines to be read from disk
timeout = 2.0      # seconds to wait for a server
min_confidence = 0.02  # how likely a line must answer to be shown, from 0 to 1; 0 for every line that matches
neighbours = false  # whether to show lines without a word of the question that were said near a line with one
standing = 1       # most standing instructions ("always ...") that a turn may get beside these lines, up to 5
unrelated = false  # whether to show the newest lines if none fits the question

[keep]
turns = true               # what people say; false keeps nothing new but still recalls
replies = true             # what the model answers
delegations = true         # the tasks given to subagents, and their results
memory_writes = true       # what the built-in memory tool writes and removes
import_files = true        # MEMORY.md, USER.md and SOUL.md, once, at the first start
mask_secrets = {masking}        # mask passwords, tokens and private keys before a line is kept
forget_requests = false    # turns that ask to forget something, and so repeat it
spool_bytes = 67108864     # most bytes of turns that may wait while the server or vault is unavailable

[off_the_record]
# Phrases: `turn` leaves out the turn it is said in; `off` and `on` switch keeping off and on again.
# turn = ["off the record"]
# off = ["stop remembering"]
# on = ["remember again"]
chats = []      # chats of which nothing is kept, as platform:id, such as "telegram:-1001234"
platforms = []  # platforms of which nothing is kept, such as "webhook"

[people]
# Your own accounts, as platform:id: they and the terminal then share one memory.
me = {me}

# Platforms that do not verify names: anybody who takes a name would get its memory. So direct chats there get no
# memory; channels do.
unproven = ["irc", "raft"]

# Other people with several accounts.
[people.aliases]
# bob = ["telegram:23456", "discord:34567"]

[api_server]
# Requests without a session key get no memory. With a name here, they all share one memory.
shared_as = ""

[session]
# Which runs of an agent belong to the same session: "per-session", "per-directory", "per-repo" or "global".
strategy = "per-directory"

[chats]
# The namespace for all lines of a chat. This comes before everything else.
# "slack:C0123456" = "work"

# Routing rules by words, patterns and places are in Strongroom's own configuration file, for all runtimes
# (`strongroom route --write-default` writes it). A [routing] table here replaces them for this home:
# [routing]
# default = "personal"
# [[routing.rules]]
# name = "trip"
# namespace = "travel"
# words = ["flight", "hotel"]
"""
