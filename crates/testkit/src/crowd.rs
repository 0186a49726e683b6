//! A database full of agentables that have nothing to do, and a few that have: what a query costs among them.
//!
//! Everything is made by the server itself, from numbers: an id says which row it is of, so that a test or a
//! benchmark can name any of them. Ids grow with time as real ones do, and what belongs to one agentable lies
//! scattered among what belongs to the others, as it does after a year.

/// How many of each. Every agentable has had `runs` runs, each with a message, an answer and five events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// Goals.
    pub agentables: u32,
    /// Completed runs of each.
    pub runs: u32,
    /// Agentables, from number 0 on, that wait for a worker: an unread message, an open run, no holder.
    pub waiting: u32,
    /// Agentables after those that a living worker drives.
    pub driven: u32,
    /// Workers that live, for an hour from the seeding on.
    pub workers: u32,
}

impl Crowd {
    /// 100,000 agentables with 1,000,000 messages, 2,000 of them due and 200 at work.
    pub const LARGE: Self = Self { agentables: 100_000, runs: 5, waiting: 2_000, driven: 200, workers: 8 };

    /// The id of row `number` of a kind: `tenant`, `user`, `goal`, `run`, `message`, `worker`, `agent`, `team`,
    /// `session`.
    ///
    /// # Panics
    ///
    /// When there are no rows of this kind.
    #[must_use]
    pub fn id(kind: &str, number: u32) -> String {
        let kinds = ["tenant", "user", "goal", "run", "message", "worker", "agent", "team", "session"];
        let kind = kinds.iter().position(|known| *known == kind);
        assert!(kind.is_some(), "{kinds:?} have numbered rows");
        format!("01900000-{:04x}-7000-8000-{number:012x}", kind.unwrap_or_default())
    }

    /// What `psql` must read to fill an empty, migrated database.
    #[must_use]
    pub fn script(&self) -> String {
        let Self { agentables, runs, waiting, driven, workers } = self;
        format!(
            "\\set ON_ERROR_STOP 1\n\\set agentables {agentables}\n\\set runs {runs}\n\\set waiting {waiting}\n\
             \\set driven {driven}\n\\set workers {workers}\n{}",
            include_str!("crowd.sql")
        )
    }
}
