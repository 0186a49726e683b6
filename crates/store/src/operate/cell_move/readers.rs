//! The readers of the events of all agentables, for webhooks and triggers: what they have read at the source, they do not read
//! again at the target, and what is written there later they read.

use std::collections::BTreeSet;

use sqlx::{PgConnection, Row as _};

use super::tables::Rows;
use super::{all, execute, scalar};
use crate::error::Result;
use crate::event::EventPosition;

/// The names of the readers of both cells. One that only the target has was not asked for these events.
pub(super) async fn names(source: &mut PgConnection, target: &mut PgConnection) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for cell in [source, target] {
        for row in all(cell, "select name from houston.readers").await? {
            names.insert(row.try_get(0)?);
        }
    }
    Ok(names)
}

/// Whether all readers of the source have read every event of these users. What a reader is about to commit does not count.
pub(super) async fn have_read_all(source: &mut PgConnection, rows: &Rows) -> Result<bool> {
    let of_users = format!("agentable_id = any ({})", rows.agentables);
    let is_unread = |column: &str| {
        format!("({column} >= d.first and not pg_visible_in_snapshot({column}::text::xid8, d.seen))")
    };
    let xid = is_unread("xid");
    let of_run = ["first_xid", "started_xid", "last_xid"].map(is_unread).join(" or ");
    let behind = format!(
        "with d as materialized (
             select s.seen, pg_snapshot_xmin(s.seen)::text::bigint as first
               from (select split_part(position, '~', 1)::pg_snapshot as seen from houston.readers) s)
         select count(*) from d
          where exists (select from houston.events where {of_users} and {xid})
             or exists (select from houston.messages where {of_users} and {xid})
             or exists (select from houston.runs where {of_users} and ({of_run}))"
    );
    Ok(scalar(source, &behind).await? == 0)
}

/// Makes sure that the target has these readers, and that they leave out what this transaction of the target writes. `before`:
/// a snapshot from before it. `false` when one of them is too far behind. Each reader waits from here on until the end of the move.
pub(super) async fn leave_out(
    target: &mut PgConnection,
    names: &BTreeSet<String>,
    before: &str,
    this: i64,
) -> Result<bool> {
    for name in names {
        let name = name.replace('\'', "");
        let rows = all(
            target,
            &format!(
                "insert into houston.readers (name, position) values ('{name}', '{before}')
                     on conflict (name) do update set name = excluded.name returning position"
            ),
        )
        .await?;
        let position: String = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        // A reader with a position of another database begins at the present end.
        let Ok(position) = position.parse::<EventPosition>() else { continue };
        let Some(position) = position.with_read(this.unsigned_abs()) else { return Ok(false) };
        execute(target, &format!("update houston.readers set position = '{position}' where name = '{name}'"))
            .await?;
    }
    Ok(true)
}

/// Wakes the readers at the target, which may have had nothing to read for.
pub(super) async fn wake(target: &mut PgConnection, names: &BTreeSet<String>) -> Result<()> {
    for name in names {
        execute(target, &format!("select pg_notify('houston', '1 {}')", name.replace('\'', ""))).await?;
    }
    Ok(())
}
