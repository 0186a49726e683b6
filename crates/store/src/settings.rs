//! Settings of `jobs/` that database functions need where no caller passes them: reports at the end of a task and the files
//! that it moves, the extract of a closed session, and the limits for messages that an application posts by SQL alone.

use houston_domain::session::SessionArchive;
use houston_domain::task::TaskLimits;
use houston_domain::workspace::FileLimits;

use crate::error::Result;
use crate::fairness::Fairness;
use crate::pool::Store;

impl Store {
    /// Writes the settings to the database, if they differ. Each process does so when it starts; all processes
    /// should have the same settings, since the last one that started decides.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn write_settings(
        &self,
        fairness: Fairness,
        tasks: &TaskLimits,
        sessions: &SessionArchive,
        files: &FileLimits,
    ) -> Result<()> {
        let settings = [
            ("fairness.max_running", fairness.running()),
            ("fairness.max_pending", fairness.pending()),
            ("tasks.max_depth", tasks.max_depth),
            ("tasks.max_open", tasks.max_open),
            ("tasks.note_chars", tasks.note_chars),
            ("tasks.report_chars", tasks.report_chars),
            ("tasks.report_notes", tasks.report_notes),
            ("session.extract_entries", sessions.extract_entries),
            ("session.extract_texts", sessions.extract_texts),
            ("session.extract_chars", sessions.extract_chars),
            ("files.max_files", i32::try_from(files.max_files).unwrap_or(i32::MAX)),
            ("files.max_bytes", i32::try_from(files.max_bytes).unwrap_or(i32::MAX)),
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
