//! Houston as its users meet it: real processes, real servers, real faults.

mod commands;
mod faults;
mod house;
mod load;
