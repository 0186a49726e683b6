"""The Helm chart: rendered by Helm's own code, and compared with the schemas of Kubernetes."""

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python import chart
from helm_python.errors import HelmError
from houston import DEPLOY, ROOT, STARTS_WITHIN, STOPS_WITHIN, assert_command, assert_settings, houston, setting

CHART = str(DEPLOY / "helm/houston")
LEAST: dict[str, Any] = {"existingSecret": "houston"}
MOST: dict[str, Any] = LEAST | {
    "image": {"digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "env": {"HOUSTON_MODEL": "simulated", "HOUSTON_HEALTH_MONITOR__REQUESTS__AUDIT_S": 7_776_000},
    "jobs": {
        "orchestrator.toml": "[worker]\nslots = 64\n",
        "agents/goal.toml": (ROOT / "jobs/agents/goal.toml").read_text(),
        "skills/weekly-review/SKILL.md": (ROOT / "jobs/skills/weekly-review/SKILL.md").read_text(),
    },
    "serve": {"autoscaling": {"enabled": True}, "nodeSelector": {"disk": "ssd"}},
    "work": {
        "keda": {"enabled": True, "apiKeySecret": {"name": "houston-keda"}},
        "tolerations": [{"key": "work", "operator": "Exists"}],
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
        "hosts": ["houston.example.com"],
        "tls": [{"secretName": "tls", "hosts": ["houston.example.com"]}],
    },
    "networkPolicy": {
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "metrics": {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
}
VARIANTS = {"least": LEAST, "most": MOST}
# Kinds of other programs, which have no schema here.
FOREIGN = {"ScaledObject", "TriggerAuthentication", "ServiceMonitor"}
# The oldest and the newest release of Kubernetes with which the chart is compared.
KUBERNETES = ["1.30", "1.37"]


@functools.cache
def rendered(variant: str) -> list[dict[str, Any]]:
    with chart.Chart.load(CHART) as loaded:
        files = loaded.render(values=VARIANTS[variant], name="demo", namespace="agents")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


def of_kind(variant: str, kind: str) -> list[dict[str, Any]]:
    return [found for found in rendered(variant) if found["kind"] == kind]


def pods(variant: str) -> list[tuple[str, dict[str, Any]]]:
    owners = of_kind(variant, "Deployment") + of_kind(variant, "Job")
    return [(owner["metadata"]["name"], owner["spec"]["template"]) for owner in owners]


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_finds_no_mistake(variant: str) -> None:
    result = chart.lint(CHART, values=VARIANTS[variant], strict=True)
    assert result["errors"] == []
    assert [message["error"] for message in result["messages"]] == ["icon is recommended"]


def test_versions_are_those_of_the_workspace() -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    described = yaml.safe_load((DEPLOY / "helm/houston/Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (version, version)
    images = re.findall(r"\bhouston:(\d+\.[^\s]*)", (DEPLOY / "README.md").read_text() + (DEPLOY / "compose.yaml").read_text())
    assert len(images) >= 3 and set(images) == {version}, "whoever copies a command gets an image that exists"


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_objects_have_the_shape_kubernetes_wants(variant: str, version: str) -> None:
    kinds = set()
    for found in rendered(variant):
        kinds.add(found["kind"])
        if found["kind"] not in FOREIGN:
            kubernetes_validate.validate(found, version, strict=True)
    assert {"Deployment", "Job", "Service", "PodDisruptionBudget", "NetworkPolicy"} <= kinds
    if variant == "most":
        assert kinds >= FOREIGN | {"Ingress", "HorizontalPodAutoscaler", "ConfigMap"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "existingSecret is required"),
        (LEAST | {"srve": {}}, "srve"),
        (LEAST | {"work": {"replicas": -1}}, "replicas"),
        (LEAST | {"image": {"digest": "sha256:1"}}, "digest"),
        (LEAST | {"work": {"keda": {"enabled": True}}}, "apiKeySecret.name is required"),
        (LEAST | {"jobs": {"../x": ""}}, "invalid propertyName"),
        (LEAST | {"jobs": {"agents/../x.toml": ""}}, "invalid propertyName"),
        (LEAST | {"metrics": {"enabled": True, "serviceMonitor": {"enabled": True}}}, "Prometheus could not reach"),
        (LEAST | {"metrics": {"enabled": True, "port": 8080}}, "metrics.port is 8080"),
        (LEAST | {"ingress": {"enabled": True}}, "ingress.hosts is empty"),
        (LEAST | {"serve": {"autoscaling": {"enabled": True, "minReplicas": 11}}}, "serve.autoscaling.minReplicas is 11"),
        (LEAST | {"work": {"keda": {"enabled": True, "minReplicas": 21, "apiKeySecret": {"name": "x"}}}}, "work.keda.minReplicas is 21"),
        (LEAST | {"migrate": {"activeDeadlineSeconds": 1_000_000}}, "activeDeadlineSeconds"),
        (LEAST | {"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable"),
        (LEAST | {"podDisruptionBudget": {"maxUnavailable": "0%"}}, "maxUnavailable"),
        (LEAST | {"podDisruptionBudget": {"minAvailable": 2}}, "minAvailable"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], says: str) -> None:
    with chart.Chart.load(CHART) as loaded, pytest.raises(HelmError, match=says):
        loaded.render(values=values, name="demo")


@pytest.mark.parametrize("variant", VARIANTS)
def test_pods_have_no_rights_and_time_to_end(variant: str) -> None:
    found = pods(variant)
    assert len(found) == 3
    for name, template in found:
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        (container,) = spec["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False, name
        assert context["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"], name
        if not name.endswith("migrate"):
            pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            assert spec["terminationGracePeriodSeconds"] > STOPS_WITHIN + pause, name


@pytest.mark.parametrize("variant", VARIANTS)
def test_containers_run_commands_with_settings_that_exist(variant: str) -> None:
    for _, template in pods(variant):
        (container,) = template["spec"]["containers"]
        assert_command(container["args"])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if command := container.get(probe, {}).get("exec", {}).get("command"):
                assert command[0] == "/usr/bin/houston"
                assert_command(command[1:])
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        assert_settings(variables)
        assert "value" not in str(container["envFrom"]), "addresses and keys come from a Secret"


def test_a_starting_pod_may_wait_for_postgres() -> None:
    (serve,) = [template for name, template in pods("least") if name.endswith("serve")]
    probe = serve["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > STARTS_WITHIN


def test_selectors_choose_one_role_each() -> None:
    for variant in VARIANTS:
        labels = {name: template["metadata"]["labels"] for name, template in pods(variant)}
        for kind in ("PodDisruptionBudget", "NetworkPolicy", "Deployment", "Service"):
            for found in of_kind(variant, kind):
                spec = found["spec"]
                selector = spec.get("podSelector", spec.get("selector"))
                wanted = selector.get("matchLabels", selector)
                chosen = [name for name, own in labels.items() if wanted.items() <= own.items()]
                is_for_all = found["metadata"]["name"].endswith("metrics")
                assert len(chosen) == (3 if is_for_all else 1), found["metadata"]["name"]


def test_migration_is_a_hook_that_needs_nothing_of_the_release() -> None:
    (job,) = of_kind("most", "Job")
    hooks = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
    assert hooks.items() <= job["metadata"]["annotations"].items()
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "default"
    (config,) = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
    (copy,) = [found for found in of_kind("most", "ConfigMap") if found["metadata"]["name"] == config]
    assert hooks.items() <= copy["metadata"]["annotations"].items()
    assert int(copy["metadata"]["annotations"]["helm.sh/hook-weight"]) < int(job["metadata"]["annotations"]["helm.sh/hook-weight"])


def test_files_of_jobs_are_mounted_at_their_paths(tmp_path: Path) -> None:
    configs = {found["metadata"]["name"]: found["data"] for found in of_kind("most", "ConfigMap")}
    assert len(configs) == 2
    for name, template in pods("most"):
        (volume,) = [volume["configMap"] for volume in template["spec"]["volumes"] if "configMap" in volume]
        data = configs[volume["name"]]
        assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in data), "Kubernetes allows no other keys"
        assert {item["path"]: data[item["key"]] for item in volume["items"]} == MOST["jobs"], name
    # As Kubernetes mounts them: what is at the top are links into a hidden folder.
    for path, text in MOST["jobs"].items():
        file = tmp_path / "..data" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for found in (tmp_path / "..data").iterdir():
        (tmp_path / found.name).symlink_to(f"..data/{found.name}")
    shown = houston("config", "show", "--origin", variables=(("HOUSTON_JOBS", str(tmp_path)),))
    assert shown.returncode == 0, shown.stderr
    assert f"{tmp_path}/orchestrator.toml" in shown.stdout, shown.stdout


def test_autoscaler_reads_the_lanes_with_a_key() -> None:
    (scaled,) = of_kind("most", "ScaledObject")
    (authentication,) = of_kind("most", "TriggerAuthentication")
    (service,) = [found for found in of_kind("most", "Service") if found["spec"].get("clusterIP") != "None"]
    assert authentication["spec"]["secretTargetRef"] == [{"parameter": "token", "name": "houston-keda", "key": "api-key"}]
    triggers = scaled["spec"]["triggers"]
    assert len({trigger["name"] for trigger in triggers}) == 4
    for trigger in triggers:
        metadata = trigger["metadata"]
        port = service["spec"]["ports"][0]["port"]
        lane = trigger["name"].split("-")[0]
        assert metadata["url"] == f"http://{service['metadata']['name']}.agents.svc:{port}/v1/queues/{lane}/stats"
        assert trigger["authenticationRef"] == {"name": authentication["metadata"]["name"]}
        assert (metadata["valueLocation"], trigger["metricType"]) in [("scaling.wanted_slots", "AverageValue"), ("oldest_age_s", "Value")]
    wanted = {int(trigger["metadata"]["targetValue"]) for trigger in triggers if trigger["metricType"] == "AverageValue"}
    assert max(wanted) <= setting("orchestrator.toml", "worker", "slots"), "a worker has no more slots"
    behaviour = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] == scaled["spec"]["cooldownPeriod"]
    deployments = {found["metadata"]["name"]: found["spec"] for found in of_kind("most", "Deployment")}
    assert "replicas" not in deployments[scaled["spec"]["scaleTargetRef"]["name"]], "KEDA says how many"


def peers(variant: str, component: str) -> dict[str, list[Any] | None]:
    """Who may reach each port of a role; `None` is everyone."""
    (policy,) = [found for found in of_kind(variant, "NetworkPolicy") if found["metadata"]["name"].endswith(component)]
    assert policy["spec"]["policyTypes"] == ["Ingress"], "providers, webhooks and names are reached from everywhere"
    return {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"].get("ingress", [])}


def test_network_policy_lets_in_who_needs_to_ask() -> None:
    assert peers("least", "serve") == {"http": None}
    assert peers("least", "work") == peers("least", "migrate") == {}
    found = peers("most", "serve")
    labels = [peer["namespaceSelector"]["matchLabels"] for peer in found["http"] or []]
    assert labels == [{"name": "ingress"}, {"kubernetes.io/metadata.name": "keda"}], "the autoscaler asks the API"
    assert found["metrics"] and found["metrics"] == peers("most", "work")["metrics"]


def test_notes_name_commands_and_pods_that_exist() -> None:
    with chart.Chart.load(CHART) as loaded:
        files = loaded.render(values=MOST, name="demo", namespace="agents")
    (notes,) = [text for name, text in files.items() if name.endswith("NOTES.txt")]
    assert "kubectl -n agents exec deploy/demo-houston-work -- /usr/bin/houston key create --tenant acme" in notes
    assert_command(["key", "create"])
    assert "houston-keda" in notes and "--scope operate,installation" in notes
