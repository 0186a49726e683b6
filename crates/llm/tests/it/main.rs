//! The crate as its users see it: models connected by their provider's row, against servers on loopback.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod call;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod detection;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod server;
#[cfg(test)]
mod transport;
