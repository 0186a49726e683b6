"""nginx and Caddy accept their files. What they do with streams: crates/cli/tests/clients/deploy.test.mjs."""

import shutil
import subprocess
import sys
from pathlib import Path

from houston import DEPLOY, without


def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    openssl = shutil.which("openssl")
    if not nginx:
        without("nginx", "nginx")
    if not openssl:
        without("openssl", "openssl")
    certificate, key = tmp_path / "fullchain.pem", tmp_path / "privkey.pem"
    make = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subprocess.run([*make, "-subj", "/CN=x", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    site = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/houston", str(tmp_path))
    # A port that needs no rights; it is not opened.
    (tmp_path / "site.conf").write_text(site.replace("443", "8443"))
    config = tmp_path / "nginx.conf"
    config.write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; include {tmp_path}/site.conf; }}")
    tested = subprocess.run([nginx, "-t", "-c", config, "-e", "stderr"], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr


def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    caddy = Path(sys.executable).with_name("caddy")
    file = str(DEPLOY / "Caddyfile")
    validated = subprocess.run(
        [caddy, "validate", "--adapter", "caddyfile", "--config", file],
        env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )
    assert validated.returncode == 0, validated.stderr
    formatted = subprocess.run([caddy, "fmt", file], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert formatted.stdout == Path(file).read_text()
