//! Records of custom tables.

pub(crate) mod add;
pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;

use houston_protocol::table::RecordResponse;
use houston_protocol::time::Time;
use houston_store::custom_record::CustomRecord;

fn response(record: CustomRecord) -> RecordResponse {
    RecordResponse {
        id: record.id,
        table_id: record.table,
        values: record.data,
        untrusted: record.untrusted,
        created_at: Time(record.created_at),
        updated_at: Time(record.updated_at),
    }
}
