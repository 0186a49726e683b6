"""Prints the weight of this checkout, beside what it was and what is aimed at. `cargo xtask measure` runs it.

With --build it also builds, in an empty target folder, as a newcomer's machine does: with cargo's own settings.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import structure

ROOT = Path.cwd()
CARGO = os.environ["CARGO"]
FOLDER = Path(os.environ["TARGET"]) / "measure"

# What it was at commit 546cb79b, on two cores, and the aim. None: not measured, or no aim.
ROWS: dict[str, tuple[float | None, float | None]] = {
    "code lines of the product": (158_771, 140_000),
    "code lines for development": (15_140, 11_000),
    "code lines of tests": (86_802, None),
    "Rust files of the product": (1_618, 1_050),
    "lines of a file, median": (110, None),
    "lines of a file, 95 of 100": (336, None),
    "circles of modules": (21, 0),
    "files in the largest circle": (335, 0),
    "tuples of three and more": (91, 15),
    "crates": (25, None),
    "migrations": (67, None),
    "lines of SQL functions": (600, 250),
    "lines of xtask": (5_814, 1_900),
    "words of Markdown": (41_886, 30_000),
    "packages in the lock file": (555, 500),
    "packages built for the binary": (440, 380),
    "crates compiled twice": (87, 0),
    "crates compiled again for macros": (78, None),
    "first command until ready, s": (1_011, 270),
    "first command, CPU s": (1_830, None),
    "changed line in api: build, s": (None, 12),
    "changed line in store: build, s": (None, 25),
    "changed line in domain: build, s": (None, 40),
    "changed line: xtask quick, s": (None, 45),
    "release build, s": (1_020, 600),
    "release build, CPU s": (1_920, 1_020),
    "release binary, MB": (106, 75),
    "memory at rest, release, MB": (60, 40),
}
# Where a line is changed: a handler, a statement, a rule.
CHANGED = {
    "api": "crates/api/src/plans/create.rs",
    "store": "crates/store/src/run/lease.rs",
    "domain": "crates/domain/src/agent/mod.rs",
}


def status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def output(*command: str, **variables: str) -> str:
    environment = {**os.environ, "SQLX_OFFLINE": "true", **variables}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def compiled_twice() -> tuple[dict[str, list[str]], int]:
    """Crates of which the program and the tests link libraries that differ, each with what is particular to each library: nothing,
    if only its dependencies are. And the number of crates that are compiled again for macros and build scripts.

    Cargo plans both builds without building: a library differs if its profile, its features or one of its dependencies do.
    """
    linked: dict[str, dict[str, set[str]]] = defaultdict(dict)
    every: dict[str, set[str]] = defaultdict(set)
    for command in [["build", "-p", "houston-cli"], ["test", "--workspace", "--no-run"]]:
        plan = output(CARGO, *command, "--locked", "--unit-graph", "-Zunstable-options", RUSTC_BOOTSTRAP="1")
        plan = json.loads(plan)
        units, shapes = plan["units"], {}

        def shape(at: int, units: list[dict] = units, shapes: dict[int, str] = shapes) -> str:
            if at not in shapes:
                unit = units[at]
                profile = {key: value for key, value in unit["profile"].items() if key != "name"}
                below = sorted(shape(dependency["index"]) for dependency in unit["dependencies"])
                own = [unit[key] for key in ("pkg_id", "target", "platform", "mode", "features")]
                shapes[at] = hashlib.sha256(json.dumps([own, profile, below]).encode()).hexdigest()
            return shapes[at]

        is_for_compiler = lambda unit: unit["target"]["kind"][0] in ("proc-macro", "custom-build")
        todo, in_program = list(plan["roots"]), set()
        while todo:
            at = todo.pop()
            if at not in in_program and not is_for_compiler(units[at]):
                in_program.add(at)
                todo += [dependency["index"] for dependency in units[at]["dependencies"]]
        for at, unit in enumerate(units):
            if unit["mode"] == "build" and unit["target"]["kind"][0] in ("lib", "rlib"):
                package = re.split("[/#]", unit["pkg_id"])[-1]
                every[package].add(shape(at))
                if at in in_program:
                    linked[package][shape(at)] = {*unit["features"], f"opt-level={unit['profile']['opt_level']}"}
    twice = {package: list(own.values()) for package, own in sorted(linked.items()) if len(own) > 1}
    particular = {package: [" ".join(sorted(one - set.intersection(*own))) for one in own] for package, own in twice.items()}
    return particular, sum(len(every[package]) > len(own) for package, own in linked.items())


def timed(name: str, *command: str) -> tuple[float, float]:
    """Runs a command with its output on stderr; returns its wall and processor time."""
    status(f"── {name}: {' '.join(command)}")
    own = ("CARGO_INCREMENTAL", "CARGO_PROFILE_", "RUSTFLAGS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment |= {"CARGO_TARGET_DIR": str(FOLDER)}
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    began, before = time.monotonic(), used()
    subprocess.run(command, env=environment, stdout=sys.stderr, check=True)
    wall, processor = time.monotonic() - began, used() - before
    status(f"   {wall:.0f} s, {processor:.0f} s of processor time")
    return round(wall, 1), round(processor, 1)


@contextlib.contextmanager
def dev(binary: Path) -> Iterator[subprocess.Popen[str]]:
    """`houston dev` in an empty folder, from when it is ready."""
    with tempfile.TemporaryDirectory(prefix="houston-m-") as home:
        os.chmod(home, 0o755)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "HOUSTON_MODEL": "simulated"}
        command = [str(binary), "dev", "--address", "127.0.0.1:0"]
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(process.stdout.readline, "")
            address = next((re.search(r"http://\S+", line)[0] for line in lines if "is up at" in line), None)
            if not address:
                sys.exit("houston dev ended before it was ready")
            urllib.request.urlopen(address.rstrip("/") + "/readyz", timeout=30).read()
            yield process
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def changed_line(path: str) -> Iterator[None]:
    """A line more at the start of a file, so that what follows is at other lines."""
    file = ROOT / path
    text = file.read_text()
    file.write_text(f"// Measured at {time.time()}.\n{text}")
    try:
        yield
    finally:
        file.write_text(text)


def builds() -> dict[str, float]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    found: dict[str, float] = {}
    wall, found["first command, CPU s"] = timed("first command", CARGO, "build", "--timings")
    began = time.monotonic()
    with dev(FOLDER / "debug/houston"):
        found["first command until ready, s"] = round(wall + time.monotonic() - began, 1)
    units = re.search(r"UNIT_DATA = (\[.*?\]);", (FOLDER / "cargo-timings/cargo-timing.html").read_text(), re.DOTALL)
    longest = sorted(json.loads(units[1]), key=lambda unit: -unit["duration"])[:10]
    status("   longest units: " + ", ".join(f"{unit['name']} {unit['duration']:.0f} s" for unit in longest))
    # A folder of incremental compilation is written by the first build.
    for crate, path in CHANGED.items():
        with changed_line(path):
            found[f"changed line in {crate}: build, s"], _ = timed(f"changed line in {crate}", CARGO, "build")
        timed("the line restored", CARGO, "build")
    timed("quick, the first time", CARGO, "xtask", "quick", "api")
    with changed_line(CHANGED["api"]):
        found["changed line: xtask quick, s"], _ = timed("changed line in api", CARGO, "xtask", "quick", "api")
    wall, processor = timed("release", CARGO, "build", "--release")
    found |= {"release build, s": wall, "release build, CPU s": processor}
    binary = FOLDER / "release/houston"
    found["release binary, MB"] = round(binary.stat().st_size / 1e6, 1)
    with dev(binary) as process:
        status("── memory at rest: 20 s")
        time.sleep(20)
        memory = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        found["memory at rest, release, MB"] = round(int(memory[1]) / 1e3, 1)
    return found


def mark(now: float, aim: float | None) -> str:
    if aim is None:
        return ""
    return "ok" if now <= aim else f"{now / aim:.1f}×" if aim else "above"


def main() -> None:
    found: dict[str, float] = dict(structure.measure(ROOT))
    found["packages in the lock file"] = (ROOT / "Cargo.lock").read_text().count("[[package]]")
    tree = output(CARGO, "tree", "-p", "houston-cli", "-e", "normal,build", "--prefix", "none", "--locked")
    found["packages built for the binary"] = len({tuple(line.split()[:2]) for line in tree.splitlines() if line})
    twice, found["crates compiled again for macros"] = compiled_twice()
    found["crates compiled twice"] = len(twice)
    if "--build" in sys.argv:
        found |= builds()
    if "--json" in sys.argv:
        rows = {name: {"before": ROWS[name][0], "now": now, "aim": ROWS[name][1]} for name, now in found.items()}
        print(json.dumps({"rows": rows, "compiled twice": twice}, indent=1))
        return
    for package, own in twice.items():
        if any(own):
            print(f"compiled twice: {package}: {' | '.join(one or '-' for one in own)}")
    number = lambda value: "–" if value is None else f"{value:,}"
    print(f"{'':34}{'546cb79b':>10}{'now':>10}{'aim':>10}")
    for name, (before, aim) in ROWS.items():
        if name in found:
            print(f"{name:34}{number(before):>10}{number(found[name]):>10}{number(aim):>10}  {mark(found[name], aim)}".rstrip())


main()
