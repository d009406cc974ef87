"""The steps of the gate: what a narrowed cap is denied, and what becomes of caps that were tampered with."""

from __future__ import annotations

from demo import talk
from demo.stage import Stage
from strongroom.cli.demo_stage import Done, answered, expect, refused

_EARLY = "cap_signature_invalid"


def personal_is_denied_by_name(stage: Stage) -> None:
    attempts = stage.at_once(
        ("get", "peanuts", "--namespace", "personal"),
        ("get", "--id", stage.allergy, "--namespace", "personal"),
        ("list", "--namespace", "personal"),
        ("snapshot", "--namespace", "personal"),
        ("profile", "show", "personal"),
        ("get", "peanuts", "--namespace", "no-such-namespace"),
        cap="travel.cap",
    )
    refused("cap_namespace_denied", *attempts)
    expect("the same words, whether or not it exists", 1, len({attempt.err for attempt in attempts}))


def an_id_alone_is_not_found(stage: Stage) -> None:
    refused("not_found", stage.strongroom("get", "--id", stage.allergy, cap="travel.cap"))
    hits = stage.answer("get", "--id", stage.trip, cap="travel.cap")["hits"]
    expect("the trip by its id", [talk.TRIP], [hit["text"] for hit in hits])


def a_forged_cap_is_refused(stage: Stage) -> None:
    stage.attack("flip", stage.file("travel.cap"), stage.file("forged.cap"))
    refused(_EARLY, _use(stage, "forged.cap"))


def a_widened_cap_is_refused(stage: Stage) -> None:
    stage.attack("widen", stage.file("travel.cap"), stage.file("widened.cap"))
    refused(_EARLY, _use(stage, "widened.cap"))


def a_stripped_cap_is_refused(stage: Stage) -> None:
    stage.attack("strip", stage.file("travel.cap"), stage.file("bare.cap"), stage.file("stripped.cap"))
    refused("cap_holder_proof", *_use_all(stage, "bare.cap", "stripped.cap"))


def an_expired_cap_is_refused(stage: Stage) -> None:
    stage.play("backdate", stage.file("expired.cap"))
    refused("cap_expired", _use(stage, "expired.cap"))


def a_revoked_cap_is_refused(stage: Stage) -> None:
    stage.answer("cap", "mint", "--ops", "get", "--namespaces", "travel", "--ttl", "10m", "--label", "helper",
                 "--out", stage.file("helper.cap"))  # fmt: skip
    answered(_use(stage, "helper.cap"))
    stage.answer("cap", "revoke", cap="helper.cap")
    refused("cap_revoked", _use(stage, "helper.cap"))


def attenuation_cannot_widen(stage: Stage) -> None:
    """A holder may write more into the next link; what counts is what every link allows."""
    stage.answer("cap", "attenuate", "--namespaces", "personal,travel", "--ops", "get,forget",
                 "--out", stage.file("wider.cap"), cap="travel.cap")  # fmt: skip
    read, forgotten = stage.at_once(("get", "peanuts", "-n", "personal"), ("forget", stage.trip), cap="wider.cap")
    refused("cap_namespace_denied", read)
    refused("cap_op_mismatch", forgotten)


def a_credentials_cap_is_refused(stage: Stage) -> None:
    stage.answer("cap", "mint", "--class", "credentials", "--ops", "put", "--namespaces", "travel", "--ttl", "5m",
                 "--out", stage.file("credentials.cap"))  # fmt: skip
    attempt = stage.strongroom("put", "a password", "--namespace", "travel", cap="credentials.cap")
    refused("cap_data_class_mismatch", attempt)


def the_log_says_who_read_what(stage: Stage) -> None:
    """The denied read is on record with its cap and namespace, and the reads of the trip with the line's id."""
    denied, read = stage.at_once(("audit", "show", "--denied"), ("audit", "show", "--line", stage.trip))
    found = [
        entry
        for entry in answered(denied)["entries"]
        if (entry["op"], entry["reason"], entry["namespaces"]) == ("get", "cap_namespace_denied", ["personal"])
    ]
    expect("the denied reads of personal: two by travel.cap, one by wider.cap", 3, len(found))
    whose = {(entry["decision"], entry["actor"], entry["cap"]) for entry in found}
    expect(
        "whose memory and which cap", {("deny", "local/owner", "owner +1"), ("deny", "local/owner", "owner +2")}, whose
    )
    stage.denied_entry = found[0]["index"]
    ways = {(entry["op"], entry["cap"]) for entry in answered(read)["entries"]}
    reads = {("get", "owner"), ("get", "owner +1"), ("get", "helper")}
    expect("the trip put by its owner and read by three caps", {("put", "owner"), *reads}, ways)


def _use(stage: Stage, cap: str) -> Done:
    return stage.strongroom("get", "where is the trip?", cap=cap)


def _use_all(stage: Stage, *caps: str) -> list[Done]:
    return stage.at_once(*(("get", "where is the trip?", "--cap-file", stage.file(cap)) for cap in caps))
