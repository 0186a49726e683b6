//! `houston tables`: custom tables of users: lists them, exports and imports their records as CSV, adds fields.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_domain::clock::SystemClock;
use houston_domain::custom_table::{CsvFault, Field, texts};
use houston_domain::id::{Ids, RecordId, TableId, UserId};
use houston_store::custom_record::RecordData;
use houston_store::custom_table::CustomTable;
use houston_store::{Store, TenantStore};
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::{Context, Failure, audit};
use crate::output::{print, print_data, print_json, print_stderr};

/// How many tables are printed: more than a user may have by default.
const MOST: i64 = 10_000;
/// Records that are read and held at once.
const PAGE: i64 = 200;

/// List the custom tables of a user, export and import their records as CSV, or add fields.
#[derive(Debug, Args)]
pub(crate) struct Tables {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the tables of a user
    List {
        /// `user_…`
        user: UserId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
    /// Export the records of a table as CSV
    Export {
        /// `table_…`
        table: TableId,
        /// File to write [default: stdout]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        database: Database,
    },
    /// Add the records of a CSV file to a table, all or none; its first line names the fields
    Import {
        /// `table_…`
        table: TableId,
        /// File to read; `-` for stdin
        file: PathBuf,
        #[command(flatten)]
        database: Database,
    },
    /// Add fields to a table; its records have no value of them
    AddFields {
        /// `table_…`
        table: TableId,
        /// A field as JSON, as `{"name": "shop", "type": "text"}`; may be repeated
        #[arg(long = "field", value_name = "JSON", required = true, value_parser = field)]
        fields: Vec<Field>,
        #[command(flatten)]
        database: Database,
    },
}

fn field(json: &str) -> Result<Field, String> {
    serde_json::from_str(json).map_err(|error| {
        let example = r#"{"name": "kind", "type": "enum", "enum": ["a", "b"], "required": false}"#;
        format!("{error}; a field is as {example}")
    })
}

impl Tables {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { user, json, database } => database.with(context, async |_, stores| {
                let store = stores.of(user);
                let tenant = store.operator().tenant_of(user).await?;
                show(&store.tenant(tenant).tables(user, None, MOST).await?, json);
                Ok(ExitCode::SUCCESS)
            }),
            Action::Export { table, output, database } => database.with(context, async |_, stores| {
                let store = of_table(stores.of(table), table).await?;
                let records = export(store, table, output.as_deref()).await?;
                print_stderr(&format!("{records} records"));
                Ok(ExitCode::SUCCESS)
            }),
            Action::Import { table, file, database } => database.with(context, async |_, stores| {
                let store = of_table(stores.of(table), table).await?;
                let records = import(store, table, &file).await?;
                audit::record_of(store, "import_records", table).await;
                print(&format!("{records} records added to {table}"));
                Ok(ExitCode::SUCCESS)
            }),
            Action::AddFields { table, fields, database } => database.with(context, async |_, stores| {
                let store = of_table(stores.of(table), table).await?;
                let done = store.add_fields(table, &fields).await?;
                let id = table;
                let table = done.map_err(|faults| Failure::Usage(anyhow!("{}", texts(&faults))))?;
                audit::record_of(store, "extend_table", id).await;
                let names: Vec<&str> = table.fields.all().iter().map(|field| field.name.as_str()).collect();
                print(&format!("{} has the fields {}", table.name, names.join(", ")));
                Ok(ExitCode::SUCCESS)
            }),
        }
    }
}

/// The handle for the tenant that a table belongs to.
async fn of_table(store: &Store, table: TableId) -> Result<TenantStore<'_>, Failure> {
    let tenant = store.operator().tenant_of_table(table).await.map_err(|error| match error {
        houston_store::Error::NotFound { .. } => Failure::Other(anyhow!(
            "there is no {table}; `houston tables list USER` prints the tables of a user"
        )),
        error => error.into(),
    })?;
    Ok(store.tenant(tenant))
}

/// Writes the records page by page; returns how many.
async fn export(store: TenantStore<'_>, id: TableId, output: Option<&Path>) -> Result<usize, Failure> {
    let table = store.table(id).await?;
    let unwritable = |path: &Path| format!("{} cannot be written", path.display());
    let create = |path: &Path| std::fs::File::create(path).with_context(|| unwritable(path));
    let mut file = output.map(create).transpose()?;
    let mut write = |csv: &[u8]| match &mut file {
        Some(file) => file.write_all(csv),
        None => {
            print_data(&String::from_utf8_lossy(csv));
            Ok(())
        }
    };
    write(&table.fields.csv_head())?;
    let (mut after, mut count): (Option<RecordId>, usize) = (None, 0);
    loop {
        let page = store.records_after(&table, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(count) };
        (after, count) = (Some(last.id), count + page.len());
        let lines: Vec<u8> = page.iter().flat_map(|record| table.fields.csv_line(&record.data)).collect();
        write(&lines)?;
    }
}

/// Adds the records of a file; returns how many.
async fn import(store: TenantStore<'_>, id: TableId, file: &Path) -> Result<usize, Failure> {
    let limits = store.knowledge_limits().tables;
    let csv = read(file, limits.max_bytes.into()).map_err(Failure::Usage)?;
    let table = store.table(id).await?;
    let records = table.fields.read_csv(&csv, limits.max_records).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(CsvFault::to_string).collect();
        Failure::Usage(anyhow!("{}: nothing was added: {}", name(file), faults.join("; ")))
    })?;
    let ids = Ids::new(Arc::new(SystemClock));
    let mut of_records: Vec<RecordId> = records.iter().map(|_| ids.beside(table.user)).collect();
    of_records.sort();
    let new: Vec<_> = of_records.into_iter().zip(records).map(|(id, data)| RecordData { id, data }).collect();
    store.add_records((&table, ids.clock().now()), &new, None, &Value::Null).await?;
    Ok(new.len())
}

/// What messages call the file.
fn name(file: &Path) -> String {
    if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read(file: &Path, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let unreadable = || format!("{} cannot be read", name(file));
    let source: Box<dyn std::io::Read> = match is_stdin(file) {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(file).with_context(unreadable)?),
    };
    let mut csv = Vec::new();
    source.take(max_bytes.saturating_add(1)).read_to_end(&mut csv).with_context(unreadable)?;
    let is_short = u64::try_from(csv.len()).is_ok_and(|length| length <= max_bytes);
    anyhow::ensure!(
        is_short,
        "{} is longer than the {max_bytes} bytes that tables.max_bytes (knowledge.toml) allows",
        name(file)
    );
    Ok(csv)
}

fn show(tables: &[CustomTable], json: bool) {
    if json {
        let rows: Vec<Value> = tables
            .iter()
            .map(|one| {
                json!({
                    "id": one.id, "name": one.name, "description": one.description, "fields": one.fields,
                    "records": one.records, "bytes": one.bytes, "untrusted": one.untrusted,
                    "created_at": one.created_at,
                })
            })
            .collect();
        return print_json(&json!({"tables": rows}));
    }
    if tables.is_empty() {
        return print("there are no tables");
    }
    let names = |of: &CustomTable| -> String {
        of.fields.all().iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<[String; 4]> = tables
        .iter()
        .map(|one| [one.id.to_string(), one.name.clone(), one.records.to_string(), one_line(&names(one), 80)])
        .collect();
    table(&["ID", "NAME", "RECORDS", "FIELDS"], &rows).iter().for_each(|line| print(line));
}
