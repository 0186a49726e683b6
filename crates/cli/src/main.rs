//! `houston`: see `houston --help`.

use std::process::ExitCode;

/// A run allocates on one thread what another frees. That took a sixth of its processor time in glibc, which also kept what large
/// documents had needed; this allocator returns it within seconds (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    houston_cli::App::default().main()
}
