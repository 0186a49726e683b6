"""The alert rules and the expressions of the dashboards, as `promtool` reads them, and when alerts fire."""

import json
import os
import subprocess
from pathlib import Path

from houston import DEPLOY, without


def promtool(*arguments: str) -> None:
    program = os.environ.get("HOUSTON_PROMTOOL") or without("promtool", "prometheus")
    done = subprocess.run([program, *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_expressions_of_dashboards_are_valid(tmp_path: Path) -> None:
    dashboards = [json.loads(file.read_text()) for file in (DEPLOY / "grafana").glob("*.json")]
    targets = [target for board in dashboards for panel in board["panels"] for target in panel.get("targets", [])]
    # With values in the place of Grafana's variables.
    expressions = [target["expr"].replace("$__rate_interval", "5m").replace("$queue", ".*") for target in targets if "expr" in target]
    assert len(expressions) > 40
    rules = [{"record": f"panel_{nth}", "expr": expression} for nth, expression in enumerate(expressions)]
    # JSON is YAML.
    panels = tmp_path / "panels.yml"
    panels.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(DEPLOY / "prometheus/rules.yml"), str(panels))


def test_configuration_is_valid() -> None:
    # Only its syntax: the files that it names are there in the container.
    promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus/prometheus.yml"))


def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", "rules_test.yml", "rules_of_days_test.yml")
