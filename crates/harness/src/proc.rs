//! Processor time and memory of a process, from `/proc`. Linux only.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::houston::Houston;
use houston_testkit::process::Process;

/// The unit of times in `/proc` on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time that `pid` and its children have used, including children that have ended.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let own = stat(pid).with_context(|| format!("/proc/{pid} cannot be read"))?;
    let mut ticks = own.ticks + own.ticks_of_dead_children;
    for child in children(pid) {
        // A child that ends here is counted among the dead children at the next call.
        ticks += stat(child).map_or(0, |stat| stat.ticks + stat.ticks_of_dead_children);
    }
    Ok(TICK * u32::try_from(ticks)?)
}

/// Resident memory of all processes of an installation, in bytes.
pub(crate) fn rss_of(houston: &Houston) -> Result<u64> {
    houston.processes().map(Process::pid).map(rss).sum()
}

/// Processor time that this process has used, without its children.
pub(crate) fn own_cpu() -> Result<Duration> {
    let own = stat(std::process::id()).context("/proc/self cannot be read")?;
    Ok(TICK * u32::try_from(own.ticks)?)
}

/// Resident memory of `pid`, in bytes.
fn rss(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("/proc/{pid} cannot be read"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS in /proc/<pid>/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

struct Stat {
    parent: u32,
    ticks: u64,
    ticks_of_dead_children: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields after the name, which may contain spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)?,
        ticks_of_dead_children: number(13)? + number(14)?,
    })
}

fn children(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|child| stat(*child).is_some_and(|stat| stat.parent == pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let pid = std::process::id();
        let before = cpu(pid).unwrap();
        // Busy until the counter has moved, however slow the machine is.
        while cpu(pid).unwrap() - before < TICK * 3 {
            std::hint::black_box(0);
        }
        assert!(rss(pid).unwrap() > 1 << 20);
        assert!(cpu(u32::MAX).is_err());
    }
}
