//! Searches in the records of one table, and numbers over them. Their conditions are parameters of one fixed statement.

use houston_domain::custom_table::{Aggregate, Condition, MAX_GROUPS, Order, TableLimits};
use houston_domain::id::{RecordId, TenantId};
use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{CustomRecord, data};
use crate::custom_table::CustomTable;
use crate::error::Result;

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

/// The ids of the records of a table that match; `None`: all do. Reads the records of the table once.
async fn matching(
    connection: &mut PgConnection,
    tenant: TenantId,
    table: &CustomTable,
    filter: &RecordFilter,
    limits: &TableLimits,
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
        tenant.0,
        table.user.0,
        table.id.0,
        i64::from(limits.max_records),
        &fields as _,
        &tests as _,
        &values,
        filter.text
    );
    Ok(Some(ids.fetch_all(connection).await?))
}

/// Records of a table that match, and how many there are in all.
pub(crate) async fn search(
    connection: &mut PgConnection,
    tenant: TenantId,
    table: &CustomTable,
    search: &RecordSearch,
    limits: &TableLimits,
) -> Result<(Vec<CustomRecord>, i64)> {
    let ids = matching(&mut *connection, tenant, table, &search.filter, limits).await?;
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
        tenant.0,
        table.user.0,
        table.id.0,
        ids.as_deref(),
        i64::from(limits.max_records),
        search.order.field,
        search.order.descending,
        search.offset,
        search.limit
    )
    .fetch_all(connection)
    .await?;
    let all = rows.first().map_or(0, |row| row.all);
    let records = rows.into_iter().map(|row| CustomRecord {
        id: RecordId(row.id),
        table: table.id,
        data: data(row.data),
        untrusted: row.untrusted,
        created_at: row.created_at,
        updated_at: row.updated_at,
    });
    Ok((records.collect(), all))
}

/// Numbers over the records that match: one group, or one for each value, at most one more than [`MAX_GROUPS`].
pub(crate) async fn aggregate(
    connection: &mut PgConnection,
    tenant: TenantId,
    table: &CustomTable,
    (filter, aggregate): (&RecordFilter, &Aggregate),
    limits: &TableLimits,
) -> Result<Vec<Group>> {
    let ids = matching(&mut *connection, tenant, table, filter, limits).await?;
    let rows = sqlx::query!(
        r#"-- store::custom_record::search::aggregate
        with read as (
            select untrusted, data -> $6 as value, data -> $7 as in_group,
                   case when jsonb_typeof(data -> $6) = 'number' then (data -> $6)::numeric end as number
              from (select untrusted, data from houston.custom_records
                     where tenant_id = $1 and user_id = $2 and table_id = $3 and ($4::uuid[] is null or id = any ($4))
                     order by id limit $5) as r)
        select in_group, count(*) filter (where $6::text is null or value is not null) as "count!",
               sum(number)::text as sum, trim_scale(round(avg(number), 10))::text as avg,
               (array_agg(value order by value) filter (where value is not null))[1] as min,
               (array_agg(value order by value desc) filter (where value is not null))[1] as max,
               bool_or(untrusted) as "untrusted!"
          from read group by in_group order by in_group nulls last limit $8"#,
        tenant.0,
        table.user.0,
        table.id.0,
        ids.as_deref(),
        i64::from(limits.max_records),
        aggregate.field,
        aggregate.group_by,
        i64::try_from(MAX_GROUPS).unwrap_or(i64::MAX - 1) + 1
    )
    .fetch_all(connection)
    .await?;
    let groups = rows.into_iter().map(|row| Group {
        value: row.in_group.unwrap_or_default(),
        count: row.count,
        sum: row.sum,
        avg: row.avg,
        min: row.min,
        max: row.max,
        untrusted: row.untrusted,
    });
    Ok(groups.collect())
}
