"""Reads the YAML files of a plugin, before any code of the plugin runs.

- Only regular files are read: a pipe or a device in a file's place is an error, and does not block.
- YAML is read with plain types and without anchors: a few hundred bytes of references can expand to gigabytes.

YAML needs PyYAML, which the extra `host` brings.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from strongroom.private_files import open_file

MOST_BYTES = 64 * 1024
_WITHOUT_YAML = "PyYAML is not installed: pip install pyyaml"


class NotRead(ValueError):
    """Raised if a YAML file cannot be used. The message is the reason."""


def read_yaml(path: Path) -> Any:
    """The content of a small YAML file, in plain types only."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise NotRead(_WITHOUT_YAML) from None
    try:
        with open_file(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise NotRead(f"it is larger than {MOST_BYTES // 1024} KiB")
        return yaml.load(data.decode("utf-8-sig"), Loader=_loader())
    except OSError as error:
        raise NotRead(error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise NotRead("it is not UTF-8") from None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise error if isinstance(error, NotRead) else NotRead(f"it is not YAML{_position(error)}") from None


@cache
def _loader() -> Any:
    """Make PyYAML's safe loader without anchors, references to anchors, and `<<`."""
    yaml: Any = import_module("yaml")
    merge = "tag:yaml.org,2002:merge"

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if getattr(event, "anchor", None) is not None:
                raise NotRead(f"it uses anchors (line {event.start_mark.line + 1})")
            return super().compose_node(parent, index)

        def flatten_mapping(self, node: Any) -> None:
            for key, _ in node.value:
                if key.tag == merge:
                    raise NotRead(f"it uses << (line {key.start_mark.line + 1})")
            super().flatten_mapping(node)

    return Plain


def _position(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark else ""
