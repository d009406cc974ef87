"""Computes the texts that a Python expression may have as its value. No code is run.

Texts are joined, formatted and decoded. Paths, environment variables and the results of functions are followed. A value
that cannot be computed is `UNKNOWN`, so every expression has at least one value.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence

from strongroom.hermes.hooks import python_calls
from strongroom.hermes.hooks.python_calls import LENGTH_LIMIT, VALUES_LIMIT, Values, globbed, product
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN, TooMuch, clean, fill, replace
from strongroom.hermes.hooks.word_expansion import Scene

_ITEMS_LIMIT = 4096
_JOINER_LIMIT = 64


class PythonValues:
    """The values of one program's expressions. `code_check` adds each name's value when it checks an assignment."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._known: dict[int, Values] = {}
        self.names: dict[str, Values] = {}
        self.lists: dict[str, ast.expr] = {}
        """The expression that was last bound to each name."""
        self.returns: dict[str, list[ast.expr]] = {}
        """The expressions that each function returns."""

    def of(self, node: ast.expr) -> Values:
        """The possible values of an expression, as texts."""
        known = self._known.get(id(node))
        if known is None or isinstance(node, ast.Name):
            known = [one[:LENGTH_LIMIT] for one in self._values(node)[:VALUES_LIMIT]] or [UNKNOWN]
            self._scene.spend(sum(map(len, known)))
            self._known[id(node)] = known
        return known

    def _values(self, node: ast.expr) -> Values:
        if isinstance(node, ast.Constant):
            return [python_calls.text_of(node.value)]
        if isinstance(node, ast.Name):
            return self.names.get(node.id, [UNKNOWN])
        if isinstance(node, ast.JoinedStr):
            found = [""]
            for one in node.values:
                found = product(found, self.of(one), str.__add__)
            return found
        if isinstance(node, ast.FormattedValue):
            return self.of(node.value)
        if isinstance(node, ast.BinOp):
            return self._computed(node)
        if isinstance(node, ast.IfExp):
            return [*self.of(node.body), *self.of(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [one for part in node.values for one in self.of(part)]
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return list(dict.fromkeys(one for part in node.elts[:VALUES_LIMIT] for one in self.of(part)))
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self.of(node.elt)
        if isinstance(node, ast.Subscript):
            return self._picked(node)
        if isinstance(node, ast.Starred):
            return self.of(node.value)
        if isinstance(node, ast.Dict):
            return list(dict.fromkeys(one for part in node.values[:VALUES_LIMIT] for one in self.of(part)))
        if isinstance(node, ast.Attribute) and node.attr in python_calls.SIGNS:
            return [python_calls.SIGNS[node.attr]]
        if isinstance(node, ast.Attribute):
            return [os.path.dirname(one) for one in self.of(node.value)] if node.attr == "parent" else [UNKNOWN]
        return self._returned(node) if isinstance(node, ast.Call) else [UNKNOWN]

    def _computed(self, node: ast.BinOp) -> Values:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Div):
            return product(left, right, python_calls.joined)
        if isinstance(node.op, ast.Mod):
            return product(left, right, lambda form, value: fill(python_calls.PERCENT, form, value))
        return product(left, right, str.__add__) if isinstance(node.op, ast.Add) else [UNKNOWN]

    def _picked(self, node: ast.Subscript) -> Values:
        if name_of(node.value) == "environ":
            return [value for name in self.of(node.slice) for value in self._variable(name)]
        if isinstance(node.slice, ast.Slice) and isinstance(node.slice.step, ast.UnaryOp):
            return [one[::-1] for one in self.of(node.value)]
        if isinstance(node.slice, ast.Slice) or isinstance(node.value, ast.Constant):
            return [UNKNOWN]
        return self.of(node.value)

    def _returned(self, node: ast.Call) -> Values:
        name = name_of(node.func)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        first = self.of(node.args[0]) if node.args else None
        if name == "join":
            return self._joined_texts(node, receiver)
        if name in python_calls.JOINS:
            parts = [*([receiver] if name == "joinpath" and receiver else []), *node.args]
            return self._path(parts) if parts else ["."]
        if name in ("home", "homedir"):
            return list(self._scene.homes) or [UNKNOWN]
        if name == "expanduser":
            return [self.at_home(one) for one in first or (self.of(receiver) if receiver else [UNKNOWN])]
        if name in ("getcwd", "cwd"):
            return list(self._scene.cwd)
        if name == "getenv" or (name == "get" and receiver is not None and name_of(receiver) == "environ"):
            defaults = self.of(node.args[1]) if len(node.args) > 1 else []
            return [*(value for one in first or () for value in self._variable(one)), *defaults]
        if name in ("glob", "iglob", "rglob", "iterdir", "listdir", "scandir", "walk"):
            return self._listed(name, receiver, first)
        if isinstance(node.func, ast.Name) and name in self.returns:
            returns = self.returns.pop(name)  # a function may call itself
            found = [one for part in returns for one in self.of(part)]
            self.returns[name] = returns
            return found
        if name == "format" and receiver is not None:
            return (
                [fill(python_calls.FIELD, one, UNKNOWN) for one in self.of(receiver)]
                if not first
                else product(self.of(receiver), first, lambda form, value: fill(python_calls.FIELD, form, value))
            )
        if name == "replace" and receiver is not None and len(node.args) > 1:
            old, new = self.of(node.args[0])[0], self.of(node.args[1])[0]
            return [replace(one, old, new) for one in self.of(receiver)]
        return self._decoded(name, node, receiver, first)

    def _decoded(self, name: str, node: ast.Call, receiver: ast.expr | None, first: Values | None) -> Values:
        is_codec = name == "decode" and len(node.args) > 1
        decoder = python_calls.CODECS.get(self.of(node.args[1])[0]) if is_codec else python_calls.DECODERS.get(name)
        if decoder is not None and first:
            try:
                return [clean(decoder(one)) for one in first]
            except (ValueError, OverflowError):
                return [UNKNOWN]
        if name in ("bytes", "bytearray") and node.args and (items := self.items(node.args[0])) is not None:
            return ["".join(python_calls.DECODERS["chr"](some[0]) for some in items)]
        if name in ("lower", "upper") and receiver is not None:
            return [one.lower() for one in self.of(receiver)]
        if name in python_calls.SAME:
            is_method = receiver is not None and name not in ("abspath", "realpath", "normpath", "fspath", "expandvars")
            return self.of(receiver) if is_method and receiver is not None else first or [UNKNOWN]
        return [UNKNOWN]

    def _listed(self, name: str, receiver: ast.expr | None, first: Values | None) -> Values:
        is_module = receiver is None or name_of(receiver) in ("glob", "os")
        roots = [self.at_home(one) for one in (first or ["."] if is_module else self.of(receiver))]  # type: ignore[arg-type]
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
            and name_of(receiver) in ("path", "os", "posixpath", "op", "osp", "p")
        )
        if is_path and not (receiver is not None and name_of(receiver) in self.names):
            return self._path(node.args)
        items = self.items(node.args[0]) if node.args else None
        if items is None or receiver is None:
            return [UNKNOWN]
        parts = [some[0] for some in items]
        if sum(map(len, parts)) > LENGTH_LIMIT:
            raise TooMuch
        return [one.join(parts) for one in self.of(receiver) if len(one) < _JOINER_LIMIT]

    def items(self, node: ast.expr) -> list[Values] | None:
        """The items of a sequence, each with its possible values. None if the items are unknown."""
        if isinstance(node, ast.Name) and (node.id in self.lists) and not isinstance(self.lists[node.id], ast.Name):
            return self.items(self.lists[node.id])
        if isinstance(node, ast.List | ast.Tuple):
            return [self.of(one) for one in node.elts[:_ITEMS_LIMIT]]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.items(node.left), self.items(node.right)
            return None if left is None or right is None else [*left, *right][:_ITEMS_LIMIT]
        if (
            isinstance(node, ast.Call)
            and name_of(node.func) == "map"
            and len(node.args) == 2
            and name_of(node.args[0]) == "chr"
        ):
            items = self.items(node.args[1])
            return None if items is None else [[python_calls.DECODERS["chr"](some[0])] for some in items]
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            return self._comprehended(node)
        if isinstance(node, ast.Call) and name_of(node.func) in ("reversed",) and node.args:
            items = self.items(node.args[0])
            return None if items is None else items[::-1]
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return [[char] for char in python_calls.text_of(node.value)[:_ITEMS_LIMIT]]
        return None

    def _comprehended(self, node: ast.ListComp | ast.GeneratorExp) -> list[Values] | None:
        items = self.items(node.generators[0].iter)
        if items is None or not isinstance(node.generators[0].target, ast.Name):
            return None
        found: list[Values] = []
        for some in items:
            self.names[node.generators[0].target.id] = some
            self._known = {}
            found.append(self.of(node.elt))
        return found

    def _path(self, nodes: Sequence[ast.expr]) -> Values:
        found = self.of(nodes[0]) if nodes else [UNKNOWN]
        for one in nodes[1:]:
            found = product(found, self.of(one), python_calls.joined)
        return found

    def _variable(self, name: str) -> Values:
        if name == "HOME":
            return list(self._scene.homes)
        return [self._scene.environment[name]] if name in self._scene.environment else [UNKNOWN]

    def at_home(self, text: str) -> str:
        """A path with `~` replaced by the first home directory."""
        return (self._scene.homes or (UNKNOWN,))[0] + text[1:] if re.match(r"~(?=/|$)", text) else text


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name. Empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
