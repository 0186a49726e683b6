//! Workers over a real Postgres and a real Redis, without HTTP: what is posted through the store is answered.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod answer;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod race;
#[cfg(test)]
mod rig;
