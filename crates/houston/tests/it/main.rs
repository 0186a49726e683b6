//! The library against real servers, and its examples as programs.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod agents;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod installation;
