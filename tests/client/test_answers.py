"""Answers that are wrong, foreign or hostile, and what a client never does with a cap."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import api, errors
from strongroom.client import http_exchange
from strongroom.model import LineId, Namespace, Receipt
from tests.client.conftest import Reach, Start
from tests.client.peer import Reply, always, answer, given, hang_up, refuse

TEXT = "a text of mine"
DEEP = b'{"lines":[],"a":' + b"[" * 100_000


@pytest.mark.requirement("client-answers")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "server_unavailable"),
        (b"<html>hello</html>", "server_unavailable"),
        (b"{", "server_unavailable"),
        (b"\xff\xfe", "server_unavailable"),
        (DEEP, "server_unavailable"),
        (b"null", "server_defect"),
        (b"[]", "server_defect"),
        (b'{"lines": 5}', "server_defect"),
        (b'{"lines": [{}]}', "server_defect"),
        (b'{"a":1}', "server_defect"),
    ],
)
def test_success_that_cannot_be_read_is_a_defect_unless_it_is_no_json_and_so_nobody_of_ours(
    body: bytes, reason: str, start: Start, reach: Reach
) -> None:
    peer = start(answer(200, body))
    with pytest.raises(errors.StrongroomError) as refused:
        reach(peer).get("x")
    assert (refused.value.reason, len(peer.seen)) == (reason, 1)


@pytest.mark.requirement("client-answers")
def test_receipts_of_other_lines_are_a_defect(start: Start, reach: Reach) -> None:
    other = api.Receipts((Receipt(LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"), Namespace("work")),))
    for receipts in (api.Receipts(()), other):
        with pytest.raises(errors.ServerDefect):
            reach(start(given(receipts))).put("x", namespace="work")


@pytest.mark.requirement("client-answers")
@pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 404, 418, 500, 501])
def test_answer_that_is_nobody_of_ours_is_server_unavailable_and_asks_about_the_url(
    status: int, start: Start, reach: Reach
) -> None:
    body = b"" if status == 204 else b"<html>who are you?</html>"
    peer = start(answer(status, body))
    with pytest.raises(errors.ServerUnavailable) as refused:
        reach(peer).get("x")
    assert "URL" in refused.value.hint
    assert len(peer.seen) == 1, "asking again would help nobody"


def test_reason_that_this_version_does_not_know_is_a_defect(start: Start, reach: Reach) -> None:
    refusal = api.Refusal("denied", "reason_of_tomorrow", "no", "later")
    with pytest.raises(errors.ServerDefect):
        reach(start(answer(403, msgspec.json.encode(refusal)))).get("x")


@pytest.mark.requirement("client-cap-stays")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(status: int, start: Start, reach: Reach) -> None:
    elsewhere = start()
    peer = start(answer(status, b"", Location=elsewhere.url + "/v1/memory/get"))
    with pytest.raises(errors.ServerUnavailable):
        reach(peer).get("x")
    assert elsewhere.seen == []


@pytest.mark.requirement("client-cap-stays")
def test_no_cookie_is_kept(start: Start, reach: Reach) -> None:
    peer = start(answer(200, b'{"lines":[]}', Set_Cookie="a=b; Path=/"))
    memory = reach(peer)
    memory.get("x")
    memory.get("x")
    assert all("cookie" not in seen.headers for seen in peer.seen)


@pytest.mark.requirement("client-cap-stays")
def test_proxies_and_passwords_of_the_environment_are_not_used(
    start: Start, reach: Reach, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy = start()
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password eve\n")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv("NETRC", str(netrc))
    peer = start()
    reach(peer).get("x")
    assert proxy.seen == []
    assert [seen.token for seen in peer.seen] == [reach.cap]


@pytest.mark.requirement("client-answers")
def test_answer_larger_than_any_answer_is_not_read_to_its_end(
    start: Start, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "ANSWER_BYTES", 1000)
    endless = always(Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b" " * 2000, wait=True))
    with pytest.raises(errors.ServerUnavailable):
        reach(start(endless)).get("x")


@pytest.mark.requirement("client-answers")
def test_compressed_answer_is_neither_asked_for_nor_unpacked(start: Start, reach: Reach) -> None:
    peer = start(answer(200, b'{"lines":[]}', Content_Encoding="gzip"))
    assert reach(peer).get("x") == []
    assert peer.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.requirement("client-answers")
@pytest.mark.parametrize(
    "data", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 64, b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n"]
)
def test_server_that_speaks_no_http_is_server_unavailable(data: bytes, start: Start, reach: Reach) -> None:
    with pytest.raises(errors.ServerUnavailable):
        reach(start(then=always(Reply(data, hang_up=True)))).get("x")


@pytest.mark.requirement("client-secrets")
@pytest.mark.parametrize(
    "step",
    [hang_up, refuse("cap_expired"), answer(502, b"<html>"), answer(200, b"garbage"), answer(302, b""), None],
)
def test_no_cap_shows_in_errors_reprs_or_logs(
    step: object, start: Start, reach: Reach, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    peer = start(then=step)
    memory = reach(peer)
    shown = [repr(memory), repr(memory._door), repr(vars(memory)), repr(vars(memory._door))]
    with pytest.raises(errors.StrongroomError) as refused:
        memory.put(TEXT, namespace="nowhere")
    assert refused.value.__context__ is None
    shown += [*traceback.format_exception(refused.value), repr(refused.value), repr(vars(refused.value))]
    told = "\n".join([*shown, *(record.getMessage() for record in caplog.records)])
    assert peer.seen[0].token == reach.cap
    for part in (str(reach.cap), *str(reach.cap).split("~"), TEXT, "Bearer"):
        assert part not in told


@pytest.mark.requirement("client-secrets")
@pytest.mark.parametrize("bad", ["", None, 5, b"cap", "a b", "a\r\nX: y", "é", "x" * 9000, "\x00"])
def test_cap_that_no_header_can_carry_is_refused_unsent_as_a_vault_refuses_it(bad: object, start: Start) -> None:
    peer = start()
    memory = strongroom.connect(peer.url, bad)  # type: ignore[arg-type]
    with pytest.raises(errors.Denied) as refused:
        memory.put(b"whatever comes with it")  # type: ignore[arg-type]
    assert refused.value.reason == ("cap_malformed" if bad else "cap_missing")
    assert peer.seen == []


@pytest.mark.requirement("client-secrets")
@pytest.mark.parametrize("name", ["agent.cap", "/run/agent.cap", "caps/agent", "agent", "~/agent.cap\n"])
def test_name_of_a_caps_file_is_refused_unsent_with_what_to_pass_instead(name: str, start: Start) -> None:
    peer = start()
    with strongroom.connect(peer.url, name) as memory, pytest.raises(errors.CapMalformed) as refused:
        memory.get("x")
    assert "file" in refused.value.hint
    assert peer.seen == []


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {}\t"])
def test_cap_as_its_file_holds_it_is_taken_and_sent_without_what_surrounds_it(
    around: str, start: Start, reach: Reach
) -> None:
    peer = start()
    assert reach(peer, around.format(reach.cap)).get("x") == []
    assert [seen.token for seen in peer.seen] == [reach.cap]


def test_memory_that_was_closed_is_server_unavailable(start: Start, reach: Reach) -> None:
    peer = start()
    with reach(peer) as memory:
        memory.get("x")
    memory.close()
    with pytest.raises(errors.ServerUnavailable):
        memory.get("x")
    assert len(peer.seen) == 1
