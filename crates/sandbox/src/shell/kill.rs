//! Killing a command at any moment, also while bwrap still starts.
//!
//! The first process that bwrap starts is the first of a table of processes of its own: all others of the command die with it. It
//! dies with bwrap, too, but for a moment of its start it has a session of its own already, and does not die with its parent yet. So
//! bwrap is stopped before it is killed: then it starts nothing more, and what it has started is found and killed first.

use std::process::Child;

/// Kills bwrap and all that it has started.
pub(super) fn kill(child: &mut Child) {
    #[cfg(target_os = "linux")]
    linux::kill_started(child);
    let _ = child.kill();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::process::Child;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

    /// How long bwrap may take to stop: it does at once, unless the kernel is busy with what it asked for.
    const STOP_TIME: Duration = Duration::from_secs(1);
    /// How often to look whether it has.
    const LOOK_EVERY: Duration = Duration::from_micros(200);

    pub(super) fn kill_started(child: &Child) {
        let bwrap = Pid::from_child(child);
        if kill_process(bwrap, Signal::STOP).is_ok() && has_stopped(bwrap) {
            for started in descendants(bwrap) {
                let _ = kill_process(started, Signal::KILL);
            }
        }
        let _ = kill_process_group(bwrap, Signal::KILL);
    }

    /// Waits until bwrap has stopped; false if it has ended instead.
    fn has_stopped(bwrap: Pid) -> bool {
        let began = Instant::now();
        let options =
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while began.elapsed() < STOP_TIME {
            match waitid(WaitId::Pid(bwrap), options) {
                Ok(Some(status)) => return status.stopped(),
                Ok(None) => thread::sleep(LOOK_EVERY),
                Err(_) => return false,
            }
        }
        // What it has started so far is found all the same.
        true
    }

    /// What a process has started and what that has started, as it is now, the first of each before those below it.
    fn descendants(of: Pid) -> Vec<Pid> {
        let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: Vec<(Pid, Pid)> = folders
            .filter_map(|folder| {
                let pid = folder.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
                let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
                Some((pid, parent(&stat)?))
            })
            .collect();
        let mut found = vec![of];
        let mut nth = 0;
        while let Some(&next) = found.get(nth) {
            found.extend(all.iter().filter(|(_, parent)| *parent == next).map(|(pid, _)| *pid));
            nth += 1;
        }
        found.split_off(1)
    }

    /// The parent in `stat` of a process: after its name, which may have brackets and spaces, and its state.
    fn parent(stat: &str) -> Option<Pid> {
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok().and_then(Pid::from_raw)
    }

    #[cfg(test)]
    mod tests {
        use std::process::{Command, Stdio};

        use super::*;

        #[test]
        fn name_of_a_process_does_not_hide_its_parent() {
            assert_eq!(parent("30603 (a) b (c)) R 29313 29313 7059 0"), Pid::from_raw(29313));
            assert_eq!(parent("1 (init) S 0 1 1 0"), None);
        }

        #[test]
        fn processes_in_sessions_of_their_own_are_found_and_killed() {
            let mut child = Command::new("/bin/sh")
                .args(["-c", "setsid sh -c 'sleep 7201.5 & sleep 7201.5' & wait"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&child);
            let began = Instant::now();
            while descendants(pid).len() < 3 {
                assert!(began.elapsed() < Duration::from_secs(20), "they do not begin");
                thread::sleep(Duration::from_millis(5));
            }
            let started = descendants(pid);
            kill_started(&child);
            let _ = child.kill();
            child.wait().unwrap();
            let is_alive = |pid: &Pid| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
            };
            while started.iter().any(is_alive) {
                assert!(began.elapsed() < Duration::from_secs(20), "{started:?} survive");
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
