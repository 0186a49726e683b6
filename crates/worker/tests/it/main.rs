//! Workers over a real Postgres and a real Redis, without HTTP: what is posted through the store is answered.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod answer;
#[cfg(test)]
mod erasing;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod race;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod spending;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod texting;
#[cfg(test)]
mod watchdog;
#[cfg(test)]
mod workers;
