"""`deploy/packages/pack`: names, versions and contents of packages. `cargo xtask package --check` installs and runs them."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from houston import DEPLOY, without

# A program that packages can be made of.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    char command[4096];
    if (strcmp(words[1], "man")) return puts(strcmp(words[1], "--version") ? "complete" : "houston " VERSION) < 0;
    snprintf(command, sizeof command, "mkdir -p '%s' && touch '%s/houston.1' '%s/houston-dev.1'", words[2], words[2], words[2]);
    return system(command);
}
"""
SUFFIXES = {"tarball": ".tar.gz", "deb": ".deb", "wheel": ".whl", "npm": ".tgz"}


def pack(folder: Path, version: str, level: int = 1, kinds: tuple[str, ...] = tuple(SUFFIXES)) -> subprocess.CompletedProcess[str]:
    for program, package in [("cc", "gcc"), ("readelf", "binutils"), ("dpkg-deb", "dpkg")]:
        if not shutil.which(program):
            without(program, package)
    binary = folder / "program"
    compiler = ["cc", "-x", "c", f'-DVERSION="{version}"', "-o", str(binary), "-"]
    subprocess.run(compiler, input=PROGRAM, text=True, check=True)
    command = [str(DEPLOY / "packages/pack"), str(binary), str(folder / f"level-{level}"), str(level), *kinds]
    return subprocess.run(command, env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}, capture_output=True, text=True, check=False)


def packed(folder: Path, version: str, level: int = 1) -> dict[str, Path]:
    made = pack(folder, version, level)
    assert made.returncode == 0, made.stderr
    return dict(zip(SUFFIXES, map(Path, made.stdout.splitlines()), strict=True))


@pytest.mark.parametrize(
    ("version", "debian", "python"),
    [
        ("1.2.0", "1.2.0", "1.2.0"),
        ("1.2.0-rc.1", "1.2.0~rc.1", "1.2.0rc1"),
        ("1.2.0-alpha", "1.2.0~alpha", "1.2.0a0"),
        ("1.2.0-beta2", "1.2.0~beta2", "1.2.0b2"),
        ("1.2.0-rc.1+Build-7", "1.2.0~rc.1+Build.7", "1.2.0rc1+build.7"),
        ("1.2.0+a-b", "1.2.0+a.b", "1.2.0+a.b"),
    ],
)
def test_each_format_writes_the_version_as_it_sorts_it(tmp_path: Path, version: str, debian: str, python: str) -> None:
    names = {kind: path.name for kind, path in packed(tmp_path, version).items()}
    assert names["tarball"].startswith(f"houston-{version}-")
    assert names["npm"].startswith(f"houston-{version}-linux-")
    assert names["deb"].startswith(f"houston_{debian}_")
    assert names["wheel"].startswith(f"houston-{python}-py3-none-manylinux_2_")


@pytest.mark.parametrize("version", ["1.2.0-nightly.3", "1.2.0-rc.1.2", "1.2.0-1"])
def test_wheels_refuse_pre_releases_that_python_does_not_know(tmp_path: Path, version: str) -> None:
    made = pack(tmp_path, version, kinds=("wheel",))
    assert made.returncode != 0
    assert version in made.stderr and "alpha.1, beta.1 or rc.1" in made.stderr


def test_same_binary_gives_the_same_bytes(tmp_path: Path) -> None:
    def sums(level: int) -> str:
        return (packed(tmp_path, "1.2.3", level)["deb"].parent / "SHA256SUMS").read_text()

    assert sums(1) == sums(1) != sums(9)


def test_files_are_where_their_installers_put_them(tmp_path: Path) -> None:
    packages = packed(tmp_path, "1.2.3")
    for kind, wanted in {
        "tarball": ["share/man/man1/houston-dev.1", "share/bash-completion/completions/houston", "systemd/houston-serve.service"],
        "npm": ["package.json", "README.md", "LICENSE"],
    }.items():
        members = {member.name.partition("/")[2]: member for member in tarfile.open(packages[kind])}
        assert all((member.mtime, member.uid, member.uname) == (315532800, 0, "root") for member in members.values())
        assert members["bin/houston"].mode == 0o755
        assert all(members[path].mode == 0o644 for path in wanted)
    manifest = json.load(tarfile.open(packages["npm"]).extractfile("package/package.json"))
    assert (manifest["os"], len(manifest["cpu"]), manifest["bin"]) == (["linux"], 1, {"houston": "bin/houston"})
    dpkg = lambda *words: subprocess.run(["dpkg-deb", *words], capture_output=True, text=True, check=True).stdout
    control = dpkg("--info", str(packages["deb"]), "control", "conffiles")
    for wanted in ["Version: 1.2.3\n", "Depends: libc6 (>= 2.", " deployments: every step", "\n/etc/houston/houston.env\n"]:
        assert wanted in control
    files = dpkg("--contents", str(packages["deb"])).splitlines()
    modes = {line.split()[-1]: line[:22].strip() for line in files}
    assert modes["./etc/houston/houston.env"] == "-rw------- root/root", "only root reads passwords"
    for wanted in ["./usr/share/doc/houston/copyright", "./usr/lib/systemd/system/houston-serve.service"]:
        assert modes[wanted] == "-rw-r--r-- root/root"
    wheel = zipfile.ZipFile(packages["wheel"])
    assert wheel.getinfo("houston-1.2.3.data/scripts/houston").external_attr >> 16 & 0o777 == 0o755
    assert "License-Expression: MIT OR Apache-2.0" in wheel.read("houston-1.2.3.dist-info/METADATA").decode()
