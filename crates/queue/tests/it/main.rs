//! The queue on a real Redis.

#[cfg(test)]
mod bus;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod hints;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod server;
#[cfg(test)]
mod worker;
