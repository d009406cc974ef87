"""Tables of Python's calls by name, and helpers that compute how a call transforms texts. Pure."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable

from strongroom.hermes.hooks.program_tables import names
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN, clean, decode

Values = list[str]
VALUES_LIMIT = 16
LENGTH_LIMIT = 1 << 16

NAMES_ONLY = names(
    "print repr str len sorted list tuple set dict bool int sum min max any all enumerate zip map filter "
    "isinstance type Path PurePath PosixPath join joinpath expanduser expandvars home abspath realpath normpath "
    "resolve absolute relpath as_posix fspath exists isdir isfile islink is_dir is_file is_symlink is_mount stat "
    "lstat getsize getmtime access listdir scandir iterdir walk glob iglob rglob basename dirname split splitext "
    "with_name with_suffix relative_to is_relative_to startswith endswith format replace strip rstrip lstrip "
    "append add_argument extend insert get setdefault getenv chdir mkdir makedirs disk_usage chr ord bytes "
    "b64decode fromhex unhexlify decode encode lower upper match fnmatch info debug warning error exit"
)
"""Calls that do not read the content of files."""
RUNNERS = names(
    "run call check_call check_output Popen system popen getoutput getstatusoutput terminal shell spawn "
    "create_subprocess_exec create_subprocess_shell posix_spawn posix_spawnp bash sh"
)
EXEC = re.compile(r"(?:exec|spawn)[lv]p?e?")
"""Calls that take a program, and then the program's name again as the first argument."""
IMPORTERS = names(
    "import_module __import__ run_module run_path find_spec find_loader get_loader load_module resolve_name "
    "locate safeimport"
)
SAME = names(
    "str fspath resolve absolute as_posix abspath realpath normpath decode encode strip rstrip lstrip bytes "
    "bytearray expandvars sorted list tuple set iter reversed"
)
JOINS = frozenset(("Path", "PurePath", "PosixPath", "joinpath"))
WRITES = names("write_text write_bytes unlink rename replace copy copyfile copy2 move remove truncate")
SIGNS = {"sep": "/", "pathsep": ":", "linesep": "\n", "curdir": ".", "pardir": ".."}
PERCENT = re.compile(r"%[sdr]")
FIELD = re.compile(r"\{[^{}]*+\}")


def text_of(value: object) -> str:
    """The value of a constant as a text. UNKNOWN for a constant of another type."""
    if isinstance(value, bytes):
        return clean(value.decode("utf-8", "replace"))
    return clean(str(value)) if isinstance(value, str | int) else UNKNOWN


def joined(base: str, more: str) -> str:
    """Join two paths. An absolute second path replaces the first."""
    return more if more.startswith("/") else f"{base.rstrip('/')}/{more}"


def globbed(pattern: str) -> str:
    """A glob pattern with its wildcards replaced by the characters ANY and UNKNOWN."""
    return "/".join(UNKNOWN if part == "**" else part.replace("*", ANY) for part in pattern.split("/"))


def product(left: Values, right: Values, join: Callable[[str, str], str]) -> Values:
    """All combinations of two lists of texts. Above a limit, UNKNOWN stands for the texts on the right."""
    if len(left) * len(right) > VALUES_LIMIT:
        right = [UNKNOWN]
    return [join(one, other)[:LENGTH_LIMIT] for one in left for other in right]


DECODERS: dict[str, Callable[[str], str]] = {
    "b64decode": lambda text: base64.b64decode(text).decode("utf-8", "replace"),
    "urlsafe_b64decode": lambda text: base64.urlsafe_b64decode(text).decode("utf-8", "replace"),
    "b32decode": lambda text: base64.b32decode(text).decode("utf-8", "replace"),
    "fromhex": lambda text: bytes.fromhex(text).decode("utf-8", "replace"),
    "unhexlify": lambda text: bytes.fromhex(text).decode("utf-8", "replace"),
    "chr": lambda text: chr(int(text)) if re.fullmatch(r"[0-9]{1,6}", text) else UNKNOWN,
}
CODECS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("rot13", "rot_13", "rot-13"), lambda text: codecs.decode(text, "rot13")),
    **dict.fromkeys(("hex", "hex_codec"), DECODERS["fromhex"]),
    **dict.fromkeys(("unicode_escape", "unicode-escape"), decode),
}
