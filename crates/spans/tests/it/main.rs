//! What a collector of OpenTelemetry is sent.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod sent;
