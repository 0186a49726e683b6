//! Checks the alert rules and the expressions of the dashboards in `deploy/` with `promtool`, and when alerts fire
//! (`crates/xtask/deploy/rules_test.yml`, `rules_of_days_test.yml`).

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use houston_xtask::{child, repository};
use serde_json::{Value, json};

/// Checks rules and dashboards in one call: the expressions of dashboards as recording rules.
pub(crate) async fn check(promtool: PathBuf) -> Result<()> {
    let deploy = repository::root().join("deploy");
    let mut expressions = Vec::new();
    for dashboard in std::fs::read_dir(deploy.join("grafana"))? {
        let path = dashboard?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let dashboard: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let panels = dashboard["panels"].as_array().into_iter().flatten();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        expressions.extend(targets.filter_map(|target| target["expr"].as_str()).map(with_values));
    }
    let rules: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(nth, expression)| json!({"record": format!("panel_{nth}"), "expr": expression}))
        .collect();
    // JSON is YAML.
    let of_panels = repository::tools().join("panels.yml");
    std::fs::create_dir_all(repository::tools())?;
    std::fs::write(&of_panels, json!({"groups": [{"name": "panels", "rules": rules}]}).to_string())?;
    let mut check = Command::new(&promtool);
    check.args(["check", "rules"]).arg(deploy.join("prometheus/rules.yml")).arg(of_panels);
    child::succeed(check).await?;
    // Only its syntax: the files that it names are there in the container.
    let mut check = Command::new(&promtool);
    check.args(["check", "config", "--syntax-only"]).arg(deploy.join("prometheus/prometheus.yml"));
    child::succeed(check).await?;
    let mut test = Command::new(promtool);
    let cases = repository::root().join("crates/xtask/deploy");
    test.args(["test", "rules"])
        .args(["rules_test.yml", "rules_of_days_test.yml"].map(|file| cases.join(file)));
    child::succeed(test).await
}

/// An expression with values in the place of Grafana's variables.
fn with_values(expression: &str) -> String {
    expression.replace("$__rate_interval", "5m").replace("$queue", ".*")
}
