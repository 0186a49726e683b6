//! Recorded runs and plans of several kinds, replayed with the engine as it is. A difference means that runs end, or are
//! continued, in another way than before. If that is meant, `UPDATE_SNAPSHOTS=1` writes them anew: review the difference.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod golden;
#[cfg(test)]
mod plan_events;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod worker;
