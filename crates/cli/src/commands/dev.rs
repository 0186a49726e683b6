//! `houston dev`: runs everything on this machine with one command.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_domain::id::{AgentableId, Ids, Shard, TenantId, UserId, parse_prefixed};
use houston_domain::scope::Scope;
use houston_store::Store;
use houston_store::api_key::{self, ApiKey};

use super::{Context, Failure, Result, runtime};
use crate::config::Loaded;
use crate::connect::{self, ServerSupervisor};
use crate::environment::{DEFAULT_FOLDER, environment};
use crate::explain::Explainer;
use crate::keys::{KeyLimits, create};
use crate::metrics_listener::MetricsListener;
use crate::output::{self, print, print_stderr};
use crate::process::{new_agentable, new_user};
use crate::system::{Listeners, System};
use crate::{lifecycle, models, trial};

/// The name of the demo's tenant, and the external id of its user.
pub(crate) const DEMO: &str = "demo";

/// Run everything on this machine.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Address to listen on, `address:port` (also HOUSTON_SERVER__ADDRESS)
    #[arg(long)]
    address: Option<String>,
}

/// The file with the demo's API key, in the folder.
const KEY_FILE: &str = "key";

/// The user and the conversation that a new installation starts with.
struct Demo {
    user: UserId,
    /// The kind of its conversation, e.g. `goal`.
    kind: String,
    /// The public id of its conversation.
    id: String,
}

impl Dev {
    pub(crate) fn run(self, mut context: Context) -> Result<()> {
        output::keep_redirected_files_private();
        if let Some(address) = self.address {
            context.loaded.settings.server.address = address;
        }
        context.loaded.without_usual_rates();
        let mut addresses = connect::find(&context.loaded.settings, &context.folder, true)?;
        let own = match addresses.embedded.first() {
            Some(servers) if servers.is_owner() => {
                format!("embedded Postgres and Redis in {}", context.folder.display())
            }
            Some(_) => format!("using the running Postgres and Redis of {}", context.folder.display()),
            None => "external Postgres and Redis".to_owned(),
        };
        let supervisor = addresses.supervise(print_stderr);
        let developed = runtime()
            .map_err(Failure::from)
            .and_then(|runtime| runtime.block_on(Box::pin(develop(context, &addresses, &own))));
        let stopped = supervisor.map_or(Ok(()), ServerSupervisor::stop);
        developed?;
        Ok(stopped?)
    }
}

async fn develop(mut context: Context, addresses: &connect::Addresses, own: &str) -> Result<()> {
    let folder = context.folder.clone();
    let (stores, export) = context.reach(addresses, true).await?;
    // After the servers were reached: a command that fails leaves no folder.
    context.use_key_of_folder()?;
    let models = models::build(&context.loaded).await?;
    let listeners = Listeners::open(&context.loaded).await?;
    let explainer = Explainer::new(context.loaded.clone(), context.registry.clone()).with_models(&models)?;
    let explainer = Arc::new(explainer);
    let alone = trial::in_children(&context, addresses, true);
    let system = System::new(context.loaded, &stores, &addresses.cells)?.with_trials(alone);
    let demo = demo(&system, &folder).await?;
    let key_file = folder.join(KEY_FILE);
    lifecycle::stop_on_signals(system.stop.clone())?;
    let metrics = MetricsListener::bind(&system.loaded.settings).await?;
    let running = system.start_workers(&context.registry, &models)?;
    metrics.serve(&system, true, Some(&running.slots));
    running.registered().await;
    let (url, console) = (listeners.url()?, system.console());
    let link = match &console {
        Some(console) => format!("{}{}", listeners.console_url()?, console.link(&saved_key(&key_file)?)),
        None => "switched off (console.enabled)".to_owned(),
    };
    // `houston chat` reads the demo's goal from this file.
    crate::chat::Demo { url: url.clone(), goal: demo.id.clone() }.write(&folder)?;
    welcome((&url, &link), &demo, &models.summary, own, (&folder, &key_file));
    let ((), worked) = tokio::join!(system.serve(listeners, console, &explainer), running.ended());
    worked.context("the worker stopped unexpectedly")?;
    tokio::join!(system.close_quickly(), export.stop());
    Ok(())
}

/// Finds or creates the demo's key, user and agentable.
async fn demo(system: &System, folder: &Path) -> Result<Demo> {
    let System { loaded, ids, cells, copies, .. } = system;
    let first = loaded.first_kind().ok_or_else(|| {
        Failure::Usage(anyhow!(
            "no agent type in jobs/agents can be created by users: add one with `conversational = true`"
        ))
    })?;
    let home = &cells.home().store;
    let tenant = home.operator().ensure_tenant(ids.next(), DEMO).await?;
    ensure_demo_key(home, ids, folder).await?;
    copies.copy(tenant).await?;
    let store = &cells.with(Shard::of_external_id(tenant, DEMO)).store;
    let kind = first.kind.clone();
    let saved = saved_demo(store, tenant, folder, &kind).await?;
    let (user, newest) = match store.tenant(tenant).user_by_external_id(DEMO, &kind).await? {
        Some(found) => found,
        None => (demo_user(store, ids, tenant, loaded).await?, None),
    };
    let agentable = match saved.filter(|(of, _)| *of == user).map(|(_, id)| id).or(newest) {
        Some(agentable) => agentable,
        None => {
            let new = new_agentable(ids, user, first, "Get to know Houston", "Try it out.");
            store.tenant(tenant).create_agentable(&new, (None, &serde_json::Value::Null)).await?;
            new.id
        }
    };
    Ok(Demo { user, id: agentable.public_id(&kind), kind })
}

