"""The alert rules and the dashboard in deploy/monitoring: every figure they ask for is one that a real server gives."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import strongroom
from strongroom import FileKeys, Token, Vault, api, errors
from strongroom.cli.app import VERBS
from strongroom.vault.ended_sweep import EndedSweep
from tests.conftest import Clock
from tests.memory.test_replace import after
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import request

FILES = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = FILES / "strongroom.rules.yml"
DASHBOARD: dict[str, Any] = json.loads((FILES / "grafana.json").read_text())
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
ASKED = [rule["expr"] for rule in ALERTS] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
_FIGURE = re.compile(r"strongroom_\w+")
_LABEL = re.compile(r'(\w+)(=~?)"([^"]*)"')
Samples = set[tuple[str, tuple[tuple[str, str], ...]]]


@pytest.fixture
def samples(start: StartThread, vault: Vault, cap: Token, tmp_path: Path) -> Samples:
    """The samples of a server that has answered, of a vault of which there is a backup."""
    strongroom.backup(tmp_path / "vault", tmp_path / "copy", keys=FileKeys(tmp_path / "keys"), now=vault._clerk.now)
    running = start()
    assert running.ask("POST", "/v1/memory/get", cap, {"query": "x"}).status == 200
    return {(name, labels) for name, labels in figures(running)}


def figures(running: Running) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = running.ask("GET", "/metrics").body.decode()
    found = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in found}


@pytest.mark.requirement("server-monitoring")
def test_every_figure_that_is_asked_for_is_one_that_the_server_gives(samples: Samples) -> None:
    there = {name for name, _ in samples}
    assert len(ASKED) > 20
    for expression in ASKED:
        assert set(_FIGURE.findall(expression)) <= there, expression


@pytest.mark.requirement("server-monitoring", "audit-unseen")
def test_figure_that_goes_missing_with_the_witness_or_the_backup_alarms_by_being_absent(
    start: StartThread, tmp_path: Path
) -> None:
    (tmp_path / "keys" / "checkpoint").unlink()
    there = {name for name, _ in figures(start())}
    missing = {name for rule in ALERTS for name in _FIGURE.findall(rule["expr"]) if name not in there}
    assert missing == {"strongroom_checkpoint_age_seconds", "strongroom_backup_age_seconds"}
    for name in missing:
        assert any(f"or absent({name})" in rule["expr"] for rule in ALERTS)


@pytest.mark.requirement("server-monitoring")
def test_every_figure_that_the_server_gives_is_on_the_dashboard(samples: Samples) -> None:
    shown = {name for panel in DASHBOARD["panels"] for one in panel["targets"] for name in _FIGURE.findall(one["expr"])}
    ours = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name, _ in samples if name.startswith("strongroom_")}
    assert ours - {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} == {"strongroom_shelves"}


@pytest.mark.requirement("server-monitoring")
def test_every_label_that_is_asked_for_has_a_value_that_can_come(samples: Samples) -> None:
    within = {value for _, labels in samples for name, value in labels if name == "within"}
    known = {"outcome": {"ok", *api.STATUS}, "within": within, "op": {"memory.get"}, "job": {"strongroom"}}
    for expression in ASKED:
        for label, _, values in _LABEL.findall(expression):
            assert set(values.split("|")) <= known[label], expression


@pytest.mark.requirement("server-monitoring")
def test_every_alert_says_what_it_means_and_which_command_helps() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["annotations"]["summary"].endswith(".")
        program, verb, *_ = rule["annotations"]["command"].split()
        assert program in ("systemctl", "journalctl") or verb in VERBS


@pytest.mark.requirement("server-monitoring")
def test_promtool_reads_the_rules_where_it_is_installed() -> None:
    """Beside the checks above, which need no Prometheus."""
    if promtool := shutil.which("promtool"):
        done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.requirement("server-metrics")
def test_caps_that_end_soon_are_counted_and_revoked_ones_are_not(
    start: StartThread, vault: Vault, clock: Clock
) -> None:
    for ttl in (1000, 100_000, 200_000, 690_000):
        vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=ttl)
    vault.revoke(vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=100_000))
    renewed = vault.mint(actor="local/bob", ops=["get", "renew"], namespaces=["work"], ttl=150_000)
    clock.move(90_000)
    vault.memory(renewed).renew()
    found = figures(start())
    assert found["strongroom_caps", ()] == 4, "neither one that is over nor one that was renewed"
    assert found["strongroom_cap_ends_seconds", ()] == 10_000
    assert [found["strongroom_caps_ending", (("within", within),)] for within in ("1d", "7d")] == [1, 1]
    assert ("strongroom_backup_age_seconds", ()) not in found
    assert found["strongroom_disk_bytes", ()] >= found["strongroom_disk_free_bytes", ()] > 0
    assert found["strongroom_store_bytes", ()] > 0


@pytest.mark.requirement("server-scrub")
def test_scrub_that_was_put_off_is_finished_by_the_server(
    start: StartThread, vault: Vault, cap: Token, tmp_path: Path
) -> None:
    memory = vault.memory(cap)
    line = memory.put("soon gone", namespace="work").id
    reader = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM objects").fetchall()
    assert memory.forget(ids=[line]).scrubbed is False
    assert vault.scrub_is_due()
    running = start(maintenance_seconds=0.02)
    assert figures(running)["strongroom_scrub_due", ()] == 1
    reader.execute("ROLLBACK")
    reader.close()
    while vault.scrub_is_due():  # pytest's own limit ends a test that hangs
        assert running.ask("GET", "/healthz").status == 200


@pytest.mark.requirement("expire-sweep")
def test_served_vault_forgets_what_has_ended_in_memories_that_nobody_opens(
    start: StartThread, vault: Vault, cap: Token, clock: Clock
) -> None:
    line = vault.memory(cap).put("soon gone", namespace="work", expires=after(clock, 60)).id
    clock.move(100)
    running = start(maintenance_seconds=0.02)
    while vault.ended.count(most=10).lines:  # pytest's own limit ends a test that hangs
        assert running.ask("GET", "/healthz").status == 200
    assert any(entry.op == "expire" and line in entry.lines for _, entry in vault.audit.entries() if entry)


@pytest.mark.requirement("expire-sweep")
def test_sweep_that_fails_is_tried_again(start: StartThread, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []

    def fail(_: EndedSweep, seconds: float) -> None:
        tries.append(seconds)
        raise errors.StoreUnavailable("out of reach")

    monkeypatch.setattr(EndedSweep, "forget_some", fail)
    running = start(maintenance_seconds=0.01)
    while len(tries) < 2:
        assert running.ask("GET", "/healthz").status == 200


@pytest.mark.requirement("server-scrub")
def test_scrub_that_was_put_off_is_known_to_the_next_process_and_done_when_it_closes(
    vault: Vault, cap: Token, tmp_path: Path
) -> None:
    memory = vault.memory(cap)
    line = memory.put("soon gone", namespace="work").id
    reader = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM objects").fetchall()
    assert memory.forget(ids=[line]).scrubbed is False
    vault.close()
    reader.close()
    with strongroom.open(tmp_path / "vault", keys=FileKeys(tmp_path / "keys")) as again:
        assert again.scrub_is_due()
    assert not (tmp_path / "vault" / "vault.scrub").exists()


@pytest.mark.requirement("server-ready", "server-connections")
def test_readiness_requests_at_once_share_one_check(
    start: StartThread, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    begun, go = threading.Event(), threading.Event()

    def look() -> None:
        looks.append(1)
        begun.set()
        assert go.wait(60)

    running = start()
    monkeypatch.setattr(vault, "check_ready", look)
    with ExitStack() as stack:
        connections = [stack.enter_context(running.connect()) for _ in range(20)]
        for connection in connections:
            connection.send(request("GET", "/readyz"))
        assert begun.wait(60)
        assert running.ask("GET", "/healthz").status == 200  # by now all twenty have been read
        go.set()
        assert [connection.answer().status for connection in connections] == [200] * 20
    assert len(looks) == 1
