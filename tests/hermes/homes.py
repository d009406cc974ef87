"""A Hermes installation's private surroundings: a home of its own, no network but loopback, and its interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-hermes" / "bin" / "python"
MISSING = "Hermes is not installed here: run `make .venv-hermes/.ready` first"
LOGGING_PROVIDER = Path(__file__).with_name("logging_provider")


@dataclass(frozen=True, slots=True)
class Home:
    """One directory with everything that a Hermes process may touch."""

    root: Path

    @property
    def hermes(self) -> Path:
        return self.root / "hermes"

    @property
    def work(self) -> Path:
        """Where processes start; nothing of ours is in it."""
        return self.root / "work"

    def environment(self, **more: str) -> dict[str, str]:
        """All of a process's environment: nothing is inherited but the search path for programs."""
        own = {
            "HOME": str(self.root / "user"),
            "HERMES_HOME": str(self.hermes),
            "TMPDIR": str(self.root / "tmp"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "NO_PROXY": "*",
            "SSL_CERT_DIR": str(self.work),  # no certificates: nothing here speaks TLS, and each turn reads them anew
        }
        return {**own, **more}


def make(where: Path, *, model_url: str, provider: str = "", plugins: Sequence[Path] = ()) -> Home:
    """A home whose configuration names the model server and the provider. Plugins are copied into it."""
    home = Home(where)
    for directory in (home.hermes / "plugins", home.work, where / "user", where / "tmp"):
        directory.mkdir(parents=True)
    for plugin in plugins:
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(plugin, home.hermes / "plugins" / plugin.name, ignore=skip)
    # JSON is YAML, and needs no library here.
    (home.hermes / "config.yaml").write_text(json.dumps(_config(model_url, provider), indent=1))
    return home


def _config(model_url: str, provider: str) -> dict[str, Any]:
    return {
        "model": {
            "default": "scripted",
            "provider": "custom",
            "base_url": model_url,
            "api_key": "local-dummy",
            "context_length": 131072,
        },
        "memory": {
            "provider": provider,
            "memory_enabled": True,
            "user_profile_enabled": True,
            "nudge_interval": 0,
        },
        "compression": {"enabled": True, "protect_first_n": 1, "protect_last_n": 2},
        "security": {"allow_lazy_installs": False, "tirith_enabled": False},
        "agent": {"environment_probe": False},  # else the first turn waits for pip's versions
        "auxiliary": {"title_generation": {"enabled": False}},
        "skills": {"creation_nudge_interval": 0},
        "kanban": {"dispatch_in_gateway": False},  # it waits for any child, and takes a command's exit code
    }


def run(home: Home, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a module of ours with Hermes' interpreter, to its end; what it printed."""
    if not PYTHON.exists():
        raise AssertionError(MISSING)
    done = subprocess.run(
        [PYTHON, "-m", module, *arguments],
        cwd=home.work,
        env=home.environment(**(environment or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{module} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
