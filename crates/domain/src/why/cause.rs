//! The causes for which an agentable does not go on.

/// A cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing is to be done: no run is open.
    Idle,
    /// It is archived.
    Archived,
    /// Its latest run failed.
    Failed,
    /// Its latest run was given up, because workers died with it.
    DeadLettered,
    /// Its latest run was cancelled.
    Cancelled,
    /// The open run is to be cancelled.
    Cancelling,
    /// A worker runs it.
    Running,
    /// A worker runs it, but has committed nothing for long.
    Quiet,
    /// The worker that holds the lock is dead.
    HolderDead,
    /// It waits for an answer of a person.
    Question,
    /// A budget is reached, and a person may raise it.
    Budget,
    /// A person has paused it.
    Paused,
    /// It waits for the end of its tasks.
    Tasks,
    /// It waits for a message or a time.
    Waiting,
    /// An attempt failed, and the next is not due yet.
    Retry,
    /// The tokens of its user are used up.
    RateLimit,
    /// An operator has paused its lane.
    LanePaused,
    /// Its model is not called for a while: a circuit breaker is open.
    BreakerOpen,
    /// Its user has as many runs as may be held at once.
    Fairness,
    /// No worker is alive.
    NoWorker,
    /// All living workers drain.
    Draining,
    /// It could be claimed: the hint is on its way, or all slots are in use.
    Queued,
    /// It could be claimed, and Redis, which delivers hints, is away.
    RedisAway,
    /// It has waited for longer than a lost hint can explain: the slots are in use.
    SlotsFull,
    /// Its run is open, but nothing would find it.
    Forgotten,
    /// Workers died while they ran it.
    Suspect,
    /// A check of the installation failed that explains the causes before it.
    Health,
}

impl Cause {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Archived => "archived",
            Self::Failed => "failed",
            Self::DeadLettered => "dead_lettered",
            Self::Cancelled => "cancelled",
            Self::Cancelling => "cancelling",
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::HolderDead => "holder_dead",
            Self::Question => "question",
            Self::Budget => "budget",
            Self::Paused => "paused",
            Self::Tasks => "tasks",
            Self::Waiting => "waiting",
            Self::Retry => "retry",
            Self::RateLimit => "rate_limit",
            Self::LanePaused => "lane_paused",
            Self::BreakerOpen => "breaker_open",
            Self::Fairness => "fairness",
            Self::NoWorker => "no_worker",
            Self::Draining => "draining",
            Self::Queued => "queued",
            Self::RedisAway => "redis_away",
            Self::SlotsFull => "slots_full",
            Self::Forgotten => "forgotten",
            Self::Suspect => "suspect",
            Self::Health => "health",
        }
    }

    /// Whether it passes by itself, without a person. [`Self::Health`] holds nothing up: the causes before it do.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(
            self,
            Self::Cancelling
                | Self::Running
                | Self::HolderDead
                | Self::Tasks
                | Self::Retry
                | Self::RateLimit
                | Self::BreakerOpen
                | Self::Fairness
                | Self::Queued
                | Self::RedisAway
                | Self::Forgotten
                | Self::Health
        )
    }
}
