"""The image and the compose file. There is no Docker where this runs: they are read, not started."""

import re
from typing import Any

import pytest
import yaml
from houston import DEPLOY, STOPS_WITHIN, assert_command, assert_settings

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {"migrate", "serve", "work"}
ROOT_USERS = {"", "0", "root", "0:0"}


def seconds(text: str) -> int:
    assert (found := re.fullmatch(r"(\d+)s", text)), text
    return int(found[1])


def assert_pinned(image: str) -> None:
    """A tag with a version, or a digest."""
    name, _, tag = image.rpartition(":")
    assert name and "latest" not in tag, image
    assert re.match(r"v?\d+\.\d+", tag) or "@sha256" in name, f"{image}: name a whole version or a digest"


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_checked_pinned_and_not_root(name: str) -> None:
    service = SERVICES[name]
    assert_pinned(service["image"])
    assert str(service["user"]) not in ROOT_USERS
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["restart"] in ("unless-stopped", "no")
    health = service["healthcheck"]
    assert health.get("disable") is (True if name == "migrate" else None)
    if name != "migrate":
        assert health["test"][0] == "CMD", "there is no shell in the image"
        assert seconds(health["timeout"]) <= seconds(health["interval"]) + 1


@pytest.mark.parametrize("name", sorted(OURS))
def test_houston_runs_without_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert seconds(service["stop_grace_period"]) > STOPS_WITHIN
    assert_command(service["command"])
    assert_settings(service["environment"])
    if not service["healthcheck"].get("disable"):
        program, *arguments = service["healthcheck"]["test"][1:]
        assert program == "/usr/bin/houston"
        assert_command(arguments)


def test_no_secret_is_in_the_file() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|KEY|SECRET|URL", variable) and value:
                hidden = re.sub(r"\$\{[^}]*\}", "", str(value))
                assert "://houston:@" in hidden or not re.search(r":[^/@]+@|^\w{8,}$", hidden), f"{name}: {variable}={value}"
                if "PASSWORD" in variable or variable.endswith("_KEY"):
                    assert str(value).startswith("${"), f"{name}: {variable} has a value in the file"


def test_services_wait_for_healthy_ones() -> None:
    for name, service in SERVICES.items():
        for other, rule in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other == "migrate" else "service_healthy"
            assert rule == {"condition": wanted}, f"{name} → {other}"
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_monitoring_reads_what_is_shipped() -> None:
    """Nothing of it starts unasked, and each file is where its reader looks."""
    monitoring = {name for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]}
    assert monitoring == {"prometheus", "grafana"}
    mounted: dict[str, str] = {}
    for name in monitoring:
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])
        mounted |= {entry["target"]: COMPOSE["configs"][entry["source"]]["file"] for entry in SERVICES[name]["configs"]}
    assert {DEPLOY / file for file in mounted.values()} == {
        *DEPLOY.glob("prometheus/*.yml"),
        *DEPLOY.glob("grafana/*.json"),
        *DEPLOY.glob("grafana/provisioning/*.yml"),
    }
    scraped = yaml.safe_load((DEPLOY / mounted["/etc/prometheus/prometheus.yml"]).read_text())
    assert all(mounted[rules] == "prometheus/rules.yml" for rules in scraped["rule_files"])
    (found,) = scraped["scrape_configs"][0]["dns_sd_configs"]
    for name in found["names"]:
        assert SERVICES[name]["environment"]["HOUSTON_METRICS_ADDRESS"] == f"0.0.0.0:{found['port']}"
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards.yml").read_text())["providers"]
    boards = {target for target, file in mounted.items() if file.endswith(".json")}
    assert boards == {f"{provider['options']['path']}/{file.name}" for file in DEPLOY.glob("grafana/*.json")}
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasource.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["isDefault"] is True


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_image_is_small_and_not_root() -> None:
    found = instructions()
    arguments = dict(rest.split("=", 1) for word, rest in found if word == "ARG")
    bases = [rest.split()[0] for word, rest in found if word == "FROM"]
    assert bases == ["${RUST}", "${BASE}"]
    assert_pinned(arguments["RUST"])
    assert "distroless" in arguments["BASE"], "no shell, no package manager"
    # Of the last stage.
    last = found[max(at for at, (word, _) in enumerate(found) if word == "FROM"):]
    assert [rest for word, rest in last if word == "USER"] == ["65532:65532"]
    assert not [rest for word, rest in last if word == "RUN"], "there is no shell that could run anything"
    (health,) = [rest for word, rest in last if word == "HEALTHCHECK"]
    command = yaml.safe_load(health[health.index("["):])
    assert command[0] == "/usr/bin/houston"
    assert_command(command[1:])
    for word, rest in last:
        if word == "ENV":
            assert_settings(dict(variable.split("=", 1) for variable in rest.split()))


def test_rust_of_the_image_is_that_of_the_repository() -> None:
    toolchain = (DEPLOY / "../rust-toolchain.toml").read_text()
    assert (version := re.search(r'channel = "([\d.]+)"', toolchain))
    rust = dict(rest.split("=", 1) for word, rest in instructions() if word == "ARG")["RUST"]
    assert f"rust:{version[1]}" in rust
