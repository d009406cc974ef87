"""Run a command beside a real S3 server: `python -m harness.beside_seaweedfs COMMAND...`, from the root of a checkout.

SeaweedFS runs on loopback, from `.cache`, in a scratch directory, as for the tests. The command gets its address and
its login by the environment, and `--store s3://bucket/demo` as its last argument. This ends as the command ends, and
the server with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.s3 import servers
from tests.s3.install import CannotInstall
from tests.s3.servers import BUCKET, Server


def main(command: Sequence[str]) -> int:
    try:
        with servers.running("seaweedfs") as server:
            return _ended([*command, "--store", f"s3://{BUCKET}/demo"], _environment(server))
    except CannotInstall as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _environment(server: Server) -> dict[str, str]:
    """No account of whoever runs this is mixed with the server's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, **{name: value for name, value in server.environment().items() if name.startswith("AWS_")}}


def _ended(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """How the command ended. Signals are the command's: it removes what is its own, and only then the server goes."""
    process = subprocess.Popen(command, env=environment)  # noqa: S603 - what whoever runs this asks for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
