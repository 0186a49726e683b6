"""The units of systemd: what systemd says of them, and what Houston needs."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from houston import BINARY, DEPLOY, STARTS_WITHIN, STOPS_WITHIN, assert_command, assert_settings, without

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
NAMES = [unit.name for unit in UNITS]


class Section(dict[str, list[str]]):
    """The values of a section; a name may occur several times."""

    def one(self, name: str) -> str:
        assert len(self.get(name, [])) == 1, f"{name}: {self.get(name)}"
        return self[name][0]


def sections(unit: Path) -> dict[str, Section]:
    found: dict[str, Section] = {}
    section = Section()
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), Section())
        elif line and not line.startswith("#"):
            name, value = line.split("=", 1)
            section.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        without("systemd-analyze", "systemd")
    for other in UNITS:
        (tmp_path / other.name).write_text(other.read_text().replace("/usr/bin/houston", BINARY))
    copy = str(tmp_path / unit.name)
    verified = subprocess.run([analyze, "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    # Of other units of this machine it may say something, too.
    about = [line for line in verified.stderr.splitlines() if "houston" in line]
    assert (verified.returncode, about) == (0, []), verified.stderr
    # From 0 (nothing is allowed) to 10; what keeps it from 0 is the network.
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", "--threshold=20", copy],
        capture_output=True, text=True, check=False,
    )
    assert rated.returncode == 0, rated.stdout


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_unit_starts_a_command_with_settings_that_exist(unit: Path) -> None:
    service = sections(unit)["Service"]
    program, *arguments = service.one("ExecStart").split()
    assert program == "/usr/bin/houston"
    assert_command(arguments)
    variables = " ".join(service["Environment"]).split()
    assert_settings(dict(variable.split("=", 1) for variable in variables))


@pytest.mark.parametrize("name", ["serve", "work"])
def test_processes_get_the_time_they_need(name: str) -> None:
    service = sections(DEPLOY / f"systemd/houston-{name}.service")["Service"]
    assert service.one("Type") == "notify"
    assert int(service.one("TimeoutStopSec")) > STOPS_WITHIN
    assert int(service.one("TimeoutStartSec")) > STARTS_WITHIN
    # A process whose runtime is blocked for a minute keeps its runs.
    assert int(service.one("WatchdogSec")) >= 120
    assert service.one("RestartPreventExitStatus") == "2"


def test_lines_of_the_settings_file_are_settings() -> None:
    text = (DEPLOY / "systemd/houston.env").read_text()
    lines = [line.removeprefix("#") for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")]
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string("[all]\n" + "\n".join(lines))
    assert len(parser["all"]) >= 7
    assert_settings(dict(parser["all"]))
    assert not [line for line in text.splitlines() if line and not line.startswith("#")], "nothing is set in the shipped file"
