//! `aggregate_records`: counts and sums records of a custom table.

use chrono_tz::Tz;
use houston_domain::capability::Capability;
use houston_domain::custom_table::{Aggregate, Fault, Function, MAX_GROUPS};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::custom_record::{Group, RecordFilter};
use houston_store::custom_table::CustomTable;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

const NAME: &str = "aggregate_records";

/// Counts and sums records: exactly, which models do not.
#[derive(Debug)]
pub(super) struct AggregateRecords(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    function: Function,
    field: Option<String>,
    group_by: Option<String>,
    #[serde(default, rename = "where")]
    conditions: Map<String, Value>,
}

impl Default for AggregateRecords {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Count or add up records of a table, exactly. `where` is as in a search.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "table": tables::table_schema(),
                    "function": {"type": "string", "enum": ["count", "sum", "avg", "min", "max"]},
                    "field": {"type": "string", "description": "Not needed for count."},
                    "group_by": {"type": "string", "description": "A field: one result for each of its values."},
                    "where": {"type": "object"},
                },
                "required": ["table", "function"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for AggregateRecords {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, function, field, group_by, conditions } = input::read(NAME, input)?;
        let table = tables::name(NAME, table)?;
        Ok(Plan::record(Call { table, function, field, group_by, conditions, zone: context.zone }))
    }
}

#[derive(Debug)]
struct Call {
    table: String,
    function: Function,
    field: Option<String>,
    group_by: Option<String>,
    conditions: Map<String, Value>,
    zone: Tz,
}

impl Call {
    fn wanted(&self, table: &CustomTable) -> Result<(RecordFilter, Aggregate), Vec<Fault>> {
        let filter = tables::filter(table, &self.conditions, None, self.zone)?;
        let (field, group_by) = (self.field.clone(), self.group_by.clone());
        let aggregate = Aggregate::new(self.function, field, group_by, &table.fields);
        Ok((filter, aggregate.map_err(|fault| vec![fault])?))
    }

    /// The number, or `none` without a value.
    fn result(&self, group: &Group) -> String {
        let value = match self.function {
            Function::Count => Some(group.count.to_string()),
            Function::Sum => group.sum.clone(),
            Function::Avg => group.avg.clone(),
            Function::Min => group.min.as_ref().map(ToString::to_string),
            Function::Max => group.max.as_ref().map(ToString::to_string),
        };
        value.unwrap_or_else(|| "none".to_owned())
    }
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            let (filter, aggregate) = match self.wanted(&table) {
                Ok(wanted) => wanted,
                Err(faults) => return Ok(tables::refused(NAME, &table, &faults)),
            };
            let groups = tx.aggregate_records(&table, &filter, &aggregate).await?;
            let of = self.field.as_ref().map(|field| format!(" of {field}")).unwrap_or_default();
            let what = format!("{}{of}", self.function.as_str());
            if self.group_by.is_none() {
                let none = if self.function == Function::Count { "0" } else { "none" };
                let (result, marked) =
                    groups.first().map_or((none.to_owned(), false), |one| (self.result(one), one.untrusted));
                let text = untrusted::stored(marked, &table.id.to_string(), result);
                return Ok(ToolResponse::success(format!("{what}: {text}")));
            }
            let is_untrusted = groups.iter().any(|group| group.untrusted);
            let lines: Vec<String> = groups
                .iter()
                .take(MAX_GROUPS)
                .map(|group| format!("{}: {}", group.value, self.result(group)))
                .collect();
            let mut text = untrusted::stored(is_untrusted, &table.id.to_string(), lines.join("\n"));
            if groups.len() > MAX_GROUPS {
                text.push_str(&format!("\nThere are more than {MAX_GROUPS} groups: use `where`."));
            }
            let text = if groups.is_empty() { "There are no such records.".to_owned() } else { text };
            Ok(ToolResponse::success(format!("{what}:\n{text}")))
        })
    }
}
