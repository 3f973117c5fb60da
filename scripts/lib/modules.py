"""Reads the modules of a crate: the types that they define, and the modules that they import from.

This is no parser of Rust: it reads `mod`, `use` and item lines, which rustfmt writes in one way only.
"""

import re

VISIBILITY = r"(?:pub(?:\([^)]*\))?\s+)?"
ITEM = re.compile(
    rf"^\s*{VISIBILITY}(?:(?:async|const|unsafe|default|extern \"C\")\s+)*"
    r"(?:fn|struct|enum|trait|type|union|const|static|macro_rules!|mod)\s+(\w+)", re.M)
TYPE = re.compile(rf"^[ ]{{0,8}}{VISIBILITY}(?:unsafe\s+)?(struct|enum|trait|union|type)\s+(\w+)", re.M)
USE = re.compile(rf"^\s*{VISIBILITY}use\s+([^;]+);", re.M)
# A path in an expression or a signature.
PATH = re.compile(r"(?<![\w:])((?:crate|super|self)(?:::\w+)+)")


def without_comments(text):
    return re.sub(r"(?m)(^|\s)//.*$", r"\1", text)


def without_tests(text):
    """Removes `#[cfg(test)] mod tests { ... }`, whose closing brace is in the first column."""
    return re.sub(r"(?ms)^#\[cfg\(test\)\]\nmod \w+ \{.*?^\}$", "", text)


def type_names(text):
    """The names of the types that a file defines, without associated types."""
    for found in TYPE.finditer(without_comments(text)):
        is_indented = found[0].startswith(" ")
        if found[1] != "type" or not is_indented:
            yield found[2]


def imported_paths(tree, prefix=()):
    """The paths of a `use`, each with its name in the file: `a::{b, c::d as e}` is (a, b) as b and (a, c, d) as e."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, alias = head.partition(" as ")
        path = prefix + segments(path)
        if path[-1:] == ("self",):
            path = path[:-1]
        if path:
            yield path, alias.strip() or path[-1]
        return
    for branch in branches(rest):
        yield from imported_paths(branch, prefix + segments(head))


def segments(path):
    return tuple(segment.strip() for segment in path.split("::") if segment.strip())


def branches(text):
    """Splits at the commas that are in no braces, up to the brace that closes the list."""
    depth, branch = 0, ""
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0 or character == "," and depth == 0:
            if branch.strip():
                yield branch
            branch = ""
            if depth < 0:
                return
        else:
            branch += character


class Crate:
    """The modules of one crate. A module is the tuple of its path; `()` is lib.rs or main.rs."""

    def __init__(self, files):
        """`files` has the text of each module."""
        self.texts = {module: without_tests(without_comments(text)) for module, text in files.items()}
        self.items = {module: set(ITEM.findall(text)) for module, text in self.texts.items()}
        self.uses = {
            module: [imported for use in USE.findall(text) for imported in imported_paths(use)]
            for module, text in self.texts.items()}

    def absolute(self, module, path):
        """A path that `module` contains, from the root of the crate; None if it leads to another crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] in ("self", "super"):
            while path and path[0] in ("self", "super"):
                if path[0] == "super":
                    module = module[:-1]
                path = path[1:]
            return module + path
        if (*module, path[0]) in self.texts or path[0] in self.items[module]:
            return module + path
        return None

    def defining_module(self, path, visited=frozenset()):
        """The module that defines the item of a path, through re-exports."""
        if path in self.texts:
            return path
        module = path[:-1]
        while module not in self.texts:
            path, module = module, module[:-1]
        if path in visited:
            return module
        for imported, name in self.uses[module]:
            target = self.absolute(module, imported)
            if target and name == path[-1] and target != path:
                return self.defining_module(target, visited | {path})
        return module

    def imports(self):
        """For each module those that it imports from, apart from the modules above and below it."""
        graph = {}
        for module, text in self.texts.items():
            paths = [path for path, _ in self.uses[module]]
            paths += [segments(path) for path in PATH.findall(USE.sub("", text))]
            targets = filter(None, (self.absolute(module, path) for path in paths))
            defining = {self.defining_module(target) for target in targets}
            graph[module] = {
                other for other in defining if other[: len(module)] != module and module[: len(other)] != other}
        return graph

    def cycles(self):
        """Groups of modules that import each other: the strongly connected components of the imports (Tarjan 1972)."""
        graph, numbers, lowest, stack, groups = self.imports(), {}, {}, [], []

        def visit(module):
            numbers[module] = lowest[module] = len(numbers)
            stack.append(module)
            for other in sorted(graph.get(module, ())):
                if other not in numbers:
                    visit(other)
                    lowest[module] = min(lowest[module], lowest[other])
                elif other in stack:
                    lowest[module] = min(lowest[module], numbers[other])
            if lowest[module] == numbers[module]:
                group = stack[stack.index(module):]
                del stack[stack.index(module):]
                if len(group) > 1:
                    groups.append(sorted(group))

        for module in sorted(graph):
            if module not in numbers:
                visit(module)
        return sorted(groups)


def read_crate(directory):
    """The crate with its sources in a directory, without files of tests."""
    files = {}
    for file in sorted(directory.rglob("*.rs")):
        module = file.relative_to(directory).with_suffix("").parts
        if any(name == "tests" or name.endswith("_tests") for name in module):
            continue
        if module[-1] in ("mod", "lib", "main"):
            module = module[:-1]
        files[module] = file.read_text()
    return Crate(files)


def self_test():
    def cycles(**files):
        crate = Crate({(): "mod a;\nmod b;\nmod c;", **{tuple(name.split("_")): text for name, text in files.items()}})
        return ["+".join("::".join(module) for module in group) for group in crate.cycles()]

    assert list(imported_paths("a::{self, b, c::{d as e, f},}")) == [
        (("a",), "a"), (("a", "b"), "b"), (("a", "c", "d"), "e"), (("a", "c", "f"), "f")]
    assert list(type_names("pub struct A;\nenum B {}\n    type C = u8;\ntype D = u8;\n// struct E;\nfn f() {\n    struct F;\n}")) == [
        "A", "B", "D", "F"]
    # A cycle by `use`, by paths in code, through a re-export, and of three.
    assert cycles(a="use crate::b::f;", b="use super::a::{self, g};") == ["a+b"]
    assert cycles(a="fn g() { crate::b::f() }", b="fn f() { super::a::g() }") == ["a+b"]
    assert cycles(a="mod x;\npub use x::X;\nuse crate::b::Y;", a_x="use crate::b::Y;\npub struct X;", b="use crate::a::X;\npub struct Y;") == [
        "a::x+b"]
    assert cycles(a="use crate::b::f;", b="use crate::c::f;", c="use crate::a::f;") == ["a+b+c"]
    # A module and its child, comments, tests and other crates make none.
    assert not cycles(a="mod x;\nuse x::X;", a_x="use super::f;\npub struct X;")
    assert not cycles(a="use crate::b::f; // and back", b="// use crate::a::g;")
    assert not cycles(a="use crate::b::f;", b="#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}")
    assert not cycles(a="use crate::b::f;", b="use a_crate::a::g;\nuse tokio::a;")
