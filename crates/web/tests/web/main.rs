//! The client and the search providers against servers in memory. No test connects to anything but loopback: what must
//! be refused is tried with a dialler that records every address it is asked for and connects to nothing.

#[cfg(test)]
mod certificate;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod loopback;
#[cfg(test)]
mod network;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod resolution;
#[cfg(test)]
mod search;
#[cfg(test)]
mod search_errors;
#[cfg(test)]
mod vectors;
