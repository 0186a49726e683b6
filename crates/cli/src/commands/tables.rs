//! `houston tables`: custom tables of users: lists them, exports and imports their records as CSV, adds fields.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use houston_api::LocalError;
use houston_domain::custom_table::Field;
use houston_domain::id::TableId;
use houston_protocol::table::{AddFields, ImportedRecords, TableResponse};
use reqwest::Method;
use serde_json::{Value, json};

use super::agentable::{OfUser, one_line, open, print_rows, write_file};
use super::{Context, Failure, Result};
use crate::output::{print, print_data, print_stderr};

/// List the custom tables of a user, export and import their records as CSV, or add fields.
#[derive(Debug, Subcommand)]
pub(crate) enum Tables {
    /// Print the tables of a user
    List(OfUser),
    /// Export the records of a table as CSV
    Export {
        /// `table_…`
        table: TableId,
        /// File to write [default: stdout]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Add the records of a CSV file to a table, all or none; its first line names the fields
    Import {
        /// `table_…`
        table: TableId,
        /// File to read; `-` for stdin
        file: PathBuf,
    },
    /// Add fields to a table; its records have no value of them
    AddFields {
        /// `table_…`
        table: TableId,
        /// A field as JSON, as `{"name": "shop", "type": "text"}`; may be repeated
        #[arg(long = "field", value_name = "JSON", required = true, value_parser = field)]
        fields: Vec<Field>,
    },
}

fn field(json: &str) -> Result<Field, String> {
    serde_json::from_str(json).map_err(|error| {
        let example = r#"{"name": "kind", "type": "enum", "enum": ["a", "b"], "required": false}"#;
        format!("{error}; a field is as {example}")
    })
}

impl Tables {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::List(of) => of.list(context, "tables", show),
            Self::Export { table, output } => context.with_api(async |api| {
                let api = api.of(table, TABLES).await?;
                let of: TableResponse = api.get(&format!("/v1/tables/{table}")).await?;
                let csv = api.bytes(&format!("/v1/tables/{table}/records.csv")).await?;
                match output {
                    Some(path) => write_file(&path, csv)?,
                    None => print_data(&String::from_utf8_lossy(&csv)),
                }
                print_stderr(&format!("{} records", of.records));
                Ok(())
            }),
            Self::Import { table, file } => {
                let max_bytes = context.loaded.settings.knowledge.tables.max_bytes.into();
                context.with_api(async |api| {
                    let api = api.of(table, TABLES).await?;
                    let csv = read(&file, max_bytes).map_err(Failure::Usage)?;
                    let done = api.post_csv(&format!("/v1/tables/{table}/import"), csv).await;
                    let done: ImportedRecords = done.map_err(|error| not_added(&file, error))?;
                    print(&format!("{} records added to {table}", done.records));
                    Ok(())
                })
            }
            Self::AddFields { table, fields } => context.with_api(async |api| {
                let (api, path) = (api.of(table, TABLES).await?, format!("/v1/tables/{table}/fields"));
                let table: TableResponse = api.change(Method::POST, &path, &AddFields { fields }).await?;
                print(&format!("{} has the fields {}", table.name, names(&table)));
                Ok(())
            }),
        }
    }
}

/// What lists tables.
const TABLES: &str = "`houston tables list USER` prints the tables of a user";

/// The names of its fields.
fn names(of: &TableResponse) -> String {
    of.fields.all().iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn not_added(file: &Path, error: LocalError) -> Failure {
    let faults = error.problem().map(|problem| problem.errors.as_ref()).unwrap_or_default();
    if faults.is_empty() {
        return error.into();
    }
    let faults: Vec<&str> = faults.iter().map(|fault| fault.detail.as_str()).collect();
    Failure::Usage(anyhow!("{}: nothing was added: {}", name(file), faults.join("; ")))
}

/// What messages call the file.
fn name(file: &Path) -> String {
    if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let mut csv = Vec::new();
    let source = open(file, max_bytes.saturating_add(1)).and_then(|mut file| file.read_to_end(&mut csv));
    source.with_context(|| format!("{} cannot be read", name(file)))?;
    let is_short = u64::try_from(csv.len()).is_ok_and(|length| length <= max_bytes);
    anyhow::ensure!(
        is_short,
        "{} is longer than the {max_bytes} bytes that tables.max_bytes (knowledge.toml) allows",
        name(file)
    );
    Ok(csv)
}

fn show(tables: &[TableResponse], json: bool) {
    let as_json = |one: &TableResponse| {
        json!({
            "id": one.id, "name": one.name, "description": one.description, "fields": one.fields,
            "records": one.records, "bytes": one.bytes, "untrusted": one.untrusted, "created_at": one.created_at,
        })
    };
    let all = json.then(|| json!({"tables": tables.iter().map(as_json).collect::<Value>()}));
    print_rows(all, tables, "there are no tables", ["ID", "NAME", "RECORDS", "FIELDS"], |one| {
        [one.id.to_string(), one.name.clone(), one.records.to_string(), one_line(&names(one), 80)]
    });
}
