"""Ceph on loopback: three mons, three OSDs that hold three copies, two gateways. Any one of them can be killed.

Small on purpose: no manager, no authentication between its own parts, 8 placement groups a pool. It syncs before it
answers, as a large one does.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.s3 import install
from tests.s3.daemons import Daemons, NotStarted, free_ports
from tests.s3.servers import Login, Server, answers

MONS, OSDS, GATEWAYS = 3, 3, 2
_PATIENCE = 90


@dataclass(frozen=True, slots=True)
class Ceph(Server):
    """A cluster that runs."""

    def kill(self, part: str) -> None:
        """SIGKILL for one of `mon.0` to `mon.2`, `osd.0` to `osd.2`, `gateway.0` or `gateway.1`."""
        self.daemons.kill(part)

    def restart(self, part: str) -> None:
        """Start a killed part again, and wait until it takes part."""
        self.daemons.restart(part)
        _wait(self.daemons, part, self.endpoints)


def start(daemons: Daemons) -> Ceph:
    """A fresh cluster."""
    install.ceph()
    ports = free_ports(2 * MONS + GATEWAYS)
    mons = [_mon_address(ports[2 * at], ports[2 * at + 1]) for at in range(MONS)]
    endpoints = [f"http://127.0.0.1:{port}" for port in ports[2 * MONS :]]
    login = Login()
    fsid = str(uuid.uuid4())
    (daemons.place / "ceph.conf").write_text(_config(daemons.place, fsid, mons))
    _start_mons(daemons, fsid, mons)
    _start_osds(daemons)
    _make_user(daemons, login)
    _start_gateways(daemons, endpoints)
    return Ceph("Ceph", endpoints, quoted=_wants_quotes(daemons), login=login, daemons=daemons)


def _mon_address(new: int, old: int) -> str:
    return f"[v2:127.0.0.1:{new},v1:127.0.0.1:{old}]"


def _config(place: Path, fsid: str, mons: list[str]) -> str:
    options = {
        "fsid": fsid,
        "mon_host": ",".join(mons),
        "mon_initial_members": ",".join(str(at) for at in range(MONS)),
        **{f"auth_{whose}_required": "none" for whose in ("cluster", "service", "client")},
        **{f"ms_mon_{whose}_mode": "crc" for whose in ("cluster", "service", "client")},
        "ms_bind_ipv6": "false",
        "public_addr": "127.0.0.1",
        "cluster_addr": "127.0.0.1",
        "run_dir": place,
        "admin_socket": place / "$name.asok",
        "log_file": place / "$name.log",
        "mon_cluster_log_file": place / "cluster.log",
        "mon_data": place / "mon.$id",
        "osd_data": place / "osd.$id",
        "pid_file": "",
        **{f"debug_{part}": "0/0" for part in ("ms", "rgw", "osd", "rocksdb", "bluestore", "mon", "paxos")},
        "paxos_propose_interval": 0.05,
        "paxos_min_wait": 0.01,
        "mon_max_pg_per_osd": 1000,
        "osd_pool_default_size": OSDS,
        "osd_pool_default_min_size": 2,
        "osd_pool_default_pg_num": 8,
        "osd_pool_default_pg_autoscale_mode": "off",
        "osd_crush_chooseleaf_type": 0,
        "osd_objectstore": "bluestore",
        "bluestore_block_size": 20 << 30,
        "bluestore_cache_autotune": "false",
        "bluestore_cache_size": 128 << 20,
        "osd_heartbeat_grace": 8,
        "osd_heartbeat_interval": 2,
        "rgw_run_sync_thread": "false",
    }
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())


def _start_mons(daemons: Daemons, fsid: str, mons: list[str]) -> None:
    monmap = str(daemons.place / "monmap")
    named = [word for at, address in enumerate(mons) for word in ("--addv", str(at), address)]
    _run(daemons, "monmaptool", "--create", "--fsid", fsid, *named, monmap)
    for at, address in enumerate(mons):
        _run(daemons, "ceph-mon", "--mkfs", "-i", str(at), "--monmap", monmap)
        _start(daemons, f"mon.{at}", "ceph-mon", "-f", "-i", str(at), "--public-addr", address)
    _run(daemons, "ceph", "mon", "stat")


def _start_osds(daemons: Daemons) -> None:
    for at in range(OSDS):
        name = str(uuid.uuid4())
        _run(daemons, "ceph", "osd", "new", name, str(at))
        (daemons.place / f"osd.{at}").mkdir()
        _run(daemons, "ceph-osd", "--mkfs", "-i", str(at), "--osd-uuid", name)
        _start(daemons, f"osd.{at}", "ceph-osd", "-f", "-i", str(at))
    for at in range(OSDS):
        _wait(daemons, f"osd.{at}", [])


def _make_user(daemons: Daemons, login: Login) -> None:
    whose = ["--uid=tests", "--display-name=tests", f"--access-key={login.key}", f"--secret={login.secret}"]
    _run(daemons, "radosgw-admin", "user", "create", *whose)


def _start_gateways(daemons: Daemons, endpoints: list[str]) -> None:
    """Only once the OSDs are active: a gateway that finds none waits up to 15 s before it asks again."""
    for at, endpoint in enumerate(endpoints):
        # Without nodelay each small answer waits 40 ms for an acknowledgement.
        front = f"beast endpoint={endpoint.removeprefix('http://')} tcp_nodelay=1"
        _start(daemons, f"gateway.{at}", "radosgw", "-f", "-n", f"client.gateway{at}", "--rgw-frontends", front)
    for at in range(GATEWAYS):
        _wait(daemons, f"gateway.{at}", endpoints)


def _wait(daemons: Daemons, part: str, endpoints: Sequence[str]) -> None:
    kind, _, at = part.partition(".")
    if kind == "gateway":
        daemons.wait(part, lambda: answers(endpoints[int(at)]))
    elif kind == "osd":
        daemons.wait(part, lambda: _is_active(daemons, part))
    else:
        daemons.wait(part, lambda: _is_in_quorum(daemons, part))


def _wants_quotes(daemons: Daemons) -> bool:
    """Up to version 18 it compares an etag of If-Match with its quotes, and finds no object equal."""
    version = _run(daemons, "radosgw", "--version").split()[2]
    return int(version.partition(".")[0]) > 18


def _start(daemons: Daemons, name: str, *command: str) -> None:
    daemons.start(name, command, _environment(daemons))


def _run(daemons: Daemons, *command: str) -> str:
    """Run a command to its end. Raises NotStarted with what it said, and without its arguments: one is a secret."""
    try:
        done = subprocess.run(
            command, env=_environment(daemons), cwd=daemons.place, capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NotStarted(f"{command[0]} took too long") from None
    if done.returncode:
        raise NotStarted(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def _environment(daemons: Daemons) -> dict[str, str]:
    return {**os.environ, "CEPH_CONF": str(daemons.place / "ceph.conf")}


def _is_active(daemons: Daemons, part: str) -> bool:
    return _asked(daemons, part, "status") == "active"


def _is_in_quorum(daemons: Daemons, part: str) -> bool:
    return _asked(daemons, part, "mon_status") in ("leader", "peon")


def _asked(daemons: Daemons, part: str, question: str) -> str:
    """The state that a part says it is in, through its own socket; empty while it does not answer."""
    socket = str(daemons.place / f"{part}.asok")
    asked = subprocess.run(["ceph", "daemon", socket, question], env=_environment(daemons), capture_output=True)
    state = json.loads(asked.stdout).get("state", "") if asked.returncode == 0 else ""
    return str(state)
