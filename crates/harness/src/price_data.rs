//! The vendored data on prices and limits: where it is, what it says, and what a new one changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use houston_xtask::child::{self, quietly};
use houston_xtask::console::tell;
use houston_xtask::{programs, repository};

/// Data that is older is said to be old.
const FRESH_DAYS: u32 = 90;

/// One vendored file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PriceData {
    pub(crate) source: Source,
    providers: Vec<Provider>,
}

/// Where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) date: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Provider {
    id: String,
    models: Vec<Value>,
}

/// What a new file changes; models as `provider/model`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    #[serde(flatten)]
    source: Source,
    /// The version it replaces, if there was one.
    replaces: Option<String>,
    models: usize,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<Changed>,
}

/// A model of which something is said that was not said before.
#[derive(Debug, PartialEq, Serialize)]
struct Changed {
    model: String,
    before: Value,
    now: Value,
}

/// Where the vendored files are.
pub(crate) fn folder() -> PathBuf {
    repository::root().join("crates/llm/data")
}

/// The scripts.
pub(crate) fn script(name: &str) -> PathBuf {
    repository::root().join("crates/harness/python").join(name)
}

impl PriceData {
    pub(crate) fn read(path: &std::path::Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no such data", path.display()))
    }

    /// What is said of each model, by its name.
    fn models(&self) -> BTreeMap<String, &Value> {
        let all = self.providers.iter().flat_map(|provider| {
            let name = |model: &Value| format!("{}/{}", provider.id, model["id"].as_str().unwrap_or("?"));
            provider.models.iter().map(move |model| (name(model), model))
        });
        all.collect()
    }

    /// What `self` changes of `before`: of what is said of a model, the part called `what`, or all but its names.
    pub(crate) fn difference(&self, before: Option<&Self>, what: Option<&str>) -> Difference {
        let said = |model: &Value| match what {
            Some(part) => model[part].clone(),
            None => model.clone(),
        };
        let (now, then) = (self.models(), before.map(Self::models).unwrap_or_default());
        let missing = |from: &BTreeMap<String, &Value>, to: &BTreeMap<String, &Value>| {
            from.keys().filter(|name| !to.contains_key(*name)).cloned().collect::<Vec<_>>()
        };
        let changed = now.iter().filter_map(|(name, model)| {
            let (before, now) = (said(then.get(name)?), said(model));
            (before != now).then(|| Changed { model: name.clone(), before, now })
        });
        Difference {
            source: self.source.clone(),
            replaces: before.map(|before| before.source.version.clone()),
            models: now.len(),
            added: missing(&now, &then),
            removed: missing(&then, &now),
            changed: changed.collect(),
        }
    }

    /// Says so when it is old. It is no failure: the day on which a test fails should not depend on the calendar.
    pub(crate) fn warn_of_age(&self) {
        let ago = [
            ["-d".to_owned(), format!("{FRESH_DAYS} days ago")],
            [format!("-v-{FRESH_DAYS}d"), String::new()],
        ];
        let limit = ago.iter().find_map(|words| {
            let words = words.iter().filter(|word| !word.is_empty());
            quietly(Command::new("date").arg("-u").args(words).arg("+%F")).ok()
        });
        if limit.is_some_and(|limit| *self.source.date < *limit.trim()) {
            tell(&format!(
                "warning: the data of {} is of {}, more than {FRESH_DAYS} days ago: `cargo xtask prices` fetches it anew",
                self.source.package, self.source.date
            ));
        }
    }
}

impl Difference {
    /// The same for a person.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Source { package, version, date } = &self.source;
        let replaces = self.replaces.as_deref().unwrap_or("nothing");
        let mut lines = vec![format!(
            "{package} {version} of {date} (was {replaces}): {} models, {} added, {} removed, {} changed",
            self.models,
            self.added.len(),
            self.removed.len(),
            self.changed.len()
        )];
        lines.extend(self.added.iter().map(|name| format!("  + {name}")));
        lines.extend(self.removed.iter().map(|name| format!("  - {name}")));
        lines.extend(
            self.changed.iter().map(|one| format!("  ~ {}: {} → {}", one.model, one.before, one.now)),
        );
        lines
    }
}

/// A virtual environment called `name` with packages and all they need.
pub(crate) async fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = repository::tools().join(name);
    let python = programs::python().await?;
    if !folder.join("bin/pip").is_file() {
        let mut make = Command::new(python);
        make.args(["-m", "venv", "--clear"]).arg(&folder);
        child::succeed(make).await?;
    }
    let mut install = Command::new(folder.join("bin/pip"));
    install.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--upgrade",
        "--only-binary",
        ":all:",
    ]);
    install.args(packages);
    child::succeed(install).await?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(version: &str, models: Value) -> PriceData {
        let source = json!({"package": "p", "version": version, "date": "2026-11-22"});
        serde_json::from_value(json!({"source": source, "providers": [{"id": "a", "models": models}]}))
            .unwrap()
    }

    #[test]
    fn what_changed_is_told_model_by_model() {
        let before = data("1", json!([{"id": "x", "prices": "1"}, {"id": "y", "prices": "1"}]));
        let now = data("2", json!([{"id": "y", "prices": "2"}, {"id": "z", "prices": "3", "context": 1}]));
        let difference = now.difference(Some(&before), Some("prices"));
        assert_eq!(
            difference.lines(),
            [
                "p 2 of 2026-11-22 (was 1): 2 models, 1 added, 1 removed, 1 changed",
                "  + a/z",
                "  - a/x",
                "  ~ a/y: \"1\" → \"2\"",
            ]
        );
        assert_eq!(now.difference(Some(&now), None).lines().len(), 1);
    }
}
