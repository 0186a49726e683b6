"""The structure of a checkout, read from its files."""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FOR_DEVELOPMENT = {"testkit", "harness", "verify", "xtask", "faults"}
TEST_FOLDERS = {"tests", "benches", "examples", "fuzz"}


def is_for_tests(path: str) -> bool:
    *folders, name = path.split("/")
    return bool(TEST_FOLDERS & set(folders)) or name in ("tests.rs", "test.rs")


def count_code(text: str) -> tuple[int, int]:
    """Lines of code outside and inside of `#[cfg(test)]`, without blank lines and comments."""
    code = test = 0
    depth = None  # of braces, inside a test module
    pending = comment = False
    for line in map(str.strip, text.splitlines()):
        if comment or line.startswith("/*"):
            comment = "*/" not in line
            continue
        if not line or line.startswith("//"):
            continue
        if depth is not None:
            test += 1
            depth += line.count("{") - line.count("}")
            depth = depth if depth > 0 else None
            continue
        pending = pending or line.startswith(("#[cfg(test)]", "#[cfg(all(test"))
        item = r"(pub(\([a-z]+\))? )?(mod|fn|impl|async fn|struct|use|const)\b"
        if not (pending and re.match(item, line)):
            code += 1
            continue
        pending = False
        test += 1
        if line.endswith("{"):
            depth = 1
    return code, test


def components(graph: dict[str, set[str]]) -> Iterable[set[str]]:
    """The modules that reach each other."""
    def reached(start: str) -> set[str]:
        found, todo = set(), [start]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    reaches = {module: reached(module) for module in graph}
    circles = {frozenset(b for b in reaches[a] if a in reaches[b]) for a in graph if a in reaches[a]}
    return [set(circle) for circle in circles if len(circle) > 1]


def circles(texts: dict[str, str]) -> tuple[int, int, str]:
    """Circles of top-level modules of a crate; the files of the largest, and its crate."""
    files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in texts:
        _, crate, _, inside = path.split("/", 3)
        files[crate][inside.split("/")[0].removesuffix(".rs")].append(path)
    found = []
    for crate, modules in files.items():
        names = set(modules) - {"lib", "main"}
        graph: dict[str, set[str]] = {name: set() for name in names}
        for name in names:
            for path in modules[name]:
                code = re.sub(r"(?m)^\s*//.*$", "", texts[path])
                for match in re.finditer(r"\bcrate::(?:\{([^;]*?)\}|([a-z_0-9]+))", code):
                    used = [match[2]] if match[2] else re.findall(r"(?:^|,)\s*([a-z_0-9]+)", match[1])
                    graph[name] |= {other for other in used if other in names and other != name}
        found += [(sum(len(modules[name]) for name in circle), crate) for circle in components(graph)]
    return len(found), *max(found, default=(0, ""))


def count_tuples(text: str) -> int:
    """Tuples of three and more in signatures of functions."""
    count = 0
    for match in re.finditer(r"fn \w+[^{;]*?(?=[{;])", re.sub(r"(?m)^\s*//.*$", "", text)):
        arguments = match[0][match[0].find("(") + 1 :]
        tuples = re.findall(r"(?<![\w>])\(([^()]*(?:\([^()]*\)[^()]*)*)\)", arguments)
        count += sum(inside.count(",") >= 2 and ":" not in inside.split(",")[0] for inside in tuples)
    return count


def measure(root: Path) -> dict[str, int]:
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout
    tracked = [path for path in listed.splitlines() if (root / path).is_file()]
    read = lambda path: (root / path).read_text(errors="replace")
    texts = {path: read(path) for path in tracked if path.endswith(".rs")}
    product, sizes = {}, []
    code = development = tests = 0
    for path, text in texts.items():
        lines, of_tests = count_code(text)
        if is_for_tests(path):
            tests += lines + of_tests
            continue
        tests += of_tests
        if path.split("/")[1] in FOR_DEVELOPMENT:
            development += lines
        else:
            code += lines
            product[path] = text
            sizes.append(len(text.splitlines()))
    in_source = {path: text for path, text in product.items() if path.split("/")[2] == "src"}
    count, largest, _ = circles(in_source)
    sizes.sort()
    lines = lambda paths: sum(len(read(path).splitlines()) for path in paths)
    return {
        "code lines of the product": code,
        "code lines for development": development,
        "code lines of tests": tests,
        "Rust files of the product": len(product),
        "lines of a file, median": sizes[len(sizes) // 2],
        "lines of a file, 95 of 100": sizes[int(len(sizes) * 0.95)],
        "circles of modules": count,
        "files in the largest circle": largest,
        "tuples of three and more": sum(map(count_tuples, product.values())),
        "crates": len({path.split("/")[1] for path in texts}),
        "migrations": sum(path.startswith("migrations/") and path.count("/") == 1 and path.endswith(".sql") for path in tracked),
        "lines of SQL functions": lines(path for path in tracked if path.startswith("migrations/functions/")),
        "lines of xtask": lines(path for path in texts if path.startswith("crates/xtask/")),
        "words of Markdown": sum(len(read(path).split()) for path in tracked if path.endswith(".md")),
    }
