//! The fakes, seen from outside: bytes on sockets, and a child that is killed; and the servers tests run on.

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
