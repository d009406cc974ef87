"""Finds the guarded things that Python code would access. The check reads the syntax tree, and follows texts through
names and calls.

`python_values` computes the values of expressions. A call is assumed to read the files that its arguments name, except
for calls that are known to use only the names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strongroom.hermes.hooks import code_texts, owner_commands, python_calls
from strongroom.hermes.hooks.command_check import run_inner
from strongroom.hermes.hooks.guarded_paths import Reaches, Relation
from strongroom.hermes.hooks.python_calls import VALUES_LIMIT, Values, product
from strongroom.hermes.hooks.python_values import PythonValues, name_of
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN, TooMuch

if TYPE_CHECKING:
    from strongroom.hermes.hooks.script_check import Follower

_SPOKEN_LIMIT = 64


def follow_python(text: str, follower: Follower) -> None:
    """Check Python code. Raises `Reaches` if the code would access something guarded."""
    if what := owner_commands.by_text(text):
        follower.look(text)
        raise Reaches(what)
    try:
        tree = ast.parse(text.replace(UNKNOWN, "_").replace(ANY, "_"))
        _Python(follower).all(tree.body)
    except (SyntaxError, ValueError):
        code_texts.follow(text, follower)
    except (RecursionError, MemoryError):
        raise TooMuch from None


class _Python:
    """Checks the statements and calls of one program, in order."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._values = PythonValues(follower.scene)
        self._aliases: dict[str, str] = {}
        self._is_loose = False
        self._spoken: list[list[str]] = []

    def all(self, body: Sequence[ast.AST]) -> None:
        """Check a whole program. If the program runs an unknown text, each text in the program is checked as a
        command.
        """
        self.block(body)
        for words in self._spoken if self._is_loose else ():
            if len(words) == 1:
                self._follower.text(words[0])
            run_inner(self._follower, words, None)

    def block(self, body: Sequence[ast.AST]) -> None:
        """Check statements in order."""
        for node in body:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._imported(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._defined(node)
        elif isinstance(node, ast.Call):
            # A called function is not passed on as a runner, but the object that it is an attribute of may be.
            self.block([node.func.value] if isinstance(node.func, ast.Attribute) else [])
            if not isinstance(node.func, ast.Attribute | ast.Name):
                self._is_loose = True
                self.block([node.func])
            self.block([*node.args, *node.keywords])
            self._settle(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._visit(node.iter)
            self._bind(node.target, self._values.of(node.iter))
            self.block([one for one in ast.iter_child_nodes(node) if one not in (node.iter, node.target)])
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self.block(node.generators)
            self.block([one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.comprehension)])
            self._settle(node)
        else:
            self.block(list(ast.iter_child_nodes(node)))
            self._settle(node)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """Record a function: its parameters get their default values, and its return expressions are kept."""
        places = [*node.args.posonlyargs, *node.args.args]
        defaults = [*zip(places[::-1], node.args.defaults[::-1], strict=False)]
        defaults += [
            (one, value) for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
        ]
        for one, value in defaults:
            self._values.names[one.arg] = self._values.of(value)
        if not isinstance(node, ast.Lambda) and len(self._values.returns) < _SPOKEN_LIMIT:
            self._values.returns[node.name] = [
                one.value for one in node.body if isinstance(one, ast.Return) and one.value
            ]
        self.block(list(ast.iter_child_nodes(node)))

    def _settle(self, node: ast.AST) -> None:
        """Evaluate a node. Everything inside the node was checked before."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, self._values.of(node.value), node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(node.target, self._values.of(node.value), node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            joined = product(self._values.names.get(node.target.id, [""]), self._values.of(node.value), str.__add__)
            self._values.names[node.target.id] = joined
            if isinstance(node.value, ast.List):
                self._append(node.target.id, node.value.elts)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, [UNKNOWN])
        elif isinstance(node, ast.Call):
            self._called(node)
        elif isinstance(node, ast.expr):
            if self._called_name(node) in python_calls.RUNNERS and isinstance(getattr(node, "ctx", None), ast.Load):
                self._is_loose = True
            if isinstance(node, ast.List | ast.Tuple):
                self._speak([self._values.of(one)[0] for one in node.elts[:VALUES_LIMIT]])
            for one in self._values.of(node):
                self._look(one)

    def _look(self, text: str) -> None:
        """Check a text if all of it is known. A text with unknown parts is checked only where a call opens or runs
        it.
        """
        if UNKNOWN not in text and ANY not in text:
            self._speak([text])
            self._follower.look(text)

    def _speak(self, words: list[str]) -> None:
        if len(self._spoken) < _SPOKEN_LIMIT and any("strongroom" in one.casefold() for one in words):
            self._spoken.append(words)

    def _called_name(self, node: ast.expr) -> str:
        name = name_of(node)
        return self._aliases.get(name, name)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        if any(name.split(".")[0] == "strongroom" for name in names):
            raise Reaches(owner_commands.THE_LIBRARY)
        self._aliases.update((one.asname, one.name) for one in node.names if one.asname)

    def _bind(self, target: ast.expr, values: Values, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Subscript) and name_of(target.value) == "environ":
            for name in self._values.of(target.slice):
                self._follower.assign(name, values, is_array=False)
        if isinstance(target, ast.Name):
            self._values.names[target.id] = values
            if value is not None:
                self._values.lists[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            for place, one in enumerate(target.elts):
                if parts is not None and len(parts) == len(target.elts):
                    self._bind(one, self._values.of(parts[place]), parts[place])
                else:  # of the tuples of `os.walk`, the first item is the path
                    self._bind(one, values if place == 0 else [UNKNOWN])

    # Calls.

    def _called(self, node: ast.Call) -> None:
        name = self._called_name(node.func)
        given = [*node.args, *(one.value for one in node.keywords)]
        values = [self._values.of(one) for one in given]
        self._speak([some[0] for some in values[:VALUES_LIMIT]])
        if isinstance(node.func, ast.Attribute):
            values.append(self._values.of(node.func.value))
        texts = [one for some in values for one in some]
        for one in texts:
            self._look(one)
        if name in python_calls.IMPORTERS and any(re.split("[.:]", one)[0] == "strongroom" for one in texts):
            raise Reaches(owner_commands.THE_LIBRARY)
        if name in python_calls.RUNNERS:
            self._run(node)
        elif python_calls.EXEC.fullmatch(name):
            self._exec(name, node)
        elif name in ("exec", "eval", "compile"):
            for one in values[0] if values else ():
                self._follower.python(one)
        elif name == "chdir":
            for one in values[0] if values else ():
                self._follower.go(self._values.at_home(one))
        elif name == "append" and isinstance(node.func, ast.Attribute):
            self._append(name_of(node.func.value), given)
        if name not in python_calls.NAMES_ONLY:
            for one in texts:
                self._follower.look_at(one, Relation.ABOVE)
        self._changed(name, texts)

    def _append(self, name: str, given: Sequence[ast.expr]) -> None:
        value = self._values.lists.get(name)
        if isinstance(value, ast.List) and len(value.elts) < VALUES_LIMIT:
            self._values.lists[name] = ast.List([*value.elts, *given], ast.Load())

    def _run(self, node: ast.Call) -> None:
        first = (
            node.args[0]
            if node.args
            else next((one.value for one in node.keywords if one.arg in ("args", "cmd", "command")), None)
        )
        if first is None:
            return
        if isinstance(first, ast.Call) and name_of(first.func) == "split":
            first = (
                first.args[0] if first.args else first.func.value if isinstance(first.func, ast.Attribute) else first
            )
        self._is_loose = self._is_loose or not isinstance(first, ast.Constant)
        items = self._values.items(first) if not isinstance(first, ast.Constant | ast.JoinedStr) else None
        before = self._follower.scene.cwd
        stdin = None
        for one in node.keywords:
            if one.arg == "cwd":
                self._follower.go(*map(self._values.at_home, self._values.of(one.value)))
            elif one.arg == "executable" and items:
                items[0] = self._values.of(one.value)
            elif one.arg == "input":
                stdin = self._values.of(one.value)[0]
        if items is not None:
            self._follower.words([some[0] for some in items], stdin)
        elif len(node.args) > 1 and name_of(node.func).startswith(("posix", "create_subprocess_exec")):
            self._follower.words([self._values.of(one)[0] for one in node.args])
        else:
            for text in self._values.of(first):
                if stdin is not None and " " not in text:
                    self._follower.words([text], stdin)
                self._follower.text(text)
        self._follower.scene.cwd = before

    def _exec(self, name: str, node: ast.Call) -> None:
        """Check a call such as `os.execlp`, or `os.spawnlp` with its mode argument."""
        given = node.args[1:] if name.startswith("spawn") else node.args
        items = (
            self._values.items(given[1])
            if "v" in name and len(given) > 1
            else [self._values.of(one) for one in given[1:]]
        )
        if given and items is not None:
            self._follower.words([self._values.of(given[0])[0], *(some[0] for some in items[1:])])
        else:
            self._is_loose = True

    def _changed(self, name: str, texts: Sequence[str]) -> None:
        modes = [one for one in texts if re.fullmatch(r"[rwaxbt+]{1,4}", one)]
        is_writing = name in python_calls.WRITES or (name == "open" and any(set(one) & set("wax+") for one in modes))
        if is_writing:
            for one in texts:
                self._follower.change(self._values.at_home(one), is_whole=False)
