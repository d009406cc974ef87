"""Parses shell text into simple commands, in order, with the commands that are nested in their words. Pure.

The parser is for inspection and not for execution. Quoting, expansions, here-documents and nesting are those of bash.
Control flow is ignored: `if`, `while`, `case` and braces only separate commands, and every branch counts. Text that
bash would refuse is parsed as far as possible. The text is read once, so the time is linear; nesting deeper than
DEPTH_LIMIT raises TooMuch.

In literal text, unquoted characters with a meaning for the shell are replaced by marks, which are private-use
characters. So later steps need not know about quotes: `cat 'a*'` keeps its star, and `cat a*` contains the mark ANY.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

ONE, ANY, UNKNOWN = "\ue001", "\ue002", "\ue003"
"""Marks for unknown text: ONE is any one character, ANY is any characters except a slash, UNKNOWN is anything."""
HOME, SPLIT = "\ue004", "\ue005"
"""HOME stands for an unquoted `~` that may begin a path. SPLIT is where the shell splits an expansion into two
words.
"""
OPEN, COMMA, CLOSE = "\ue006", "\ue007", "\ue008"
"""Marks for the unquoted characters of `{a,b}`."""
DEPTH_LIMIT = 24
SIZE_LIMIT = 1 << 18
"""Maximum number of characters that one replacement may produce."""

_MARKS = dict.fromkeys(range(0xE000, 0xE010), "?")
_UNQUOTED = {"*": ANY, "?": ONE, "{": OPEN, ",": COMMA, "}": CLOSE}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_PLAIN = re.compile(r"[\w./:@%+=^-]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`]+")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]\s]*\])?\+?=")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||&>>|&>|<(?!\()|>(?!\())")
_PARAMETER = re.compile(r"([!#]?)(\w+|[@*#?$!-])(?:\[([^]]*)\])?")
_BRACKET = re.compile(r"[!^]?\]?[^]\s/\"'$`]{0,64}\]")
_NAME = re.compile(r"\w+|[@*#?$!-]")
_CODED = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")
_SKIPPED = frozenset(
    ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "esac", "coproc")
)
"""Words of control flow. A command begins after each of them."""


class TooMuch(Exception):
    """Raised if a tool call is too large or too deeply nested to be checked."""


class Scope(Enum):
    """The beginning and the end of a subshell. A change of directory inside a subshell ends with the subshell."""

    OPEN, CLOSE = "(", ")"


@dataclass(frozen=True, slots=True)
class Literal:
    """Literal text, in which marks stand for unknown parts."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, `$NAME` or `${NAME...}`. `rest` is the text after the name: an operator and its words."""

    name: str
    quoted: bool
    rest: Word = ()
    index: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Substitution:
    """The output of commands: `$(...)` or backticks. With `is_file`, the name of a file with the output: `<(...)`."""

    commands: Script
    quoted: bool
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic expansion `$((...))`: a number. Substitutions inside are still commands."""

    inner: Word


Part = Literal | Variable | Substitution | Arithmetic
Word = Sequence[Part]


@dataclass(slots=True)
class ShellCommand:
    """One simple command."""

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, list[Word]]] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)
    document: Word | None = None
    """The content of a here-document or a here-string."""
    is_piped: bool = False

    def __bool__(self) -> bool:
        return bool(self.words or self.assignments or self.redirects or self.document is not None)


Script = list[ShellCommand | Scope]


def clean(text: str) -> str:
    """In a text from outside, replace the private-use characters that this parser uses as its own marks."""
    return text.translate(_MARKS)


def parse(text: str, depth: int = 0) -> Script:
    """Parse the commands of a text. The text may contain marks for unknown values."""
    return _Reader(text, depth).script("")


def decode(text: str) -> str:
    """Decode the backslash escapes of `printf`, `echo -e` and `$'...'`."""
    out: list[str] = []
    at = 0
    while (found := text.find("\\", at)) >= 0 and found + 1 < len(text):
        out.append(text[at:found])
        char, at = _escaped(text, found + 1)
        out.append(char)
    return "".join([*out, text[at:]])


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """Replace a text as `str.replace` does. Raises TooMuch if the result would be huge."""
    if old and text.count(old) * len(new) > SIZE_LIMIT:
        raise TooMuch
    return text.replace(old, new, count) if old else text


def fill(pattern: re.Pattern[str], text: str, value: str) -> str:
    """Replace every match of a pattern by a value. Raises TooMuch if the result would be huge."""
    if sum(1 for _ in pattern.finditer(text)) * len(value) > SIZE_LIMIT:
        raise TooMuch
    return pattern.sub(lambda _: value, text)


def _escaped(text: str, at: int) -> tuple[str, int]:
    if found := _CODED.match(text, at):
        code = int(next(filter(None, found.groups()[:3])), 16) if found[4] is None else int(found[4], 8)
        return (chr(code) if code < 0x110000 else "?"), found.end()
    return _ESCAPES.get(text[at], text[at]), at + 1


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._at = 0
        self._depth = depth
        self._documents: list[tuple[ShellCommand, str, bool, bool]] = []

    def script(self, end: str) -> Script:
        """Parse commands up to an unquoted `end`, which is consumed. With an empty `end`, parse to the end of the
        text.
        """
        found: Script = []
        command = ShellCommand()
        opened = 0

        def finish(is_piped: bool = False) -> None:
            nonlocal command
            if command:
                found.append(command)
                command = ShellCommand(is_piped=is_piped)
            else:
                command.is_piped = command.is_piped or is_piped

        while self._at < len(self._text):
            if self._skip(_BLANK) or self._skip(_COMMENT):
                continue
            char = self._text[self._at]
            if char == ")":
                self._at += 1
                finish()
                if end == ")" and not opened:
                    return found
                if opened:
                    opened -= 1
                    found.append(Scope.CLOSE)
            elif char == "(":
                self._at += 1
                finish(command.is_piped)
                opened += 1
                found.append(Scope.OPEN)
            elif self._redirect(command):
                continue
            elif char in ";&|\n":
                finish(self._operator(char))
            else:
                self._word_into(command)
        finish()
        return found

    def _operator(self, char: str) -> bool:
        """Consume an operator. Returns True if the operator is a pipe."""
        self._at += 1
        if char == "\n":
            self._read_documents()
            return False
        if char == "|" and self._text[self._at : self._at + 1] != "|":
            self._at += self._text[self._at : self._at + 1] == "&"
            return True
        self._at += self._text[self._at : self._at + 1] == char
        return False

    def _word_into(self, command: ShellCommand) -> None:
        if not command.words:
            if found := _ASSIGNMENT.match(self._text, self._at):
                self._at = found.end()
                command.assignments.append((found[1], self._assigned()))
                return
            start = self._at
            word = self._word()
            said = self._text[start : self._at]
            if said == "function":
                self._skip(_BLANK)
                self._word()
            elif said not in _SKIPPED:
                command.words.append(word)
            return
        command.words.append(self._word())

    def _assigned(self) -> list[Word]:
        """Parse the value of an assignment. An array gives several values."""
        if self._text[self._at : self._at + 1] != "(":
            return [self._word()]
        self._at += 1
        found: list[Word] = []
        while self._at < len(self._text):
            if self._skip(_BLANK) or self._skip(_COMMENT):
                continue
            if self._text[self._at] == ")":
                self._at += 1
                break
            if self._text[self._at] in "\n;&|(<>":
                self._at += 1
                continue
            found.append(self._word())
        return found

    def _redirect(self, command: ShellCommand) -> bool:
        found = _REDIRECT.match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        self._skip(_BLANK)
        operator = found[1]
        if operator in ("<<", "<<-"):
            start = self._at
            self._word()
            said = self._text[start : self._at]
            delimiter = re.sub(r"[\"'\\]", "", said)
            self._documents.append((command, delimiter, delimiter == said, operator == "<<-"))
            command.document = ()
        elif operator == "<<<":
            command.document = self._word()
        else:
            command.redirects.append((operator, self._word()))
        return True

    def _read_documents(self) -> None:
        waiting, self._documents = self._documents, []
        for command, delimiter, is_expanded, is_indented in waiting:
            lines: list[str] = []
            while self._at < len(self._text):
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = stop + 1
                if (line.lstrip("\t") if is_indented else line) == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            command.document = _Reader(body, self._deeper()).quoted() if is_expanded else (Literal(body),)

    def _deeper(self) -> int:
        if self._depth >= DEPTH_LIMIT:
            raise TooMuch
        return self._depth + 1

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found is not None

    def _word(self, end: str = "") -> Word:
        """Parse one word, which consists of adjacent parts. With `end`, parse up to that character and consume it."""
        parts: list[Part] = []
        begin = True
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == end:
                self._at += 1
                break
            is_over = not end and char in " \t\r\n;&|()<>"
            if is_over and not (char in "<>" and self._text[self._at + 1 : self._at + 2] == "("):
                break
            before = len(parts)
            parts += self._unquoted(char, begin)
            last = parts[-1] if len(parts) > before else None
            begin = isinstance(last, Literal) and last.text[-1:] in ("=", ":")
        return parts

    def _unquoted(self, char: str, begin: bool) -> list[Part]:
        if found := _PLAIN.match(self._text, self._at):
            self._at = found.end()
            return [Literal(found[0])]
        self._at += 1
        if char == "\\":
            self._at += 1
            said = self._text[self._at - 1 : self._at]
            return [Literal("" if said == "\n" else said)]
        if char == "'":
            stop = self._text.find("'", self._at)
            stop = len(self._text) if stop < 0 else stop
            said, self._at = self._text[self._at : stop], stop + 1
            return [Literal(said)]
        if char == '"':
            return [Literal(""), *self.quoted('"')]
        if char in "$`":
            return self._expansion(char, quoted=False)
        if char in "<>":
            self._at += 1
            return [Substitution(self._nested(), quoted=True, is_file=True)]
        if char == "~" and begin:
            return [Literal(HOME)]
        if char == "[" and (found := _BRACKET.match(self._text, self._at)):
            self._at = found.end()
            return [Literal(ONE)]
        return [Literal(_UNQUOTED.get(char, char))]

    def quoted(self, end: str = "") -> Word:
        """Parse text as inside double quotes, up to an unescaped `end`."""
        parts: list[Part] = []
        while self._at < len(self._text):
            if found := _PLAIN_QUOTED.match(self._text, self._at):
                self._at = found.end()
                parts.append(Literal(found[0]))
                continue
            char = self._text[self._at]
            self._at += 1
            if char == end:
                break
            if char == "\\":
                said = self._text[self._at : self._at + 1]
                self._at += 1
                parts.append(Literal("" if said == "\n" else said if said in '$`"\\' else "\\" + said))
            elif char in "$`":
                parts += self._expansion(char, quoted=True)
            else:
                parts.append(Literal(char))
        return parts

    def _nested(self) -> Script:
        self._depth = self._deeper()
        found = self.script(")")
        self._depth -= 1
        return found

    def _expansion(self, char: str, *, quoted: bool) -> list[Part]:
        if char == "`":
            return [Substitution(parse(self._backticked(), self._deeper()), quoted)]
        text = self._text
        if text.startswith("((", self._at):
            self._at += 2
            return [Arithmetic(self._arithmetic())]
        if text.startswith("(", self._at):
            self._at += 1
            return [Substitution(self._nested(), quoted)]
        if text.startswith("{", self._at):
            return self._braced(quoted=quoted)
        if not quoted and text.startswith("'", self._at):
            return [Literal(self._ansi())]
        if not quoted and text.startswith('"', self._at):
            return []
        if found := _NAME.match(text, self._at):
            name = found[0] if not found[0][0].isdigit() else found[0][0]
            self._at += len(name)
            return [Variable(name, quoted)]
        return [Literal("$")]

    def _backticked(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != "`":
            self._at += 2 if self._text[self._at] == "\\" else 1
        said = self._text[start : self._at]
        self._at += 1
        return re.sub(r"\\([\\`$])", r"\1", said)

    def _ansi(self) -> str:
        self._at += 1
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != "'":
            self._at += 2 if self._text[self._at] == "\\" else 1
        said = self._text[start : self._at]
        self._at += 1
        return clean(decode(said))

    def _arithmetic(self) -> Word:
        parts: list[Part] = []
        opened = 2
        while self._at < len(self._text) and opened:
            char = self._text[self._at]
            self._at += 1
            if char in "$`":
                parts += self._expansion(char, quoted=True)
            opened += (char == "(") - (char == ")")
        return parts

    def _braced(self, *, quoted: bool) -> list[Part]:
        self._at += 1
        found = _PARAMETER.match(self._text, self._at)
        if found is None:
            return [Literal("${")]
        self._at = found.end()
        self._depth = self._deeper()
        rest = self._word("}")
        self._depth -= 1
        return [Variable(found[2], quoted, rest, found[3], found[1])]
