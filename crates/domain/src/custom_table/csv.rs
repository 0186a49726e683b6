//! Records as CSV (RFC 4180, UTF-8): one column for each field, named in the first line.
//!
//! | type | in a cell |
//! |---|---|
//! | text, enum | as it is |
//! | number, integer | `-12.5` |
//! | boolean | `true`, `false`; read in any case |
//! | date, datetime | `2026-11-25`, `2026-11-25T09:30:00Z` |
//! | list | a JSON array; read also as `a; b` |
//!
//! An empty cell is no value. A spreadsheet takes a text that begins with `=`, `+`, `-`, `@`, a tab or a line break for a
//! formula, which could send data away; so such a text gets a `'` before it, and a text with `'` before one of these gets
//! one more. Reading takes one away again, so what was exported is imported unchanged.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Field, FieldType, Fields, Part};

/// Faults that one import reports; further ones are left out.
const MAX_FAULTS: usize = 20;
/// Characters with which a spreadsheet begins a formula, also in their wide forms.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '＠'];

/// What is wrong with a CSV text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {reason}", .column.iter().map(|name| format!(", column `{name}`")).collect::<String>())]
pub struct CsvFault {
    /// The line in which the record begins, from 1.
    pub line: u64,
    /// The name of the column, if one is wrong.
    pub column: Option<String>,
    /// What is wrong and what is allowed, as a clause.
    pub reason: String,
}

impl CsvFault {
    fn of(line: u64, column: Option<&str>, reason: impl Into<String>) -> Self {
        let column = column.map(|name| name.chars().take(60).collect());
        Self { line, column, reason: reason.into() }
    }
}

impl Fields {
    /// The first line: the names of the fields.
    pub fn csv_head(&self) -> Vec<u8> {
        line(self.all().iter().map(|field| Cow::Borrowed(field.name.as_str())))
    }

    /// The line of a record.
    pub fn csv_line(&self, record: &Map<String, Value>) -> Vec<u8> {
        line(self.all().iter().map(|field| record.get(&field.name).map_or(Cow::Borrowed(""), cell)))
    }

    /// The records of a CSV text, checked, at most `max`.
    ///
    /// # Errors
    /// The first 20 faults, each with its line and column.
    pub fn read_csv(&self, csv: &[u8], max: u32) -> Result<Vec<Map<String, Value>>, Vec<CsvFault>> {
        let csv = csv.strip_prefix("\u{feff}".as_bytes()).unwrap_or(csv);
        let mut reader = ::csv::ReaderBuilder::new().flexible(true).from_reader(csv);
        let columns = match reader.byte_headers() {
            Ok(head) => self.columns(head)?,
            Err(error) => return Err(vec![unreadable(&error)]),
        };
        let most = usize::try_from(max).unwrap_or(usize::MAX);
        let too_many = format!("a table may have at most {max} records");
        let (mut records, mut faults) = (Vec::new(), Vec::new());
        for row in reader.byte_records() {
            let read = match row {
                Ok(row) if records.len() >= most => Err(vec![CsvFault::of(line_of(&row), None, &*too_many)]),
                Ok(row) => self.read_row(&columns, &row),
                Err(error) => Err(vec![unreadable(&error)]),
            };
            match read {
                Ok(record) => records.push(record),
                Err(more) => faults.extend(more),
            }
            if faults.len() >= MAX_FAULTS || (records.len() >= most && !faults.is_empty()) {
                break;
            }
        }
        if records.is_empty() && faults.is_empty() {
            faults.push(CsvFault::of(2, None, "there is no record below the names of the fields"));
        }
        faults.truncate(MAX_FAULTS);
        if faults.is_empty() { Ok(records) } else { Err(faults) }
    }

