//! `houston skills`: imports skills from folders and zips, lists, prints and removes them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::skill::{SkillDocument, SkillSource as Source, SkillSummary, file};
use houston_store::skill::{SkillEntry, SkillOwner};
use houston_store::{Error, TenantStore};
use serde_json::{Value, json};

use super::agentable::{one_line, table};
use super::owner::{FoundOwner, OwnerArg};
use super::{Context, Failure, audit};
use crate::output::{print, print_json, print_stderr};
use crate::skill_source::{self, SkillSource};

/// Import skills (SKILL.md of agentskills.io) for all users of a tenant or for one, list or remove them.
#[derive(Debug, Args)]
pub(crate) struct Skills {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create skills, or replace those of the same names
    Import {
        /// A SKILL.md, a folder or zip with one, or a folder or zip of such folders
        path: PathBuf,
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// List the skills of a tenant or user, and those that come with the installation
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the SKILL.md of a skill, and the names of its files
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Delete a skill
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
    },
}

/// An owner that exists, with its skills.
struct Found<'s>(FoundOwner<'s>);

impl Skills {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Import { path, owner } => {
                let skills = skill_source::read(&path).map_err(Failure::Usage)?;
                let skills: Vec<(SkillSource, SkillDocument)> =
                    skills.into_iter().map(checked).collect::<Result<_, _>>()?;
                with(owner, context, async |found, _| {
                    for (source, document) in &skills {
                        found.import(source, document).await?;
                    }
                    found.copy().await
                })
            }
            Action::List { owner, json } => with(owner, context, async |found, bundled| {
                let skills = found.store().skills(found.owner()).await?;
                list(&skills, bundled, json);
                Ok(())
            }),
            Action::Show { name, owner } => with(owner, context, async |found, _| {
                let skill = found.store().skill(found.owner(), &name).await;
                let skill = skill.map_err(|error| not_found(&name, error))?;
                skill.text.lines().for_each(print);
                for (path, text) in &skill.files {
                    print_stderr(&format!("{path}: {} bytes", text.len()));
                }
                Ok(())
            }),
            Action::Remove { name, owner } => with(owner, context, async |found, _| {
                let removed = found.store().delete_skill(found.owner(), &name).await;
                removed.map_err(|error| not_found(&name, error))?;
                found.record(["delete_skill_of_tenant", "delete_skill_of_user"], &name).await;
                found.copy().await?;
                print(&format!("{name}: removed"));
                Ok(())
            }),
        }
    }
}

/// Runs `work` with the owner and the skills that come with the installation.
fn with(
    owner: OwnerArg,
    context: Context,
    work: impl AsyncFnOnce(Found<'_>, &[SkillSummary]) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let bundled: Vec<SkillSummary> =
        context.registry.skills().iter().map(|skill| skill.summary.clone()).collect();
    owner.with(context, async |_, found| work(Found(found), &bundled).await)
}

/// A skill with what its text says.
fn checked(source: SkillSource) -> Result<(SkillSource, SkillDocument), Failure> {
    let of = source.folder.clone().unwrap_or_else(|| "SKILL.md".to_owned());
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(anyhow!("{of}: {error}"));
    let document =
        SkillDocument::read(&source.text, source.folder.as_deref()).map_err(|error| wrong(&error))?;
    file::check(&source.files).map_err(|error| wrong(&error))?;
    Ok((source, document))
}

impl Found<'_> {
    fn store(&self) -> TenantStore<'_> {
        self.0.store.tenant(self.0.tenant)
    }

    fn owner(&self) -> SkillOwner {
        self.0.user.map_or(SkillOwner::Tenant, SkillOwner::User)
    }

    /// Records a change. `operations`: of a tenant's skill, and of a user's.
    async fn record(&self, [of_tenant, of_user]: [&str; 2], name: &str) {
        match self.0.user {
            Some(user) => audit::record_of(self.store(), of_user, user).await,
            None => audit::record_of(self.store(), of_tenant, name).await,
        }
    }

    async fn copy(&self) -> Result<(), Failure> {
        Ok(self.0.copies.copy(self.0.tenant).await?)
    }

    async fn import(&self, source: &SkillSource, document: &SkillDocument) -> Result<(), Failure> {
        let summary = document.summary(document.default_enabled);
        self.store().put_skill(self.owner(), &summary, &source.text, &source.files).await?;
        self.record(["put_skill_of_tenant", "put_skill_of_user"], &document.name).await;
        let state = if summary.enabled { "" } else { ", not enabled (default_enabled)" };
        print(&format!("{}: imported with {} files{state}", document.name, source.files.len()));
        for warning in document.warnings.iter().chain(&source.left_out) {
            print_stderr(&format!("{}: {warning}", document.name));
        }
        Ok(())
    }
}

fn not_found(name: &str, error: Error) -> Failure {
    match error {
        Error::NotFound { .. } => Failure::Other(anyhow!(
            "there is no skill `{}`; `houston skills list` prints those there are",
            one_line(name, 80)
        )),
        error => error.into(),
    }
}

fn list(skills: &[SkillEntry], bundled: &[SkillSummary], json: bool) {
    if json {
        let stored = skills.iter().map(|SkillEntry { summary, files, created_at, updated_at }| {
            json!({
                "name": summary.name, "brief": summary.brief, "source": summary.source, "enabled": summary.enabled,
                "files": files, "created_at": created_at, "updated_at": updated_at,
            })
        });
        let bundled = bundled.iter().map(|skill| {
            json!({"name": skill.name, "brief": skill.brief, "source": Source::Bundled, "enabled": skill.enabled})
        });
        return print_json(&json!({"skills": stored.chain(bundled).collect::<Vec<Value>>()}));
    }
    if skills.is_empty() && bundled.is_empty() {
        return print("there are no skills; `houston skills import PATH` creates some");
    }
    let row = |skill: &SkillSummary, changed: String| {
        let enabled = if skill.enabled { "yes" } else { "no" };
        [
            skill.name.clone(),
            skill.source.as_str().to_owned(),
            enabled.to_owned(),
            changed,
            one_line(&skill.brief, 80),
        ]
    };
    let stored = skills
        .iter()
        .map(|skill| row(&skill.summary, skill.updated_at.to_rfc3339_opts(SecondsFormat::Secs, true)));
    let rows: Vec<[String; 5]> =
        stored.chain(bundled.iter().map(|skill| row(skill, String::new()))).collect();
    table(&["NAME", "OF", "ENABLED", "CHANGED", "WHAT FOR"], &rows).iter().for_each(|line| print(line));
}
