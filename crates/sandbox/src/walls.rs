//! The walls of the child: what it takes from itself before it reads a byte of foreign input. Nothing that runs later can
//! undo them.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod system_calls;

/// What the resource limits of a child are.
#[derive(Debug, Clone, Copy)]
pub struct WallLimits {
    /// Seconds of CPU time. The kernel ends the process then, and cannot be stopped from it a second later.
    pub cpu_seconds: u64,
    /// Bytes of address space.
    pub address_space: u64,
    /// Bytes of stack.
    pub stack: u64,
}

#[cfg(target_os = "linux")]
pub use self::linux::build;

/// As on Linux: elsewhere there are no walls.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn build(_limits: WallLimits) -> Result<(), Vec<String>> {
    Err(vec!["the sandbox needs Linux 6.12 or newer".to_owned()])
}
