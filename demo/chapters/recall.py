"""The first steps: a vault, a year of talk with a trip in it, and recall in new processes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from demo import talk
from demo.stage import Stage
from strongroom.cli.demo_stage import Unexpected, answered, expect
from strongroom.model import NewLine

PROFILES = {"personal": "Call me Alice. No peanuts.", "travel": "Window seat, one bag."}


def make_a_vault(stage: Stage) -> None:
    made = stage.answer("init", stage.vault)
    stage.keys = Path(made["keys"])
    expect("a vault in the demonstration's own place", stage.vault, made["vault"])
    expect("keys there too", stage.scratch / "keys", stage.keys.parent)
    expect("no key inside the vault", [], [name for name in stage.attack("names", stage.vault) if "key" in name])


def doctor_is_green(stage: Stage) -> None:
    found = stage.answer("doctor", "--store", stage.vault)
    bad = [f"{check['name']}: {check['message']}" for check in found["checks"] if check["state"] == "fail"]
    expect("no check fails", (True, []), (found["ok"], bad))


def store_a_year(stage: Stage) -> None:
    """The ordinary lines before session 1, session 1 itself, and the ordinary lines after it."""
    said = talk.said(stage.now)
    lines = talk.ordinary_lines(stage.now)
    before = [line for line in lines if line.time is not None and line.time < said]
    after = lines[len(before) :]
    expect("500 different lines on both sides of session 1", (500, True), (len(set(lines)), bool(before and after)))
    _store(stage, before)
    trip, allergy = stage.at_once(_put(stage, talk.TRIP, "travel"), _put(stage, talk.ALLERGY, "personal"))
    stage.trip, stage.allergy = answered(trip)["lines"][0]["id"], answered(allergy)["lines"][0]["id"]
    _store(stage, after)
    for done in stage.at_once(*(("profile", "set", namespace, text) for namespace, text in PROFILES.items())):
        answered(done)


def _store(stage: Stage, lines: list[NewLine]) -> None:
    stdin = msgspec.json.encode(lines).decode()
    expect(f"{len(lines)} lines kept", len(lines), stage.play("store", stage.owner_cap, stdin=stdin))


def _put(stage: Stage, text: str, namespace: str) -> tuple[str, ...]:
    time = talk.said(stage.now).isoformat()
    return ("put", text, "--namespace", namespace, "--session", "one", "--author", talk.AUTHOR, "--time", time)


def session_two_recalls_the_trip(stage: Stage) -> None:
    _trip_comes_first(stage, talk.QUESTION)


def a_question_in_chinese_recalls_it_too(stage: Stage) -> None:
    _trip_comes_first(stage, talk.QUESTION_IN_CHINESE)


def _trip_comes_first(stage: Stage, question: str, cap: str = "") -> None:
    hits = stage.answer("get", question, "--now", stage.now.isoformat(), cap=cap)["hits"]
    if not hits or hits[0]["text"] != talk.TRIP:
        raise Unexpected(f"{talk.TRIP!r} first", [hit["text"] for hit in hits][:2] or "nothing")
    expect("the trip's own line", (stage.trip, "travel"), (hits[0]["id"], hits[0]["namespace"]))


def the_owner_sees_the_allergy(stage: Stage) -> None:
    """Without this, the denials that follow would show nothing."""
    asked, by_id, shown = stage.at_once(
        ("get", "what am I allergic to?"), ("get", "--id", stage.allergy), ("snapshot",)
    )
    expect("the allergy first", [talk.ALLERGY], [hit["text"] for hit in answered(asked)["hits"]][:1])
    expect("the allergy by its id", [talk.ALLERGY], [hit["text"] for hit in answered(by_id)["hits"]])
    expect("both profiles", PROFILES, {one["namespace"]: one["text"] for one in answered(shown)["profiles"]})


def a_narrowed_cap_sees_travel_only(stage: Stage) -> None:
    stage.answer("cap", "attenuate", "--namespaces", "travel", "--ops", "get,list,snapshot,profile,put",
                 "--ttl", "10m", "--out", stage.file("travel.cap"))  # fmt: skip
    _trip_comes_first(stage, talk.QUESTION, cap="travel.cap")
    asked, listed, shown, profile = stage.at_once(
        ("get", "what am I allergic to? peanuts", "-k", "20"),
        ("list", "--all"),
        ("snapshot",),
        ("profile", "show"),
        cap="travel.cap",
    )
    found = {hit["namespace"] for hit in answered(asked)["hits"]}
    expect("nothing but travel by get", set(), found - {"travel"})
    lines = answered(listed)["lines"]
    expect("travel lines alone by list", ({"travel"}, 301), ({line["namespace"] for line in lines}, len(lines)))
    expect("the travel profile alone", ["travel"], [one["namespace"] for one in answered(shown)["profiles"]])
    expect("the travel profile", PROFILES["travel"], answered(profile)["text"])
