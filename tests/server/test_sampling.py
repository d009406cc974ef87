"""What refused requests leave in the two logs: lines and entries have a bound, and what is left out is counted."""

from __future__ import annotations

import json
import logging

import pytest

from strongroom import Token, Vault
from strongroom.memory.refusal_log import EACH
from strongroom.server import json_log
from strongroom.server.json_log import _BURST_SECONDS, LINES_A_SECOND, Sample
from tests.server.conftest import StartProcess, StartThread
from tests.server.talking import request
from tests.server.test_watching import figures

GET = "/v1/memory/get"
MOST = LINES_A_SECOND * _BURST_SECONDS + 1


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [vars(record)["fields"] for record in caplog.records if record.getMessage() == event]


@pytest.mark.requirement("server-log-bound")
def test_lines_of_one_outcome_have_a_rate_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, json_log.LOGGER.name)
    sample = Sample()
    taken = sum(sample.takes("unknown_route", now=100 + number / 1000) for number in range(10_000))
    assert taken <= MOST + LINES_A_SECOND * 10
    assert sample.takes("cap_revoked", now=100)
    sample.tell()
    sample.tell()
    assert told(caplog, "requests not logged") == [{"outcome": "unknown_route", "count": 10_000 - taken}]
    assert sample.suppressed == 10_000 - taken


@pytest.mark.requirement("server-log-bound", "server-logs")
@pytest.mark.parametrize("log_requests", [True, False])
def test_flood_without_a_cap_does_not_fill_the_servers_log(
    on_disk: Token, start_process: StartProcess, log_requests: bool
) -> None:
    server = start_process(log_requests=log_requests)
    kinds = (
        request("GET", "/nowhere"),
        request("GET", "/healthz", headers={"Host": "evil.example"}),
        request("POST", GET, "garbage", {}),
        request("GET", "/healthz"),
    )
    with server.connect() as connection:
        for _ in range(500):
            connection.send(b"".join(kinds))
            for _ in kinds:
                connection.answer()
    assert server.ask("POST", GET, on_disk, {"namespaces": ["nowhere"]}).status == 403
    suppressed = figures(server)["strongroom_log_lines_suppressed_total", ()]
    server.stop()
    events = server.events()
    lines = [one for one in events if one["event"] == "request"]
    counts = [one for one in events if one["event"] == "requests not logged"]
    assert len(events) < 1000
    assert [one["outcome"] for one in lines].count("cap_namespace_denied") == 1
    total = len(lines) + sum(one["count"] for one in counts)
    assert total == (2002 if log_requests else 1501)
    # The look at the figures is a request, too.
    assert 0 < suppressed <= sum(one["count"] for one in counts) <= suppressed + 1


@pytest.mark.requirement("audit-refusals", "server-audit")
def test_revoked_cap_does_not_fill_the_audit_log(start: StartThread, vault: Vault) -> None:
    running = start()
    token = vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=3600)
    vault.revoke(token)
    size = vault.audit.size()
    with running.connect() as connection:
        for _ in range(EACH + 200):
            connection.send(request("POST", GET, token, {}))
            assert connection.answer().outcome == (401, "cap_revoked")
    assert vault.audit.size() - size == EACH
    found = {name: value for (name, labels), value in figures(running).items() if not labels}
    assert found["strongroom_refusals_counted_total"] == 200
    assert found["strongroom_refusals_pending"] == 200
    vault.sum_up_refusals(wholly=True)
    assert [entry.count for _, entry in vault.audit.entries(size + EACH) if entry is not None] == [200]
    assert vault.audit.verify().ok


@pytest.mark.requirement("server-log-bound")
def test_line_that_counts_is_json_like_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    json_log.to_stderr()
    sample = Sample()
    for _ in range(MOST + 5):
        sample.takes("unknown_route", now=0)
    sample.tell()
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "requests not logged"
