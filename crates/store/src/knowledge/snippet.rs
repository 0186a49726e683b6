//! Snippets: code that agents keep for a user, and the tools that some of them are. Runs write them in the transactions of
//! their steps; requests read and delete them.

use houston_domain::id::UserId;
use houston_domain::snippet::tool_name;
pub use houston_domain::snippet::{Snippet, SnippetEntry};
use houston_domain::time::Time;
use serde_json::Value;

use super::Knowledge;
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;

/// A snippet to be saved.
#[derive(Debug, Clone, Copy)]
pub struct NewSnippet<'a> {
    /// Its name: a snippet of that name is replaced.
    pub name: &'a str,
    /// `javascript` or `typescript`.
    pub language: &'a str,
    /// What it does: one line.
    pub description: &'a str,
    /// The code.
    pub code: &'a str,
    /// The schema and the pin, if a person has let it become a tool.
    pub tool: Option<(&'a Value, &'a str)>,
}

/// What saving a snippet has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedSnippet {
    /// Whether there was one of that name.
    pub replaced: bool,
    /// Whether it was a tool and is none any more.
    pub lost_tool: bool,
}

impl Knowledge<'_> {
    /// Saves a snippet. It is marked if the session has read what strangers wrote. `tools`: how many snippets of the user may
    /// be tools.
    ///
    /// # Errors
    /// [`Error::Full`] when there is the maximum number; nothing was written, and the transaction goes on.
    pub async fn save_snippet(&mut self, snippet: &NewSnippet<'_>, tools: u32) -> Result<SavedSnippet> {
        let (tenant, user, most) = (self.tenant, self.user(), self.limits.max_snippets);
        bound::lock(self.connection, "snippets", user).await?;
        let present = sqlx::query!(
            r#"-- store::snippet::present
            select count(*) as "all!", count(*) filter (where pin is not null and name <> $3) as "other_tools!",
                   coalesce(bool_or(name = $3), false) as "exists!",
                   coalesce(bool_or(name = $3 and pin is not null), false) as "is_tool!"
              from houston.snippets where tenant_id = $1 and user_id = $2"#,
            tenant.0,
            user,
            snippet.name
        )
        .fetch_one(&mut *self.connection)
        .await?;
        if !present.exists && present.all >= i64::from(most) {
            return Err(Error::Full { what: "snippets of a user", limit: most.into() });
        }
        if snippet.tool.is_some() && present.other_tools >= i64::from(tools) {
            return Err(Error::Full { what: "snippets of a user that are tools", limit: tools.into() });
        }
        let (schema, pin) = snippet.tool.unzip();
        let is_tool = sqlx::query_scalar!(
            r#"-- store::snippet::save
            insert into houston.snippets as s (user_id, name, tenant_id, language, description, code, untrusted,
                                               input_schema, pin, created_at, updated_at)
            select u.id, $3, u.tenant_id, $4, $5, $6, $7, $8, $9, clock_timestamp(), clock_timestamp()
              from houston.users u where u.tenant_id = $1 and u.id = $2
            on conflict (user_id, name) do update
               set language = excluded.language, description = excluded.description, code = excluded.code,
                   untrusted = excluded.untrusted, updated_at = excluded.updated_at,
                   -- What a person allowed stays as long as nothing of it changes.
                   input_schema = case when excluded.pin is null and (s.language, s.description, s.code)
                                       = (excluded.language, excluded.description, excluded.code)
                                       then s.input_schema else excluded.input_schema end,
                   pin = case when excluded.pin is null and (s.language, s.description, s.code)
                              = (excluded.language, excluded.description, excluded.code)
                              then s.pin else excluded.pin end
             where s.tenant_id = $1
            returning pin is not null as "is_tool!""#,
            tenant.0,
            user,
            snippet.name,
            snippet.language,
            snippet.description,
            snippet.code,
            self.untrusted,
            schema,
            pin
        )
        .fetch_optional(&mut *self.connection)
        .await?;
        let is_tool = is_tool.ok_or(Error::NotFound { what: "user" })?;
        Ok(SavedSnippet { replaced: present.exists, lost_tool: present.is_tool && !is_tool })
    }

    /// Snippets of the user without their code, in the order of their names, after `after`; without a limit as many as there
    /// may be.
    pub async fn snippets(&mut self, after: &str, limit: Option<i64>) -> Result<Vec<SnippetEntry>> {
        let entries = sqlx::query!(
            r#"-- store::snippet::list
            select name, language, description, char_length(code) as "chars!", untrusted, pin is not null as "is_tool!",
                   created_at, updated_at
              from houston.snippets
             where tenant_id = $1 and user_id = $2 and name > $3 order by name limit $4"#,
            self.tenant.0,
            self.user(),
            after,
            limit.unwrap_or(self.limits.max_snippets.into())
        )
        .map(|row| SnippetEntry {
            tool: row.is_tool.then(|| tool_name(&row.name)),
            name: row.name,
            language: row.language,
            description: row.description,
            chars: u32::try_from(row.chars).unwrap_or(0),
            untrusted: row.untrusted,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        });
        Ok(entries.fetch_all(&mut *self.connection).await?)
    }

    /// A snippet of the user; `None`: there is none of this name.
    pub async fn snippet(&mut self, name: &str) -> Result<Option<Snippet>> {
        let row = sqlx::query!(
            "-- store::snippet::find
            select name, language, description, code, untrusted, input_schema, pin, created_at, updated_at
              from houston.snippets where tenant_id = $1 and user_id = $2 and name = $3",
            self.tenant.0,
            self.user(),
            name
        )
        .map(|row| Snippet {
            tool: row.pin.as_ref().map(|_| tool_name(&row.name)),
            name: row.name,
            language: row.language,
            description: row.description,
            code: row.code,
            untrusted: row.untrusted,
            input_schema: row.input_schema,
            pin: row.pin,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        });
        Ok(row.fetch_optional(&mut *self.connection).await?)
    }

    /// Deletes a snippet. Returns whether it existed.
    pub async fn delete_snippet(&mut self, name: &str) -> Result<bool> {
        let done = sqlx::query!(
            "-- store::snippet::delete
            delete from houston.snippets where tenant_id = $1 and user_id = $2 and name = $3",
            self.tenant.0,
            self.user(),
            name
        );
        Ok(done.execute(&mut *self.connection).await?.rows_affected() > 0)
    }
}

impl TenantStore<'_> {
    /// Snippets of a user of the tenant without their code, in the order of their names, after `after` if given.
    pub async fn snippets(
        self,
        user: UserId,
        after: Option<String>,
        limit: i64,
    ) -> Result<Vec<SnippetEntry>> {
        let after = after.unwrap_or_default();
        Ok(with_connection!(self.pool, |c| self.knowledge_of(user, c).snippets(&after, Some(limit))))
    }

    /// A snippet of a user of the tenant.
    pub async fn snippet(self, user: UserId, name: &str) -> Result<Snippet> {
        let found = with_connection!(self.pool, |c| self.knowledge_of(user, c).snippet(name));
        found.ok_or(Error::NotFound { what: "snippet" })
    }

    /// Deletes a snippet of a user of the tenant. If it is a tool, runs that begin later have it no more.
    pub async fn delete_snippet(self, user: UserId, name: &str) -> Result<()> {
        let existed = with_connection!(self.pool, |c| self.knowledge_of(user, c).delete_snippet(name));
        if existed { Ok(()) } else { Err(Error::NotFound { what: "snippet" }) }
    }
}
