//! `houston mcp approve`: stores the tools of a server as it lists them now.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use houston_mcp::pins::{self, Standing};
use houston_mcp::server::Look;
use houston_mcp::{Listed, McpSettings, Pins, ServerSettings, trust};

use super::{Context, Failure, file, folder, look, word};
use crate::commands::agentable::table;
use crate::output::{print, print_stderr};

pub(super) fn approve(
    context: &Context,
    settings: &McpSettings,
    name: &str,
    only: &[String],
) -> Result<ExitCode, Failure> {
    print_stderr(&format!("starting {name}; the first start may install it"));
    let Look { tools, printed } = look(context, settings, name)?;
    let tools = match tools {
        Ok(tools) => tools,
        Err(error) => {
            printed.iter().for_each(|line| print_stderr(&format!("  {line}")));
            return Err(anyhow!("{name}: {error}").into());
        }
    };
    let unknown = only.iter().find(|wanted| tools.iter().all(|tool| tool.name != **wanted));
    if let Some(unknown) = unknown {
        let existing: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        return Err(Failure::Usage(anyhow!(
            "{name} has no tool `{unknown}`; it has: {}",
            existing.join(", ")
        )));
    }
    let mut all = context.loaded.mcp.pins.clone();
    let before = all.compare(name, &tools);
    all.approve(name, &tools, only);
    let server = settings.servers.get(name).context("the server is in the settings")?;
    show_tools(server, &tools, &before);
    let path = folder(context)?.join(pins::FILE);
    write_pins(&path, name, all)?;
    print_stderr(&format!("approved in {}; restart Houston to offer them", path.display()));
    if server.kinds.is_empty() {
        print_stderr(&format!("agents may call them once an agent type lists \"mcp:{name}\" under tools"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the pins of a server beside those that the file has of others. A file that cannot be read is kept beside it.
fn write_pins(path: &Path, server: &str, mut approved: Pins) -> Result<(), Failure> {
    let mut pins = match std::fs::read_to_string(path).map(|text| Pins::parse(&text)) {
        Ok(Ok(pins)) => pins,
        Ok(Err(error)) => {
            // A hidden file is not taken for a misspelt one.
            let moved = path.with_file_name(format!(".{}.broken", pins::FILE));
            std::fs::rename(path, &moved).with_context(|| format!("cannot rename {}", path.display()))?;
            print_stderr(&format!(
                "{} could not be read ({error}): it is now {}; approve the other servers again, too",
                path.display(),
                moved.display()
            ));
            Pins::default()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Pins::default(),
        Err(error) => return Err(anyhow!("cannot read {}: {error}", path.display()).into()),
    };
    pins.servers.extend(approved.servers.remove_entry(server));
    Ok(file::replace(path, &pins.to_text())?)
}

/// Prints tools as guards see them.
fn show_tools(server: &ServerSettings, tools: &[Listed], standing: &BTreeMap<String, Standing>) {
    let rows: Vec<[String; 5]> = tools
        .iter()
        .map(|tool| {
            let said = server.tools.get(&tool.name).cloned().unwrap_or_default();
            let (effect, facts) = trust::judged(server.trust, tool.pin.hints, &said);
            let about = tool.refused.clone().unwrap_or_else(|| first_line(&tool.pin.description));
            let was = standing.get(&tool.name).map_or("", |standing| word(*standing));
            [&tool.name, was, effect.as_str(), facts.risk.as_str(), &about].map(str::to_owned)
        })
        .collect();
    table(&["TOOL", "WAS", "EFFECT", "RISK", "ABOUT"], &rows).iter().for_each(|line| print(line));
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_file_of_approvals_is_kept_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(pins::FILE);
        std::fs::write(&path, "{\"servers\": {").unwrap();
        let approved = Pins { servers: BTreeMap::from([("mine".to_owned(), BTreeMap::new())]) };
        write_pins(&path, "mine", approved.clone()).unwrap();
        assert_eq!(Pins::parse(&std::fs::read_to_string(&path).unwrap()).unwrap(), approved);
        let moved = std::fs::read_to_string(folder.path().join(".mcp_pins.json.broken")).unwrap();
        assert_eq!(moved, "{\"servers\": {");
        crate::config::load(Some(folder.path()), &crate::toolbox::built_in()).unwrap();
    }
}
