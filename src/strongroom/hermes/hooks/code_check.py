"""Finds what Python code reaches for, in its syntax tree, following texts through names and calls.

Values are computed as far as texts go: joined, formatted, decoded, as paths, from the environment. A call that is not
known to use names only is assumed to read its arguments, like an unknown program.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strongroom.hermes.hooks import code_texts, owner_commands, python_calls
from strongroom.hermes.hooks.command_check import run_inner
from strongroom.hermes.hooks.guarded_paths import Reaches, Relation
from strongroom.hermes.hooks.python_calls import LENGTH_LIMIT, VALUES_LIMIT, Values, globbed, product
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN, TooMuch, clean, fill, replace

if TYPE_CHECKING:
    from strongroom.hermes.hooks.script_check import Follower

_ITEMS_LIMIT = 4096
_SPOKEN_LIMIT = 64
_JOINER_LIMIT = 64


def follow_python(text: str, follower: Follower) -> None:
    """Check Python code."""
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
    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._names: dict[str, Values] = {}
        self._lists: dict[str, ast.expr] = {}
        self._known: dict[int, Values] = {}
        self._aliases: dict[str, str] = {}
        self._returns: dict[str, list[ast.expr]] = {}
        self._is_loose = False
        self._spoken: list[list[str]] = []

    def all(self, body: Sequence[ast.AST]) -> None:
        """Check a whole program. If it runs something unknown, that may be any of its texts."""
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
            self._bind(node.target, self.values(node.iter))
            self.block([one for one in ast.iter_child_nodes(node) if one not in (node.iter, node.target)])
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self.block(node.generators)
            self.block([one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.comprehension)])
            self._settle(node)
        else:
            self.block(list(ast.iter_child_nodes(node)))
            self._settle(node)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """Record a function. Its parameters may have their defaults."""
        places = [*node.args.posonlyargs, *node.args.args]
        defaults = [*zip(places[::-1], node.args.defaults[::-1], strict=False)]
        defaults += [
            (one, value) for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
        ]
        for one, value in defaults:
            self._names[one.arg] = self.values(value)
        if not isinstance(node, ast.Lambda) and len(self._returns) < _SPOKEN_LIMIT:
            self._returns[node.name] = [one.value for one in node.body if isinstance(one, ast.Return) and one.value]
        self.block(list(ast.iter_child_nodes(node)))

    def _settle(self, node: ast.AST) -> None:
        """Evaluate a node after everything in it was checked."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, self.values(node.value), node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(node.target, self.values(node.value), node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            joined = product(self._names.get(node.target.id, [""]), self.values(node.value), str.__add__)
            self._names[node.target.id] = joined
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
                self._speak([self.values(one)[0] for one in node.elts[:VALUES_LIMIT]])
            for one in self.values(node):
                self._look(one)

    def _look(self, text: str) -> None:
        """Check a text if all of it is known. Otherwise it is checked where something opens or runs it."""
        if UNKNOWN not in text and ANY not in text:
            self._speak([text])
            self._follower.look(text)

    def _speak(self, words: list[str]) -> None:
        if len(self._spoken) < _SPOKEN_LIMIT and any("strongroom" in one.casefold() for one in words):
            self._spoken.append(words)

    def _called_name(self, node: ast.expr) -> str:
        name = _name(node)
        return self._aliases.get(name, name)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        if any(name.split(".")[0] == "strongroom" for name in names):
            raise Reaches(owner_commands.THE_LIBRARY)
        self._aliases.update((one.asname, one.name) for one in node.names if one.asname)

    def _bind(self, target: ast.expr, values: Values, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Subscript) and _name(target.value) == "environ":
            for name in self.values(target.slice):
                self._follower.assign(name, values, is_array=False)
        if isinstance(target, ast.Name):
            self._names[target.id] = values
            if value is not None:
                self._lists[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            for place, one in enumerate(target.elts):
                if parts is not None and len(parts) == len(target.elts):
                    self._bind(one, self.values(parts[place]), parts[place])
                else:  # of the tuples of `os.walk`, the first item is the path
                    self._bind(one, values if place == 0 else [UNKNOWN])

    # Calls.

    def _called(self, node: ast.Call) -> None:
        name = self._called_name(node.func)
        given = [*node.args, *(one.value for one in node.keywords)]
        values = [self.values(one) for one in given]
        self._speak([some[0] for some in values[:VALUES_LIMIT]])
        if isinstance(node.func, ast.Attribute):
            values.append(self.values(node.func.value))
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
                self._follower.go(self._at_home(one))
        elif name == "append" and isinstance(node.func, ast.Attribute):
            self._append(_name(node.func.value), given)
        if name not in python_calls.NAMES_ONLY:
            for one in texts:
                self._follower.look_at(one, Relation.ABOVE)
        self._changed(name, texts)

    def _append(self, name: str, given: Sequence[ast.expr]) -> None:
        value = self._lists.get(name)
        if isinstance(value, ast.List) and len(value.elts) < VALUES_LIMIT:
            self._lists[name] = ast.List([*value.elts, *given], ast.Load())

    def _run(self, node: ast.Call) -> None:
        first = (
            node.args[0]
            if node.args
            else next((one.value for one in node.keywords if one.arg in ("args", "cmd", "command")), None)
        )
        if first is None:
            return
        if isinstance(first, ast.Call) and _name(first.func) == "split":
            first = (
                first.args[0] if first.args else first.func.value if isinstance(first.func, ast.Attribute) else first
            )
        self._is_loose = self._is_loose or not isinstance(first, ast.Constant)
        items = self._items(first) if not isinstance(first, ast.Constant | ast.JoinedStr) else None
        before = self._follower.scene.cwd
        stdin = None
        for one in node.keywords:
            if one.arg == "cwd":
                self._follower.go(*map(self._at_home, self.values(one.value)))
            elif one.arg == "executable" and items:
                items[0] = self.values(one.value)
            elif one.arg == "input":
                stdin = self.values(one.value)[0]
        if items is not None:
            self._follower.words([some[0] for some in items], stdin)
        elif len(node.args) > 1 and _name(node.func).startswith(("posix", "create_subprocess_exec")):
            self._follower.words([self.values(one)[0] for one in node.args])
        else:
            for text in self.values(first):
                if stdin is not None and " " not in text:
                    self._follower.words([text], stdin)
                self._follower.text(text)
        self._follower.scene.cwd = before

    def _exec(self, name: str, node: ast.Call) -> None:
        """Follow `os.execlp` and the like, and `os.spawnlp` with its mode argument."""
        given = node.args[1:] if name.startswith("spawn") else node.args
        items = self._items(given[1]) if "v" in name and len(given) > 1 else [self.values(one) for one in given[1:]]
        if given and items is not None:
            self._follower.words([self.values(given[0])[0], *(some[0] for some in items[1:])])
        else:
            self._is_loose = True

    def _changed(self, name: str, texts: Sequence[str]) -> None:
        modes = [one for one in texts if re.fullmatch(r"[rwaxbt+]{1,4}", one)]
        is_writing = name in python_calls.WRITES or (name == "open" and any(set(one) & set("wax+") for one in modes))
        if is_writing:
            for one in texts:
                self._follower.change(self._at_home(one), is_whole=False)

    # Values.

    def values(self, node: ast.expr) -> Values:
        """The possible values of an expression, as texts."""
        known = self._known.get(id(node))
        if known is None or isinstance(node, ast.Name):
            known = [one[:LENGTH_LIMIT] for one in self._values(node)[:VALUES_LIMIT]] or [UNKNOWN]
            self._follower.scene.spend(sum(map(len, known)))
            self._known[id(node)] = known
        return known

    def _values(self, node: ast.expr) -> Values:
        if isinstance(node, ast.Constant):
            return [python_calls.text_of(node.value)]
        if isinstance(node, ast.Name):
            return self._names.get(node.id, [UNKNOWN])
        if isinstance(node, ast.JoinedStr):
            found = [""]
            for one in node.values:
                found = product(found, self.values(one), str.__add__)
            return found
        if isinstance(node, ast.FormattedValue):
            return self.values(node.value)
        if isinstance(node, ast.BinOp):
            return self._computed(node)
        if isinstance(node, ast.IfExp):
            return [*self.values(node.body), *self.values(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [one for part in node.values for one in self.values(part)]
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return list(dict.fromkeys(one for part in node.elts[:VALUES_LIMIT] for one in self.values(part)))
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self.values(node.elt)
        if isinstance(node, ast.Subscript):
            return self._picked(node)
        if isinstance(node, ast.Starred):
            return self.values(node.value)
        if isinstance(node, ast.Dict):
            return list(dict.fromkeys(one for part in node.values[:VALUES_LIMIT] for one in self.values(part)))
        if isinstance(node, ast.Attribute) and node.attr in python_calls.SIGNS:
            return [python_calls.SIGNS[node.attr]]
        if isinstance(node, ast.Attribute):
            return [os.path.dirname(one) for one in self.values(node.value)] if node.attr == "parent" else [UNKNOWN]
        return self._returned(node) if isinstance(node, ast.Call) else [UNKNOWN]

    def _computed(self, node: ast.BinOp) -> Values:
        left, right = self.values(node.left), self.values(node.right)
        if isinstance(node.op, ast.Div):
            return product(left, right, python_calls.joined)
        if isinstance(node.op, ast.Mod):
            return product(left, right, lambda form, value: fill(python_calls.PERCENT, form, value))
        return product(left, right, str.__add__) if isinstance(node.op, ast.Add) else [UNKNOWN]

    def _picked(self, node: ast.Subscript) -> Values:
        if _name(node.value) == "environ":
            return [value for name in self.values(node.slice) for value in self._variable(name)]
        if isinstance(node.slice, ast.Slice) and isinstance(node.slice.step, ast.UnaryOp):
            return [one[::-1] for one in self.values(node.value)]
        if isinstance(node.slice, ast.Slice) or isinstance(node.value, ast.Constant):
            return [UNKNOWN]
        return self.values(node.value)

    def _returned(self, node: ast.Call) -> Values:
        name = _name(node.func)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        first = self.values(node.args[0]) if node.args else None
        if name == "join":
            return self._joined_texts(node, receiver)
        if name in python_calls.JOINS:
            parts = [*([receiver] if name == "joinpath" and receiver else []), *node.args]
            return self._path(parts) if parts else ["."]
        if name in ("home", "homedir"):
            return list(self._follower.scene.homes) or [UNKNOWN]
        if name == "expanduser":
            return [self._at_home(one) for one in first or (self.values(receiver) if receiver else [UNKNOWN])]
        if name in ("getcwd", "cwd"):
            return list(self._follower.scene.cwd)
        if name == "getenv" or (name == "get" and receiver is not None and _name(receiver) == "environ"):
            defaults = self.values(node.args[1]) if len(node.args) > 1 else []
            return [*(value for one in first or () for value in self._variable(one)), *defaults]
        if name in ("glob", "iglob", "rglob", "iterdir", "listdir", "scandir", "walk"):
            return self._listed(name, receiver, first)
        if isinstance(node.func, ast.Name) and name in self._returns:
            returns = self._returns.pop(name)  # a function may call itself
            found = [one for part in returns for one in self.values(part)]
            self._returns[name] = returns
            return found
        if name == "format" and receiver is not None:
            return (
                [fill(python_calls.FIELD, one, UNKNOWN) for one in self.values(receiver)]
                if not first
                else product(self.values(receiver), first, lambda form, value: fill(python_calls.FIELD, form, value))
            )
        if name == "replace" and receiver is not None and len(node.args) > 1:
            old, new = self.values(node.args[0])[0], self.values(node.args[1])[0]
            return [replace(one, old, new) for one in self.values(receiver)]
        return self._decoded(name, node, receiver, first)

    def _decoded(self, name: str, node: ast.Call, receiver: ast.expr | None, first: Values | None) -> Values:
        is_codec = name == "decode" and len(node.args) > 1
        decoder = python_calls.CODECS.get(self.values(node.args[1])[0]) if is_codec else python_calls.DECODERS.get(name)
        if decoder is not None and first:
            try:
                return [clean(decoder(one)) for one in first]
            except (ValueError, OverflowError):
                return [UNKNOWN]
        if name in ("bytes", "bytearray") and node.args and (items := self._items(node.args[0])) is not None:
            return ["".join(python_calls.DECODERS["chr"](some[0]) for some in items)]
        if name in ("lower", "upper") and receiver is not None:
            return [one.lower() for one in self.values(receiver)]
        if name in python_calls.SAME:
            is_method = receiver is not None and name not in ("abspath", "realpath", "normpath", "fspath", "expandvars")
            return self.values(receiver) if is_method and receiver is not None else first or [UNKNOWN]
        return [UNKNOWN]

    def _listed(self, name: str, receiver: ast.expr | None, first: Values | None) -> Values:
        is_module = receiver is None or _name(receiver) in ("glob", "os")
        roots = [self._at_home(one) for one in (first or ["."] if is_module else self.values(receiver))]  # type: ignore[arg-type]
        if is_module and name in ("glob", "iglob"):
            return [globbed(one) for one in roots]
        if name in ("glob", "rglob"):
            pattern = [globbed(one) for one in first or [UNKNOWN]]
            return product(
                roots, [f"{UNKNOWN}/{one}" if name == "rglob" else one for one in pattern], python_calls.joined
            )
        names = [ANY] if name == "listdir" else []
        return [*names, *(python_calls.joined(one, UNKNOWN if name == "walk" else ANY) for one in roots)]

    def _joined_texts(self, node: ast.Call, receiver: ast.expr | None) -> Values:
        is_path = receiver is None or (
            isinstance(receiver, ast.Name | ast.Attribute)
            and _name(receiver) in ("path", "os", "posixpath", "op", "osp", "p")
        )
        if is_path and not (receiver is not None and _name(receiver) in self._names):
            return self._path(node.args)
        items = self._items(node.args[0]) if node.args else None
        if items is None or receiver is None:
            return [UNKNOWN]
        parts = [some[0] for some in items]
        if sum(map(len, parts)) > LENGTH_LIMIT:
            raise TooMuch
        return [one.join(parts) for one in self.values(receiver) if len(one) < _JOINER_LIMIT]

    def _items(self, node: ast.expr) -> list[Values] | None:
        """The items of a sequence, each with its possible values; None if they are unknown."""
        if isinstance(node, ast.Name) and (node.id in self._lists) and not isinstance(self._lists[node.id], ast.Name):
            return self._items(self._lists[node.id])
        if isinstance(node, ast.List | ast.Tuple):
            return [self.values(one) for one in node.elts[:_ITEMS_LIMIT]]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._items(node.left), self._items(node.right)
            return None if left is None or right is None else [*left, *right][:_ITEMS_LIMIT]
        if (
            isinstance(node, ast.Call)
            and _name(node.func) == "map"
            and len(node.args) == 2
            and _name(node.args[0]) == "chr"
        ):
            items = self._items(node.args[1])
            return None if items is None else [[python_calls.DECODERS["chr"](some[0])] for some in items]
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            return self._comprehended(node)
        if isinstance(node, ast.Call) and _name(node.func) in ("reversed",) and node.args:
            items = self._items(node.args[0])
            return None if items is None else items[::-1]
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return [[char] for char in python_calls.text_of(node.value)[:_ITEMS_LIMIT]]
        return None

    def _comprehended(self, node: ast.ListComp | ast.GeneratorExp) -> list[Values] | None:
        items = self._items(node.generators[0].iter)
        if items is None or not isinstance(node.generators[0].target, ast.Name):
            return None
        found: list[Values] = []
        for some in items:
            self._names[node.generators[0].target.id] = some
            self._known = {}
            found.append(self.values(node.elt))
        return found

    def _path(self, nodes: Sequence[ast.expr]) -> Values:
        found = self.values(nodes[0]) if nodes else [UNKNOWN]
        for one in nodes[1:]:
            found = product(found, self.values(one), python_calls.joined)
        return found

    def _variable(self, name: str) -> Values:
        scene = self._follower.scene
        if name == "HOME":
            return list(scene.homes)
        return [scene.environment[name]] if name in scene.environment else [UNKNOWN]

    def _at_home(self, text: str) -> str:
        return (self._follower.scene.homes or (UNKNOWN,))[0] + text[1:] if re.match(r"~(?=/|$)", text) else text


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