/// The user and the agentable that the last `dev` of this folder saved. Newer agentables were created by others.
async fn saved_demo(
    store: &Store,
    tenant: TenantId,
    folder: &Path,
    kind: &str,
) -> Result<Option<(UserId, AgentableId)>> {
    let written = crate::chat::Demo::read(folder);
    let id = written.and_then(|written| parse_prefixed(kind, &written.goal).ok());
    let Some(id) = id.map(AgentableId) else { return Ok(None) };
    match store.tenant(tenant).agentable(kind, id).await {
        Ok(found) => Ok(Some((found.user, id))),
        Err(houston_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn demo_user(store: &Store, ids: &Ids, tenant: TenantId, loaded: &Loaded) -> Result<UserId> {
    let user = new_user(ids, Shard::of_external_id(tenant, DEMO), DEMO, "Demo");
    let types = loaded.agent_types();
    let own = types.values().filter(|kind| kind.made_with_user);
    let own: Vec<_> = own.map(|kind| new_agentable(ids, user.id, kind, "Demo", "")).collect();
    store.tenant(tenant).create_user(&user, &own, (None, &serde_json::Value::Null)).await?;
    Ok(user.id)
}

/// Keeps the key in its file if it is valid, else creates a new one. Only the owner can read the file.
async fn ensure_demo_key(store: &Store, ids: &Ids, folder: &Path) -> Result<()> {
    let file = folder.join(KEY_FILE);
    if let Ok(saved) = saved_key(&file) {
        let (hash, prefix) = (api_key::hash(&saved), api_key::prefix(&saved));
        let is_it = |key: &ApiKey| key.secret_sha256 == hash && key.scopes.allow(Scope::Installation);
        if store.api().api_keys_with(&[prefix]).await?.iter().any(is_it) {
            return Ok(());
        }
    }
    let made = create(store, ids, (DEMO, "houston dev"), KeyLimits::NONE, None).await?;
    std::fs::create_dir_all(folder)?;
    let file = std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(file);
    Ok(writeln!(file?, "{}", made.key)?)
}

fn saved_key(file: &Path) -> std::io::Result<String> {
    Ok(std::fs::read_to_string(file)?.trim().to_owned())
}

fn welcome(
    (url, console): (&str, &str),
    demo: &Demo,
    models: &[String],
    own: &str,
    (folder, key_file): (&Path, &Path),
) {
    let Demo { user, kind, id } = demo;
    let started_as = std::env::args().next().unwrap_or_default();
    let by_cargo = environment("CARGO_MANIFEST_DIR").is_some() && environment("CARGO").is_some();
    let mut program = called(&started_as, by_cargo);
    if folder != Path::new(DEFAULT_FOLDER) && environment("HOUSTON_FOLDER").is_none() {
        program.push_str(&format!(" --folder {}", quoted(&folder.display().to_string())));
    }
    let key_file = quoted(&key_file.display().to_string());
    print(&format!("Houston is up at {url}  (development; {own})"));
    if cfg!(debug_assertions) {
        print("  build  debug: compiled in minutes; for load and measurements, add --release");
    }
    for model in models {
        print(&format!("  model  {model}"));
    }
    print(&format!("  user   {user}"));
    print(&format!("  {kind:<6} {id}"));
    print(&format!("  key    in {key_file}"));
    print(&format!("  console  {console}  (signs in once, within ten minutes)"));
    print(&format!("\nTalk to it in a second terminal, in this folder:\n\n  {program} chat\n\nor paste:\n"));
    let auth = "-H \"Authorization: Bearer $HOUSTON_API_KEY\"";
    print(&format!("  export HOUSTON_API_KEY=\"$(cat {key_file})\""));
    print(&format!(
        "  curl -s {url}/v1/{kind}s/{id}/messages {auth} -H 'Content-Type: application/json' \
         -d '{{\"content\": \"Please create a note: buy milk\"}}'"
    ));
    print(&format!("  curl -sN {url}/v1/{kind}s/{id}/events {auth}"));
    print(&format!("  curl -s {url}/v1/{kind}s/{id}/messages {auth}\n"));
    print_stderr("Ctrl-C stops it; accepted messages are kept.");
}

fn called(started_as: &str, by_cargo: bool) -> String {
    let path = Path::new(started_as);
    let name = path.file_name().map_or("houston".into(), |name| name.to_string_lossy());
    let folders: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    if by_cargo && folders.contains(&"target") {
        let release = if folders.contains(&"release") { " --release" } else { "" };
        let example =
            if folders.contains(&"examples") { format!(" --example {name}") } else { String::new() };
        return format!("cargo run{release}{example} --");
    }
    if started_as.is_empty() { "houston".to_owned() } else { quoted(started_as) }
}

/// The text quoted as one word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_as_it_was_started() {
        for (started_as, by_cargo, expected) in [
            ("houston", false, "houston"),
            ("/usr/local/bin/houston", false, "/usr/local/bin/houston"),
            ("target/release/houston", true, "cargo run --release --"),
            ("/src/target/debug/houston", true, "cargo run --"),
            ("target/debug/examples/custom_tool", true, "cargo run --example custom_tool --"),
            ("./target/release/houston", false, "./target/release/houston"),
            ("/my tools/houston", false, "'/my tools/houston'"),
            ("it's", false, r"'it'\''s'"),
        ] {
            assert_eq!(called(started_as, by_cargo), expected);
        }
    }
}
