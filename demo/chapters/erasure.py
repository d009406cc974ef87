"""The last steps: a line that is forgotten and a memory that is erased, seen by other processes and by a raw search."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from demo import talk
from demo.stage import Stage
from strongroom.cli.demo_stage import answered, expect, refused

_ARCHIVE, _PASSPHRASE = "travel.age", "passphrase"  # file names
_TAKEN_LINE, _TAKEN_ACTOR = "sealed-line.json", "sealed-actor.json"


def export_before_forgetting(stage: Stage) -> None:
    passphrase = Path(stage.file(_PASSPHRASE))
    passphrase.touch(mode=0o600)
    passphrase.write_text(secrets.token_hex(16))
    done = stage.answer("export", stage.file(_ARCHIVE), "--namespace", "travel", *_passphrase(stage))
    expect("301 encrypted lines", (301, True), (done["lines"], done["encrypted"]))
    archive = Path(stage.file(_ARCHIVE)).read_bytes()
    expect("the trip not to lie in it in clear", False, talk.TRIP.encode() in archive)


def a_second_reader_has_the_trip(stage: Stage) -> None:
    """This process keeps the vault open until the end, and has the line in its own RAM."""
    expect("the reader to recall it", True, talk.TRIP in stage.ask_reader("trip to Chengdu")["texts"])


def forget_leaves_no_trace(stage: Stage) -> None:
    """The sealed line and every index page of its shelf are taken first, and looked for afterwards."""
    take_the_sealed_trip(stage)
    forget_what_was_taken(stage)


def take_the_sealed_trip(stage: Stage) -> None:
    vault, taken = stage.vault, stage.file(_TAKEN_LINE)
    shelf = stage.attack("where", vault, stage.trip).partition("/lines/")[0]
    count = stage.attack("take", vault, taken, f"*/lines/{stage.trip}", f"{shelf}/derived/page-*")
    expect("the sealed line, and an index page where there are any", True, count >= 1 + stage.has_pages)


def forget_what_was_taken(stage: Stage) -> None:
    vault, taken = stage.vault, stage.file(_TAKEN_LINE)
    expect("the search to find them while they are there", True, stage.attack("find", vault, taken) > 0)
    done = stage.answer("forget", stage.trip)
    expect("the line forgotten, no journal left", ([stage.trip], True), (done["ids"], done["scrubbed"]))
    expect("no piece of them in any file", 0, stage.attack("find", vault, taken))


def a_forgotten_line_is_gone_for_everyone(stage: Stage) -> None:
    expect("the open reader not to recall it", False, talk.TRIP in stage.ask_reader("trip to Chengdu")["texts"])
    _trip_is_gone(stage)
    again = stage.strongroom("put", talk.TRIP, "--namespace", "travel", "--id", stage.trip)
    expect("exit 5: its id is not used again", (5, True), (again.code, again.json["lines"][0]["forgotten"]))


def an_import_does_not_bring_it_back(stage: Stage) -> None:
    done = stage.answer("import", stage.file(_ARCHIVE), *_passphrase(stage))
    expect("300 lines there, one forgotten", (0, 300, 1), (done["put"], done["there"], done["forgotten"]))
    refused("not_found", stage.strongroom("get", "--id", stage.trip))
    left = stage.attack("find", stage.vault, stage.file(_TAKEN_LINE))
    expect("no piece of it in any file", 0, left)


def _trip_is_gone(stage: Stage) -> None:
    asked, listed, by_id = stage.at_once(
        ("get", talk.QUESTION, "--now", stage.now.isoformat(), "-k", "20"),
        ("list", "--all", "--namespace", "travel"),
        ("get", "--id", stage.trip),
    )
    expect("not recalled", False, talk.TRIP in [hit["text"] for hit in answered(asked)["hits"]])
    ids = [line["id"] for line in answered(listed)["lines"]]
    expect("300 other lines listed", (300, False), (len(ids), stage.trip in ids))
    refused("not_found", by_id)


def erase_destroys_the_keys(stage: Stage) -> None:
    vault, taken = stage.vault, stage.file(_TAKEN_ACTOR)
    shutil.copy(stage.owner_cap, stage.file("former-owner.cap"))
    stage.attack("take", vault, taken, "actors/*")
    found = stage.attack("find", vault, taken)
    expect("the search to find the keys and 501 sealed lines, while they are there", True, found > talk.LINES)
    done = stage.answer("erase", "--everything", "--yes")
    expect("everything erased, nothing pending", (True, False), (done["everything"], done["pending"]))
    expect("no piece of them in any file", 0, stage.attack("find", vault, taken))


def old_caps_are_void(stage: Stage) -> None:
    expect("the open reader to be refused", "cap_revoked", stage.ask_reader("peanuts")["reason"])
    old = (stage.file(cap) for cap in ("travel.cap", "former-owner.cap"))
    refused("cap_revoked", *stage.at_once(*(("get", "peanuts", "--cap-file", cap) for cap in old)))


def an_erased_memory_is_empty(stage: Stage) -> None:
    """The owner gets a new cap with the next command, and finds nothing."""
    expect("nothing listed", [], stage.answer("list", "--all")["lines"])
    asked, shown, by_id = stage.at_once(
        ("get", "what am I allergic to?"), ("snapshot",), ("get", "--id", stage.allergy)
    )
    expect("nothing recalled", [], answered(asked)["hits"])
    expect("no profile", [], answered(shown)["profiles"])
    refused("not_found", by_id)


def the_log_outlives_the_names(stage: Stage) -> None:
    """The log still verifies, and nobody can say any more whose the denied read was."""
    verified, shown = stage.at_once(("audit", "verify"), ("audit", "show", "--denied", "--limit", "1000"))
    expect("no finding", [], answered(verified)["findings"])
    (entry,) = [one for one in answered(shown)["entries"] if one["index"] == stage.denied_entry]
    expect("the denial, without a name", ("cap_namespace_denied", ""), (entry["reason"], entry["actor"]))


def _passphrase(stage: Stage) -> tuple[str, str]:
    return "--export-passphrase-file", stage.file(_PASSPHRASE)
