"""The steps that only a fleet has.

What one worker does, the others know; every log is there; a vault moves in and out; nothing is left.
"""

from __future__ import annotations

import json
import signal

from demo.chapters.http_server import ask, connected, denied
from demo.chapters.recall import make_a_vault
from demo.fleet_stage import Fleet, Shown, fleet_of, made, moved, place_of
from demo.stage import Stage
from demo.talk import TRIP
from strongroom.cli.demo_stage import answered, expect

_FIRST, _SECOND, _THIRD = "worker-1", "worker-2", "worker-3"
_ADMIN, _GUEST = "admin.cap", "guest-of-the-fleet.cap"
_STOLEN = "stolen.json"


def a_vault_is_made_in_the_bucket(stage: Stage) -> Shown:
    fleet = made(stage)
    make_a_vault(fleet)
    stage.fleet = fleet
    return (f"strongroom init {fleet.vault}",)


# What one does, the others know.


def two_workers_serve_it(fleet: Fleet) -> Shown:
    fleet.answer("cap", "mint", "--class", "admin", "--scope", "local/", "--ops", "revoke,audit", "--namespaces",
                 "personal,family,work,travel", "--ttl", "10m", "--out", fleet.file(_ADMIN))  # fmt: skip
    for name in (_FIRST, _SECOND):
        fleet.begin(name)
    urls = [_joined(fleet, name) for name in (_FIRST, _SECOND)]
    for done in fleet.at_once(*(("doctor", "--url", url, "--cap-file", fleet.owner_cap) for url in urls)):
        expect("doctor to find it well", True, answered(done)["ok"])
    return tuple(f"strongroom serve --store {fleet.vault}: {url}" for url in urls)


def _joined(fleet: Fleet, name: str) -> str:
    """A worker that listens, and the name of its log, which its signed checkpoint tells."""
    url = fleet.joined(name)
    signed = fleet.visit("call", url, fleet.file(_ADMIN), "SignCheckpoint", "{}")
    fleet.logs.append(str(signed["checkpoint"]).partition("\n")[0].rpartition("/")[2])
    return url


def what_one_takes_the_other_has(fleet: Fleet) -> None:
    """In both directions, with the very next call."""
    for text, here, there in (
        ("the roof is mended in June", fleet.url, fleet.other_url),
        ("the chimney is swept in July", fleet.other_url, fleet.url),
    ):
        cap = ("--cap-file", fleet.owner_cap)
        line = fleet.answer("put", text, "--namespace", "family", "--url", here, *cap)["lines"][0]["id"]
        hits = fleet.answer("get", text, "--namespace", "family", "--url", there, *cap)["hits"]
        expect("it first, under its id", (line, text), (hits[0]["id"], hits[0]["text"]) if hits else None)


def revoked_here_is_refused_there(fleet: Fleet) -> None:
    """A holder is connected to the one worker; whoever has an admin cap revokes at the other."""
    cap = fleet.file(_GUEST)
    minted = fleet.answer("cap", "mint", "--ops", "get", "--namespaces", "travel", "--ttl", "10m", "--out", cap)
    client = connected(fleet, cap)
    expect("it to recall before", True, TRIP in [hit["text"] for hit in ask(client, "get", query="Chengdu")])
    fleet.visit("call", fleet.other_url, fleet.file(_ADMIN), "Revoke", json.dumps({"link": minted["cap"]["links"][0]}))
    denied("cap_revoked", client, "get", query="Chengdu")
    client.end()


def a_killed_workers_line_is_kept(fleet: Fleet) -> None:
    """kill -9 right after the acknowledgement: the others have it at once, and so has one that starts then."""
    client = connected(fleet, fleet.owner_cap)
    text = "the ladder is with Oskar"
    line = ask(client, "put", text=text, namespace="family")["id"]
    expect("the worker killed", -signal.SIGKILL, fleet.partners[_FIRST].end(signal.SIGKILL))
    fleet.left(_FIRST)
    client.end()
    (found,) = fleet.answer("get", "--id", line)["hits"]
    expect("it at the other", text, found["text"])
    fleet.begin(_THIRD)
    _joined(fleet, _THIRD)
    lists = fleet.at_once(*(("list", "--all", "--namespace", "family"),) * 2)
    ids = [[one["id"] for one in answered(done)["lines"]].count(line) for done in lists]
    expect("it once at each of two", [1, 1], ids)


