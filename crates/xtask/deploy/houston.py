"""The files of deploy/, and the binary that they start."""

import functools
import os
import subprocess
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(os.environ["HOUSTON_ROOT"])
DEPLOY = ROOT / "deploy"
BINARY = os.environ["HOUSTON_BINARY"]

# Read by Houston, but no settings of jobs/: addresses, keys of providers, folders.
ELSEWHERE = {
    "DATABASE_URL",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "HOUSTON_FOLDER",
    "HOUSTON_JOBS",
    "HOUSTON_SECRETS_KEY",
}
# A value of the right type, for settings whose value is not in the file.
VALUES = {"HOUSTON_MODEL": "auto", "HOUSTON_REDIS_URL": "redis://127.0.0.1"}


def without(program: str, package: str) -> NoReturn:
    """Fails a test because a program is missing; skips it if the caller has allowed that."""
    message = f"{program} is missing: install the package {package}"
    if os.environ.get("HOUSTON_SKIP_MISSING"):
        pytest.skip(message)
    pytest.fail(f"{message}, or go on without by --skip-missing")


@functools.cache
def houston(*arguments: str, variables: tuple[tuple[str, str], ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the binary with nothing but these variables."""
    environment = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", **dict(variables)}
    return subprocess.run([BINARY, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)


def assert_settings(variables: dict[str, object]) -> None:
    """Asserts that Houston reads each of these variables, and takes its value."""
    settings = {name: str(value) for name, value in variables.items() if name not in ELSEWHERE}
    for name, value in settings.items():
        if not value or "$" in value:
            settings[name] = VALUES[name]
    assert all(name.startswith("HOUSTON_") for name in settings), settings
    shown = houston("config", "show", variables=tuple(sorted(settings.items())))
    assert shown.returncode == 0, shown.stderr


def assert_command(arguments: list[str]) -> None:
    """Asserts that the binary has this command with these options."""
    names = [word for word in arguments if not word.startswith("-")][:1]
    shown = houston(*names, "--help")
    assert shown.returncode == 0, f"{arguments}: {shown.stderr}"
    for option in [word for word in arguments if word.startswith("--")]:
        assert f"{option}" in shown.stdout, f"`houston {' '.join(names)}` has no {option}"


def setting(file: str, *path: str) -> int:
    """A number of jobs/."""
    value = tomllib.loads((ROOT / "jobs" / file).read_text())
    for key in path:
        value = value[key]
    return value


# The most seconds in which a process ends after SIGTERM: the drain, the lease, and what is closed.
STOPS_WITHIN = setting("orchestrator.toml", "worker", "drain_s") + 5
# What a process waits for Postgres at its start.
STARTS_WITHIN = setting("orchestrator.toml", "startup", "wait_s")
