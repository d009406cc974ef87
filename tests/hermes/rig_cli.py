"""The rig of the `hermes` command: each call is a process of its own, and takes 5 to 25 seconds.

    rig_cli.once(rig, "I fly to Chengdu on May 25.")       # hermes -z
    rig_cli.chat(rig, "Where do I fly?")                   # hermes chat -Q -q
    rig_cli.hermes(rig, "strongroom", "status")            # any other command
    rig.model.seen("Where do I fly?").recalled

Each returns what was printed. A test that uses it is to be marked `long`.
"""

from __future__ import annotations

from tests.hermes.rigs import Rig


def once(rig: Rig, text: str) -> str:
    return hermes(rig, "-z", text)


def chat(rig: Rig, text: str) -> str:
    return hermes(rig, "chat", "-Q", "-q", text)


def hermes(rig: Rig, *words: str) -> str:
    return rig.command("hermes", *words).stdout
