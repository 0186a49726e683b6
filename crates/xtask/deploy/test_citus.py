"""Houston's tables under other schema names, as on Citus: every statement is executed, and a message opens a run. The packages here have no
Citus, so that it is a plain Postgres; without `--plain` the script says so, with an exit code of its own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from houston import DEPLOY, without

SKIPPED = 77
SCRIPT = DEPLOY / "citus/citus.py"


def programs() -> Path | None:
    """The folder with Postgres's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else next(iter(installed), None)


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Postgres that only a socket reaches."""
    folder = programs()
    if folder is None:
        without("initdb", "postgresql")
    data = tmp_path_factory.mktemp("citus")
    # Postgres refuses to run as root.
    as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if as_user:
        for path in [data, data.parent, data.parent.parent]:
            path.chmod(0o755)
        shutil.chown(data, "postgres")

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], check=True, cwd=data, stdout=subprocess.DEVNULL, **as_user)

    run(folder / "initdb", "-D", data / "pg", "-A", "trust", "-U", "postgres", "--no-sync")
    settings = f"-c listen_addresses= -c unix_socket_directories={data} -c fsync=off"
    run(folder / "pg_ctl", "-D", data / "pg", "-w", "-l", data / "log", "-o", settings, "start")
    try:
        yield f"postgresql:///postgres?host={data}&user=postgres"
    finally:
        run(folder / "pg_ctl", "-D", data / "pg", "-m", "immediate", "stop")


def test_every_statement_is_executed_in_each_schema(url: str) -> None:
    def citus(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DATABASE_URL": url}
        return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)

    without = citus()
    assert (without.returncode, without.stderr[:8]) == (SKIPPED, "skipped:"), without
    for _ in range(2):
        done = citus("--plain")
        assert done.returncode == 0 and "0 texts are refused" in done.stdout, done
        assert done.stdout.count("a message opened a run") == 2, done
