//! The life of a process. Signals: the first one drains, the second one ends the process at once. [`Systemd`]: says to systemd
//! how far the process is, for units with `Type=notify`: ready, alive, stopping; without `NOTIFY_SOCKET` nothing is sent.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::environment::environment;

/// From now on: cancels `stop` at the first SIGTERM or SIGINT; exits with code 130 at the second.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub(crate) fn stop_on_signals(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    TaskTracker::new().spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        crate::output::print_stderr(
            "stopping: runs finish their step or are handed over (a second signal stops at once)",
        );
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}

/// The socket that systemd reads, and how often it wants to hear of this process.
pub(crate) struct Systemd {
    socket: UnixDatagram,
    /// `WatchdogSec` of the unit; `None`: it has no watchdog.
    watchdog: Option<Duration>,
}

impl Systemd {
    /// The one that started this process; `None` if it is another program, or cannot be reached.
    fn of_environment() -> Option<Self> {
        let address = environment("NOTIFY_SOCKET")?;
        let ours = environment("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let every: Option<u64> = environment("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let watchdog = every.filter(|micros| ours && *micros > 0).map(Duration::from_micros);
        match connect(&address) {
            Ok(socket) => Some(Self { socket, watchdog }),
            Err(error) => {
                tracing::warn!(%error, address, "systemd cannot be reached at NOTIFY_SOCKET");
                None
            }
        }
    }

    /// Says that the process is ready; from then on that it is alive, twice in the time of the watchdog; and once `stop` is cancelled
    /// that it stops. It never ends: it is dropped with the process.
    ///
    /// It runs on the threads of the runs, so that a process whose tasks are no longer scheduled falls silent.
    pub(crate) async fn report(self, stop: CancellationToken) {
        self.send("READY=1");
        let stopping = async {
            stop.cancelled().await;
            self.send("STOPPING=1");
        };
        tokio::join!(stopping, self.stay_alive());
    }

    async fn stay_alive(&self) {
        let Some(watchdog) = self.watchdog else { return };
        let mut ticks = tokio::time::interval(watchdog / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, state: &str) {
        if let Err(error) = self.socket.send(state.as_bytes()) {
            tracing::warn!(%error, state, "systemd could not be notified");
        }
    }
}

fn connect(address: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A full queue must not stop the process.
    socket.set_nonblocking(true)?;
    socket.connect_addr(&named(address)?)?;
    Ok(socket)
}

/// A path, or an abstract name, which begins with `@`.
fn named(address: &str) -> std::io::Result<SocketAddr> {
    match address.strip_prefix('@') {
        None => SocketAddr::from_pathname(address),
        #[cfg(target_os = "linux")]
        Some(name) => SocketAddr::from_abstract_name(name),
        #[cfg(not(target_os = "linux"))]
        Some(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

/// Reports to systemd, if it started this process, until the runtime ends.
pub(crate) fn report_to_systemd(stop: &CancellationToken) {
    if let Some(systemd) = Systemd::of_environment() {
        TaskTracker::new().spawn(systemd.report(stop.clone()));
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Reads what a process says until it has said each of `states`.
    fn hear(socket: &UnixDatagram, states: &[&str]) {
        let mut missing = states.to_vec();
        while !missing.is_empty() {
            let mut bytes = [0; 64];
            let count = socket.recv(&mut bytes).unwrap();
            missing.retain(|state| state.as_bytes() != &bytes[..count]);
        }
    }

    #[tokio::test]
    async fn systemd_hears_ready_alive_and_stopping() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify").display().to_string();
        for address in [path, format!("@houston-test-{}", std::process::id())] {
            let socket = UnixDatagram::bind_addr(&named(&address).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let watchdog = Some(Duration::from_millis(20));
            let (process, stop) =
                (Systemd { socket: connect(&address).unwrap(), watchdog }, CancellationToken::new());
            let stopping = stop.clone();
            let heard = tokio::task::spawn_blocking(move || {
                hear(&socket, &["READY=1", "WATCHDOG=1"]);
                stopping.cancel();
                // It stays alive while it drains.
                hear(&socket, &["STOPPING=1", "WATCHDOG=1"]);
            });
            tokio::select! {
                () = process.report(stop) => unreachable!(),
                heard = heard => heard.unwrap(),
            }
        }
    }
}
