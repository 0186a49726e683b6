//! Numbers of `jobs/` that functions of the database need where no caller passes them: what follows from the end of a
//! task, the extract of a session that is closed, and messages that an application posts by SQL alone.

use houston_domain::session::SessionArchive;
use houston_domain::task::TaskLimits;

use crate::error::Result;
use crate::fairness::Fairness;
use crate::pool::Store;

impl Store {
    /// Writes the numbers to the database; what is there already is not written again. Each process does so when it
    /// starts, and all processes should have the same numbers: the last one that started decides.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses.
    pub async fn write_settings(
        &self,
        fairness: Fairness,
        tasks: &TaskLimits,
        sessions: &SessionArchive,
    ) -> Result<()> {
        let settings = [
            ("fairness.max_running", fairness.running()),
            ("fairness.max_pending", fairness.pending()),
            ("tasks.note_chars", tasks.note_chars),
            ("tasks.report_chars", tasks.report_chars),
            ("tasks.report_notes", tasks.report_notes),
            ("session.extract_entries", sessions.extract_entries),
            ("session.extract_texts", sessions.extract_texts),
            ("session.extract_chars", sessions.extract_chars),
        ];
        let (names, values): (Vec<&str>, Vec<i32>) = settings.into_iter().unzip();
        sqlx::query!(
            "-- store::settings::write
            insert into houston.settings as s (name, value) select * from unnest($1::text[], $2::integer[])
            on conflict (name) do update set value = excluded.value where s.value <> excluded.value",
            &names as &[&str],
            &values
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
