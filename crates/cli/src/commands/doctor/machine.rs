//! Checks of this machine: folders, disk, limits, the address to listen at, the key of secrets.

use houston_embedded::Servers;
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};

use super::finding::{Finding, ok, red, warn};
use crate::commands::Context;

/// Free disk space in MiB below which the check warns, and below which it is red.
const WARN_FREE_MIB: u64 = 1024;
const RED_FREE_MIB: u64 = 100;
/// A lower limit on open files is a warning: some hundred clients exhaust it.
const WARN_OPEN_FILES: u64 = 4096;

/// Whether secrets of tenants can be sealed and opened.
pub(super) fn secrets(context: &Context, has_secrets: bool) -> Finding {
    const REMEDY: &str = "set HOUSTON_SECRETS_KEY to the same value for `serve` and `work`; a new one: openssl rand -base64 32";
    // `houston dev` makes one in its folder.
    let is_set = context.loaded.secret_keys.is_some() || context.folder.join("secrets-key").exists();
    match (is_set, has_secrets) {
        (true, _) => ok("secrets", "there is a key for secrets of tenants"),
        (false, true) => red("secrets", "secrets are stored, but there is no key to open them", REMEDY),
        (false, false) => {
            warn("secrets", "there is no key: webhooks and MCP servers with a login are refused", REMEDY)
        }
    }
}

/// Whether the folder of workspaces can be used, if one is set.
pub(super) fn workspaces(context: &Context) -> Option<Finding> {
    Some(match context.loaded.settings.workspaces.open() {
        Ok(None) => return None,
        Ok(Some(root)) => {
            let folder = root.path().display();
            match rustix::fs::access(root.path(), Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => ok("workspaces", format!("files of agents are in {folder}")),
                Err(error) => red(
                    "workspaces",
                    format!("{folder} cannot be written: {error}"),
                    "let the user that runs Houston write there (chown), or correct `root` in workspaces.toml",
                ),
            }
        }
        Err(error) => {
            red("workspaces", error.to_string(), "correct `root` in workspaces.toml, or the folder")
        }
    })
}

pub(super) fn disk(context: &Context) -> Finding {
    // A folder that does not exist yet will be on the file system of the working directory.
    let folder = if context.folder.exists() { context.folder.as_path() } else { std::path::Path::new(".") };
    let Ok(found) = rustix::fs::statvfs(folder) else {
        return warn("disk", "the free disk space cannot be read", "check it with `df`");
    };
    let mib = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    let detail = format!("{mib} MiB free");
    if mib < RED_FREE_MIB {
        red("disk", detail, "free disk space: soon nothing can be stored")
    } else if mib < WARN_FREE_MIB {
        warn("disk", detail, "free disk space")
    } else {
        ok("disk", detail)
    }
}

pub(super) fn files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < WARN_OPEN_FILES => warn(
            "files",
            format!("at most {files} open files"),
            format!("raise the limit: ulimit -n {WARN_OPEN_FILES}"),
        ),
        Some(files) => ok("files", format!("at most {files} open files")),
        None => ok("files", "unlimited open files"),
    }
}

pub(super) fn address(context: &Context) -> Finding {
    let address = &context.loaded.settings.server.address;
    let of_dev =
        crate::chat::Demo::read(&context.folder).is_some_and(|demo| demo.url.ends_with(address.as_str()));
    match std::net::TcpListener::bind(address) {
        Ok(_) => ok("address", format!("{address} is free")),
        Err(_) if of_dev && Servers::running_in(&context.folder).is_some() => {
            ok("address", format!("{address} is used by `houston dev` of this folder"))
        }
        Err(error) => {
            let todo =
                "stop the process that listens there, or choose another address: --address 127.0.0.1:8081";
            warn("address", format!("cannot listen on {address}: {error}"), todo)
        }
    }
}
