//! Records of custom tables. What is written has been checked by the table's
//! [`Fields`](houston_domain::custom_table::Fields); searches, and numbers over what they find, get their
//! conditions as parameters of one fixed statement.

use chrono::{DateTime, Utc};
pub use houston_domain::custom_table::CustomRecord;
use houston_domain::custom_table::{Aggregate, Condition, MAX_GROUPS, Order};
use houston_domain::id::{RecordId, TableId};
use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::Knowledge;
use crate::custom_table::CustomTable;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::row_security::with_connection;

/// The values of a record, which have been checked, under its id.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordData {
    /// The record's id.
    pub id: RecordId,
    /// Its values, by field.
    pub data: Map<String, Value>,
}

fn data(Json(data): Json<Map<String, Value>>) -> Map<String, Value> {
    data
}

fn bytes(record: &Map<String, Value>) -> i32 {
    let bytes = serde_json::to_vec(record).map_or(0, |json| json.len());
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

impl Knowledge<'_> {
    /// Adds records to a table, in the order given.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when a record is too long or all together are, [`Error::Full`] when there would be too many,
    /// [`Error::NotFound`] when the table was deleted meanwhile. Then nothing was written, and the transaction goes on.
    pub async fn add_records(
        &mut self,
        table: &CustomTable,
        new: &[RecordData],
        created_at: Option<DateTime<Utc>>,
    ) -> Result<()> {
        let limits = self.limits.tables;
        let ids: Vec<Uuid> = new.iter().map(|record| record.id.0).collect();
        let values: Vec<Value> = new.iter().map(|record| Value::Object(record.data.clone())).collect();
        let lengths: Vec<i32> = new.iter().map(|record| bytes(&record.data)).collect();
        if lengths.iter().any(|length| i64::from(*length) > i64::from(limits.max_record_bytes)) {
            return Err(too_large("record", limits.max_record_bytes));
        }
        let all = lengths.iter().copied().map(i64::from).sum::<i64>();
        let done = sqlx::query!(
            r#"-- store::custom_record::insert
            with counted as (
                update houston.custom_tables t set records = t.records + cardinality($3::uuid[]), bytes = t.bytes + $6
                 where t.tenant_id = $1 and t.id = $2 and t.records + cardinality($3::uuid[]) <= $8 and t.bytes + $6 <= $9
                   and exists (select from houston.users u where u.id = t.user_id and u.tenant_id = $1)
                returning t.tenant_id, t.user_id, t.id),
            made as (
                insert into houston.custom_records (id, tenant_id, user_id, table_id, data, bytes, untrusted, created_at,
                                                    updated_at)
                select v.id, c.tenant_id, c.user_id, c.id, v.data, v.bytes, $7,
                       coalesce($10, statement_timestamp()), coalesce($10, statement_timestamp())
                  from counted c, unnest($3::uuid[], $4::jsonb[], $5::integer[]) as v (id, data, bytes)
                returning 1)
            select (select count(*) from made) as "made!",
                   (select t.records from houston.custom_tables t where t.tenant_id = $1 and t.id = $2) as records"#,
            self.tenant.0,
            table.id.0,
            &ids,
            &values,
            &lengths,
            all,
            self.untrusted,
            i32::try_from(limits.max_records).unwrap_or(i32::MAX),
            i64::from(limits.max_bytes),
            created_at
        )
        .fetch_one(&mut *self.connection)
        .await?;
        let more = i64::try_from(new.len()).unwrap_or(i64::MAX);
        match done.records {
            _ if done.made == more => Ok(()),
            None => Err(Error::NotFound { what: "table" }),
            Some(records) if i64::from(records) + more > i64::from(limits.max_records) => {
                Err(Error::Full { what: "records of a table", limit: limits.max_records.into() })
            }
            Some(_) => Err(too_large("table", limits.max_bytes)),
        }
    }

    /// A record of the tenant.
    pub(crate) async fn record(&mut self, id: RecordId) -> Result<Option<CustomRecord>> {
        let row = sqlx::query!(
            r#"-- store::custom_record::find
            select r.id, r.table_id, r.data as "data: Json<Map<String, Value>>", r.untrusted, r.created_at, r.updated_at
              from houston.custom_records r join houston.users u on u.id = r.user_id
             -- A user who is being erased has no tenant any more.
             where r.tenant_id = $1 and u.tenant_id = $1 and r.id = $2"#,
            self.tenant.0,
            id.0
        )
        .map(|row| CustomRecord {
            id: RecordId(row.id),
            table: TableId(row.table_id),
            data: data(row.data),
            untrusted: row.untrusted,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        });
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Changes values of a record; null removes one. `None`: the table has no such record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the record or its table would be too long. Then nothing was written, and the transaction goes on.
    pub async fn change_record(
        &mut self,
        table: &CustomTable,
        id: RecordId,
        changes: &Map<String, Value>,
    ) -> Result<Option<CustomRecord>> {
        let limits = self.limits.tables;
        let removed: Vec<String> =
            changes.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect();
        let set: Map<String, Value> = changes
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let row = sqlx::query!(
            r#"-- store::custom_record::change
            with before as materialized (
                select r.id, r.bytes, (r.data - $5::text[]) || $6 as data from houston.custom_records r
                 where r.tenant_id = $1 and r.user_id = $2 and r.table_id = $3 and r.id = $4 for no key update),
            counted as (
                update houston.custom_tables t set bytes = t.bytes + octet_length(b.data::text) - b.bytes from before b
                 where t.tenant_id = $1 and t.id = $3 and octet_length(b.data::text) <= $8
                   and (octet_length(b.data::text) <= b.bytes or t.bytes + octet_length(b.data::text) - b.bytes <= $9)
                returning t.id),
            changed as (
                update houston.custom_records r
                   set data = b.data, bytes = octet_length(b.data::text), untrusted = r.untrusted or $7,
                       updated_at = statement_timestamp()
                  from before b, counted c where r.tenant_id = $1 and r.id = b.id
                returning r.id, r.data, r.untrusted, r.created_at, r.updated_at)
            select exists (select from before) as "found!", n.id as "id?", n.data as "data?: Json<Map<String, Value>>",
                   n.untrusted as "untrusted?", n.created_at as "created_at?", n.updated_at as "updated_at?"
              from (select 1) as one left join changed n on true"#,
            self.tenant.0,
            table.user.0,
            table.id.0,
            id.0,
            &removed,
            Value::Object(set),
            self.untrusted,
            i32::try_from(limits.max_record_bytes).unwrap_or(i32::MAX),
            i64::from(limits.max_bytes)
        )
        .fetch_one(&mut *self.connection)
        .await?;
        if !row.found {
            return Ok(None);
        }
        let (Some(changed), Some(created_at), Some(updated_at)) = (row.data, row.created_at, row.updated_at)
        else {
            return Err(too_large("record", limits.max_record_bytes));
        };
        let (data, untrusted) = (data(changed), row.untrusted.unwrap_or_default());
        let (created_at, updated_at) = (created_at.into(), updated_at.into());
        Ok(Some(CustomRecord { id, table: table.id, data, untrusted, created_at, updated_at }))
    }

    /// Deletes a record of a table. Returns whether it existed.
    pub async fn delete_record(&mut self, table: &CustomTable, id: RecordId) -> Result<bool> {
        let done = sqlx::query_scalar!(
            r#"-- store::custom_record::delete
            with gone as (
                delete from houston.custom_records
                 where tenant_id = $1 and user_id = $2 and table_id = $3 and id = $4 returning bytes),
            counted as (
                update houston.custom_tables t set records = t.records - 1, bytes = t.bytes - g.bytes from gone g
                 where t.tenant_id = $1 and t.id = $3)
            select exists (select from gone) as "gone!""#,
            self.tenant.0,
            table.user.0,
            table.id.0,
            id.0
        );
        Ok(done.fetch_one(&mut *self.connection).await?)
    }

    /// The ids of the records of a table that match; `None`: all do. Reads the records of the table once.
    async fn matching_records(
        &mut self,
        table: &CustomTable,
        filter: &RecordFilter,
    ) -> Result<Option<Vec<Uuid>>> {
        if *filter == RecordFilter::default() {
            return Ok(None);
        }
        let fields: Vec<&str> = filter.conditions.iter().map(|one| one.field.as_str()).collect();
        let tests: Vec<&str> = filter.conditions.iter().map(|one| one.test.as_str()).collect();
        let values: Vec<Value> = filter.conditions.iter().map(|one| one.value.clone()).collect();
        let ids = sqlx::query_scalar!(
            "-- store::custom_record::search::matching
            with read as (
                select id, data from houston.custom_records
                 where tenant_id = $1 and user_id = $2 and table_id = $3 order by id limit $4)
            select id from read r
             where not exists (
                    select from unnest($5::text[], $6::text[], $7::jsonb[]) as c (field, test, value)
                     where not coalesce(case c.test
                        when 'eq' then r.data -> c.field = c.value
                        when 'ne' then r.data -> c.field is distinct from c.value
                        when 'lt' then r.data -> c.field < c.value
                        when 'lte' then r.data -> c.field <= c.value
                        when 'gt' then r.data -> c.field > c.value
                        when 'gte' then r.data -> c.field >= c.value
                        when 'in' then c.value @> (r.data -> c.field)
                        when 'empty' then (r.data -> c.field is null) = (c.value = 'true')
                        when 'contains' then case jsonb_typeof(r.data -> c.field)
                            when 'array' then r.data -> c.field @> c.value
                            else position(lower(c.value #>> '{}') in lower(r.data ->> c.field)) > 0 end
                     end, false))
               and ($8::text is null or exists (
                    select from jsonb_each_text(r.data) as v where position(lower($8) in lower(v.value)) > 0))",
            self.tenant.0,
            table.user.0,
            table.id.0,
            i64::from(self.limits.tables.max_records),
            &fields as _,
            &tests as _,
            &values,
            filter.text
        );
        Ok(Some(ids.fetch_all(&mut *self.connection).await?))
    }

    /// Records of a table that match, and how many there are in all.
    pub async fn search_records(
        &mut self,
        table: &CustomTable,
        search: &RecordSearch,
    ) -> Result<(Vec<CustomRecord>, i64)> {
        let ids = self.matching_records(table, &search.filter).await?;
        let rows = sqlx::query!(
            r#"-- store::custom_record::search::search
            select id, data as "data: Json<Map<String, Value>>", untrusted, created_at, updated_at,
                   count(*) over () as "all!"
              from (select id, data, untrusted, created_at, updated_at from houston.custom_records
                     where tenant_id = $1 and user_id = $2 and table_id = $3 and ($4::uuid[] is null or id = any ($4))
                     order by id limit $5) as r
             order by case when not $7 then data -> $6 end, case when $7 then data -> $6 end desc nulls last,
                      case when $7 and $6::text is null then id end desc, id
             offset $8 limit $9"#,
            self.tenant.0,
            table.user.0,
            table.id.0,
            ids.as_deref(),
            i64::from(self.limits.tables.max_records),
            search.order.field,
            search.order.descending,
            search.offset,
            search.limit
        )
        .fetch_all(&mut *self.connection)
        .await?;
        let all = rows.first().map_or(0, |row| row.all);
        let records = rows.into_iter().map(|row| CustomRecord {
            id: RecordId(row.id),
            table: table.id,
            data: data(row.data),
            untrusted: row.untrusted,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        });
        Ok((records.collect(), all))
    }

    /// Numbers over the records that match: one group, or one for each value, at most one more than [`MAX_GROUPS`].
    pub async fn aggregate_records(
        &mut self,
        table: &CustomTable,
        filter: &RecordFilter,
        aggregate: &Aggregate,
    ) -> Result<Vec<Group>> {
        let ids = self.matching_records(table, filter).await?;
        let groups = sqlx::query_as!(
            Group,
            r#"-- store::custom_record::search::aggregate
            with read as (
                select untrusted, data -> $6 as value, data -> $7 as in_group,
                       case when jsonb_typeof(data -> $6) = 'number' then (data -> $6)::numeric end as number
                  from (select untrusted, data from houston.custom_records
                         where tenant_id = $1 and user_id = $2 and table_id = $3 and ($4::uuid[] is null or id = any ($4))
                         order by id limit $5) as r)
            select in_group as value, count(*) filter (where $6::text is null or value is not null) as "count!",
                   sum(number)::text as sum, trim_scale(round(avg(number), 10))::text as avg,
                   (array_agg(value order by value) filter (where value is not null))[1] as min,
                   (array_agg(value order by value desc) filter (where value is not null))[1] as max,
                   bool_or(untrusted) as "untrusted!"
              from read group by in_group order by in_group nulls last limit $8"#,
            self.tenant.0,
            table.user.0,
            table.id.0,
            ids.as_deref(),
            i64::from(self.limits.tables.max_records),
            aggregate.field,
            aggregate.group_by,
            i64::try_from(MAX_GROUPS).unwrap_or(i64::MAX - 1) + 1
        );
        Ok(groups.fetch_all(&mut *self.connection).await?)
    }
}

fn too_large(what: &'static str, limit: u32) -> Error {
    Error::TooLarge { what, limit: usize::try_from(limit).unwrap_or(usize::MAX) }
}

const NOT_FOUND: Error = Error::NotFound { what: "record" };

/// The errors of all methods besides those named: [`Error::Database`] when Postgres cannot be reached or refuses the
/// statement.
impl TenantStore<'_> {
    /// Adds checked records to a table.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Full`], [`Error::NotFound`].
    pub async fn add_records(
        self,
        (table, created_at): (&CustomTable, DateTime<Utc>),
        new: &[RecordData],
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let first = new.first().map_or(table.id.0, |record| record.id.0);
        let add =
            async |tx: &mut PgConnection| self.knowledge(tx).add_records(table, new, Some(created_at)).await;
        self.create_once(first, once, add).await
    }

    /// Records of a table that match, and how many there are in all.
    pub async fn search_records(
        self,
        table: &CustomTable,
        wanted: &RecordSearch,
    ) -> Result<(Vec<CustomRecord>, i64)> {
        Ok(with_connection!(self.pool, |c| self.knowledge(c).search_records(table, wanted)))
    }

    /// The values of the records of a table in the order in which they were added, from after `after` on.
    pub async fn records_after(
        self,
        table: &CustomTable,
        after: Option<RecordId>,
        limit: i64,
    ) -> Result<Vec<RecordData>> {
        let rows = sqlx::query!(
            r#"-- store::custom_record::after
            select id, data as "data: Json<Map<String, Value>>" from houston.custom_records
             where tenant_id = $1 and user_id = $2 and table_id = $3 and ($4::uuid is null or id > $4)
             order by id limit $5"#,
            self.tenant.0,
            table.user.0,
            table.id.0,
            after.map(|after| after.0),
            limit
        )
        .map(|row| RecordData { id: RecordId(row.id), data: data(row.data) });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Numbers over the records of a table that match.
    pub async fn aggregate_records(
        self,
        table: &CustomTable,
        filter: &RecordFilter,
        wanted: &Aggregate,
    ) -> Result<Vec<Group>> {
        Ok(with_connection!(self.pool, |c| self.knowledge(c).aggregate_records(table, filter, wanted)))
    }

    /// A record of the tenant with its table.
    pub async fn record(self, id: RecordId) -> Result<(CustomTable, CustomRecord)> {
        let mut tx = self.pool.begin().await?;
        let record = self.knowledge(&mut tx).record(id).await?.ok_or(NOT_FOUND)?;
        let table = self.knowledge(&mut tx).table(record.table).await?.ok_or(NOT_FOUND)?;
        tx.commit().await?;
        Ok((table, record))
    }

    /// Changes values of a record, which have been checked; null removes one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the table has no such record, [`Error::TooLarge`] when it would be too long.
    pub async fn change_record(
        self,
        (table, id): (&CustomTable, RecordId),
        changes: &Map<String, Value>,
    ) -> Result<CustomRecord> {
        with_connection!(self.pool, |c| self.knowledge(c).change_record(table, id, changes)).ok_or(NOT_FOUND)
    }

    /// Deletes a record.
    pub async fn delete_record(self, id: RecordId) -> Result<()> {
        let (table, record) = self.record(id).await?;
        let is_gone = with_connection!(self.pool, |c| self.knowledge(c).delete_record(&table, record.id));
        if is_gone { Ok(()) } else { Err(NOT_FOUND) }
    }
}

/// Which records are meant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordFilter {
    /// What they fulfil, all of it.
    pub conditions: Vec<Condition>,
    /// A text that one of their values contains.
    pub text: Option<String>,
}

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordSearch {
    /// Which records.
    pub filter: RecordFilter,
    /// In which order.
    pub order: Order,
    /// How many are left out.
    pub offset: i64,
    /// Maximum number.
    pub limit: i64,
}

/// One group of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The value that its records have in common; null: none, or there is only one group.
    pub value: Value,
    /// How many records, or values of the field.
    pub count: i64,
    /// The sum of the values that are numbers, as a decimal.
    pub sum: Option<String>,
    /// Their mean, with at most ten decimals.
    pub avg: Option<String>,
    /// The least value.
    pub min: Option<Value>,
    /// The greatest value.
    pub max: Option<Value>,
    /// Whether one of its records is marked as untrusted.
    pub untrusted: bool,
}
