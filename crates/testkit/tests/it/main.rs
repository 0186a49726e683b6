//! The fakes, seen from outside: bytes on sockets, and a child that is killed.

#[cfg(test)]
mod answers;
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
