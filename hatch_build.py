"""Compiles the ranking's inner loops while the package is built (docs/adr/0030). Where that fails, it is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCE = "src/strongroom/engines/lexical/_kernel.c"
NAME = "strongroom.engines.lexical._kernel"
SINCE = "cp311"
"""The first Python whose stable ABI has all that the kernel calls; what is built for it serves the later ones, too."""


class KernelHook(BuildHookInterface[Any]):
    """Adds the compiled module to a wheel, or puts it beside its source where the package is installed editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.place = Path(mkdtemp(prefix="strongroom-kernel-"))
        built: Path | None = None
        try:
            built = _compiled(Path(self.root) / SOURCE, self.place)
        except Exception as error:  # noqa: BLE001 - setuptools raises errors of many kinds
            self.app.display_warning(f"ranking will be done in Python, {SOURCE} was not compiled: {error}")
        beside = Path(self.root, SOURCE).with_suffix(".abi3.so")
        if version == "editable":
            beside.unlink(missing_ok=True)  # an older one would pass for this one
            if built is not None:
                shutil.copy(built, beside)
        elif built is not None:
            build_data["pure_python"] = False
            build_data["tag"] = f"{SINCE}-abi3-{next(iter(sys_tags())).platform}"
            build_data["force_include"][str(built)] = f"{NAME.replace('.', '/')}.abi3.so"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        shutil.rmtree(self.place, ignore_errors=True)


def _compiled(source: Path, place: Path) -> Path:
    """The module as the compiler of this Python makes it, in `place`."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    kernel = Extension(NAME, [str(shutil.copy(source, place))], py_limited_api=True)
    command = build_ext(Distribution({"ext_modules": [kernel]}))
    command.build_lib = command.build_temp = str(place)
    command.ensure_finalized()
    command.run()
    (built,) = place.rglob("*.so")
    return built
