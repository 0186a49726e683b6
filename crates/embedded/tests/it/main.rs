//! The crate against real servers. Tests that kill their own process run it as a child: see `supervisor.rs`.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod life;
#[cfg(test)]
mod supervisor;
#[cfg(test)]
mod wheels;
