//! Tests of the fakes at the level of bytes on sockets, of child processes, and of the test servers.

houston_testkit::shared_postgres!();

#[cfg(test)]
mod answers;
#[cfg(test)]
mod databases;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod held;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod socket;
