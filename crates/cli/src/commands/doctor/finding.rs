//! What a check found.

use houston_domain::cell::CellName;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    Warn,
    Red,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) id: &'static str,
    pub(super) status: Status,
    pub(super) detail: String,
    /// What to do; empty when the check is ok.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) todo: String,
}

impl Finding {
    /// The same, of one cell of several.
    pub(super) fn of_cell(mut self, cell: Option<&CellName>) -> Self {
        if let Some(name) = cell {
            self.detail = format!("cell {name}: {}", self.detail);
        }
        self
    }
}

pub(super) fn ok(id: &'static str, detail: impl Into<String>) -> Finding {
    Finding { id, status: Status::Ok, detail: detail.into(), todo: String::new() }
}

pub(super) fn warn(id: &'static str, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
    Finding { id, status: Status::Warn, detail: detail.into(), todo: todo.into() }
}

pub(super) fn red(id: &'static str, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
    Finding { id, status: Status::Red, detail: detail.into(), todo: todo.into() }
}