def workers_stop_in_order(fleet: Fleet) -> None:
    for name in list(fleet.workers):
        expect("exit 0 after SIGTERM", 0, fleet.partners[name].end(signal.SIGTERM))
        fleet.left(name)
        events = [json.loads(line)["event"] for line in (fleet.scratch / f"{name}.log").read_text().splitlines()]
        expect("its log to end with it", "stopped", events[-1])


# The record.


def every_log_verifies(fleet: Fleet) -> Shown:
    """Of every process that ever wrote: the workers, also the killed one, and the owner's commands."""
    found = fleet.answer("audit", "verify")
    expect("no finding", (True, []), (found["ok"], found["findings"]))
    names = fleet.attack("names", fleet.vault)
    roster = {name.removeprefix("roster/") for name in names if name.startswith("roster/")}
    expect("every worker in the roster", set(), set(fleet.logs) - roster)
    expect("a log of each in it", roster, {name.split("/")[1] for name in names if name.startswith("logs/")})
    return (f"{found['size']} entries of {len(roster)} processes and {found['objects']} objects agree",)


def a_tampered_log_is_found(fleet: Fleet) -> Shown:
    """The log of the killed worker is taken away, edited, and taken away with its entry in the roster."""
    worker = fleet.logs[0]
    log = f"logs/{worker}/*"
    return (
        _found(fleet, "log_missing", "steal", log),
        _found(fleet, "log_edited", "rewrite", log, '"get"', '"put"'),
        _found(fleet, "log_rolled_back", "steal", log, f"roster/{worker}"),
    )


def _found(fleet: Fleet, flaw: str, verb: str, *what: str) -> str:
    """Verify finds this, and perhaps more, while it is so; afterwards all is as before."""
    taken = fleet.file(_STOLEN)
    expect("something to be changed", True, fleet.attack(verb, fleet.vault, taken, *what) > 0)
    try:
        found = fleet.strongroom("audit", "verify")
    finally:
        fleet.attack("restore", fleet.vault, taken)
    flaws = sorted({one["flaw"] for one in found.json["findings"]})
    expect(f"verify to name it, {flaw}, exit 6", (6, [flaw]), (found.code, [one for one in flaws if one == flaw]))
    return f"audit verify: {', '.join(flaws)}"


# In and out.


def the_laptops_vault_moves_there_and_back(stage: Stage) -> Shown:
    """The same lines under the same ids, the same caps, and the log with them."""
    fleet_of(stage)
    room, there, laptop = moved(stage), f"{place_of(stage)}/moved", stage.answer("list", "--all")["lines"]
    back = room.file("back")
    for source, target in ((stage.vault, there), (there, back)):
        expect("nothing there before", False, room.answer("migrate", source, target)["already"])
        listed, by_id, verified = room.at_once(
            ("list", "--all", "--vault", target),
            ("get", "--id", stage.trip, "--vault", target, "--cap-file", stage.file("travel.cap")),
            ("audit", "verify", "--vault", target),
        )
        expect("the same lines under the same ids", laptop, answered(listed)["lines"])
        expect("the trip, with the cap of before", [TRIP], [hit["text"] for hit in answered(by_id)["hits"]])
        expect("no finding", [], answered(verified)["findings"])
    return (f"{len(laptop)} lines",)


def nothing_is_left(stage: Stage) -> Shown:
    """The bucket is as it was, unless what is there is to be kept."""
    fleet, place = fleet_of(stage), place_of(stage)
    if stage.keep:
        return (f"kept: {place}",)
    fleet.play("clear", place)
    expect("nothing below it", [], fleet.play("below", place))
    return (f"removed: {place}",)
