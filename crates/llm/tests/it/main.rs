//! Tests of the public interface: models created from provider rows, against servers on loopback.

// `cfg(test)` so that clippy recognises these modules as tests.
#[cfg(test)]
mod call;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod correction;
#[cfg(test)]
mod detection;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod server;
#[cfg(test)]
mod submission;
#[cfg(test)]
mod tier;
#[cfg(test)]
mod transport;