    /// The field of each column.
    fn columns(&self, head: &::csv::ByteRecord) -> Result<Vec<&Field>, Vec<CsvFault>> {
        let (mut columns, mut faults): (Vec<&Field>, Vec<CsvFault>) = (Vec::new(), Vec::new());
        for name in head {
            let name = String::from_utf8_lossy(name);
            match self.named(name.trim()) {
                Ok(field) if columns.iter().any(|other| other.name == field.name) => {
                    faults.push(CsvFault::of(1, Some(&field.name), "is there twice"));
                }
                Ok(field) => columns.push(field),
                Err(fault) => faults.push(CsvFault::of(1, Some(name.trim()), fault.reason)),
            }
        }
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        let missing = self.all().iter().find(|field| field.required && !has(&field.name));
        if let Some(field) = missing.filter(|_| faults.is_empty()) {
            faults.push(CsvFault::of(1, Some(&field.name), "is missing, and each record must have a value"));
        }
        faults.truncate(MAX_FAULTS);
        if faults.is_empty() { Ok(columns) } else { Err(faults) }
    }

    fn read_row(
        &self,
        columns: &[&Field],
        row: &::csv::ByteRecord,
    ) -> Result<Map<String, Value>, Vec<CsvFault>> {
        let line = line_of(row);
        ensure!(
            row.len() == columns.len(),
            vec![CsvFault::of(
                line,
                None,
                format!("has {} cells, but the first line names {} columns", row.len(), columns.len())
            )]
        );
        let mut values = Map::new();
        for (field, cell) in columns.iter().zip(row) {
            let Ok(text) = std::str::from_utf8(cell) else {
                return Err(vec![CsvFault::of(line, Some(&field.name), "is not UTF-8")]);
            };
            if !text.is_empty() {
                values.insert(field.name.clone(), value(field, text));
            }
        }
        self.check(&values, None, Part::Whole).map_err(|faults| {
            let fault = |fault: super::Fault| {
                let column = (!fault.field.is_empty()).then_some(fault.field.as_str());
                CsvFault::of(line, column, fault.reason)
            };
            faults.into_iter().map(fault).collect()
        })
    }
}

/// The line in which a row begins.
fn line_of(row: &::csv::ByteRecord) -> u64 {
    row.position().map_or(0, ::csv::Position::line)
}

fn unreadable(error: &::csv::Error) -> CsvFault {
    CsvFault::of(error.position().map_or(1, ::csv::Position::line), None, format!("is no CSV: {error}"))
}

/// One line of CSV. Writing to memory does not fail.
fn line<'c>(cells: impl Iterator<Item = Cow<'c, str>>) -> Vec<u8> {
    let mut writer = ::csv::WriterBuilder::new().from_writer(Vec::new());
    let cells: Vec<Cow<'c, str>> = cells.collect();
    let written = writer.write_record(cells.iter().map(|cell| cell.as_bytes()));
    debug_assert!(written.is_ok(), "{written:?}");
    writer.into_inner().unwrap_or_default()
}

fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) if is_formula(text) => Cow::Owned(format!("'{text}")),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Whether it begins like a formula, if need be behind `'`.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA)
}

/// The value of a cell, before it is checked.
fn value(field: &Field, text: &str) -> Value {
    let as_json = || serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::from(text));
    match field.kind {
        FieldType::Text | FieldType::Enum | FieldType::Date | FieldType::Datetime => {
            Value::from(text.strip_prefix('\'').filter(|_| is_formula(text)).unwrap_or(text))
        }
        FieldType::Number | FieldType::Integer => match as_json() {
            number @ Value::Number(_) => number,
            _ => Value::from(text),
        },
        FieldType::Boolean => match text.trim() {
            yes if yes.eq_ignore_ascii_case("true") => Value::from(true),
            no if no.eq_ignore_ascii_case("false") => Value::from(false),
            _ => Value::from(text),
        },
        FieldType::List if text.trim_start().starts_with('[') => as_json(),
        FieldType::List => text.split(';').map(str::trim).filter(|item| !item.is_empty()).collect(),
    }
}
