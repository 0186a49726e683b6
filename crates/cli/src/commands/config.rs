//! `houston config show`: prints the settings.

use clap::Subcommand;

use super::{Context, Result};
use crate::config::Entry;
use crate::output::{print, print_json};

/// Show the settings and their origins.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print all settings
    Show {
        /// Also print the file or variable of each
        #[arg(long)]
        origin: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self::Show { origin, json } = self;
        let entries = context.loaded.entries();
        if json {
            let object: serde_json::Map<String, serde_json::Value> = entries
                .into_iter()
                .map(|Entry { key, value, origin }| {
                    let value: serde_json::Value = serde_json::from_str(&value).unwrap_or_default();
                    (key, serde_json::json!({"value": value, "origin": origin}))
                })
                .collect();
            print_json(&object);
            return Ok(());
        }
        for Entry { key, value, origin: from } in entries {
            print(&if origin { format!("{key} = {value}  # {from}") } else { format!("{key} = {value}") });
        }
        Ok(())
    }
}
