//! `houston chat` at a pseudo-terminal (`script` of util-linux).

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::dev::Dev;

const PATIENCE: Duration = Duration::from_secs(30);

struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    shown: Arc<(Mutex<String>, Condvar)>,
    /// The end of the output that was matched so far.
    seen: usize,
}

impl Terminal {
    fn open(folder: &Path) -> Self {
        // Without `exec` some shells stay, and are killed by the Ctrl-C that is meant for Houston.
        let houston = format!("exec {} --folder {} chat", env!("CARGO_BIN_EXE_houston"), folder.display());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &houston, "/dev/null"]);
        command
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("HOUSTON_URL")
            .env_remove("HOUSTON_API_KEY");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` of util-linux");
        let (keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let text = Arc::clone(&shown);
        std::thread::spawn(move || {
            let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                bytes.extend_from_slice(&piece[..length]);
                *text.0.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
                text.1.notify_all();
            }
        });
        Self { child, keyboard, shown, seen: 0 }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until `text` appears after the output matched so far.
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        let (lock, grown) = &*self.shown;
        let mut shown = lock.lock().unwrap();
        loop {
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "timed out waiting for {text:?} in {:?}", &shown[self.seen..]);
            shown = grown.wait_timeout(shown, left).unwrap().0;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn interactive_chat_sends_cancels_and_quits() {
    let dev = Dev::start();
    let mut terminal = Terminal::open(dev.folder.path());
    terminal.wait_for("Get to know Houston · goal_");
    terminal.wait_for("> ");
    // The line can be edited: two letters were swapped.
    terminal.type_in("Please create a note: buy mlik\u{1b}[D\u{1b}[D\u{14}\n");
    terminal.wait_for("> Please create a note: buy milk");
    terminal.wait_for("⚙ Create note … done");
    terminal.wait_for("I wrote it down as note_");

    terminal.type_in("/sim chunks=100 delay_ms=20\n");
    terminal.wait_for("This is Houston's");
    terminal.type_in("what time ");
    terminal.wait_for("what time ");
    terminal.type_in("is it?\n");
    terminal.wait_for("> what time is it?");
    terminal.wait_for("⚙ Get current time … done");
    terminal.wait_for("It is 2");
    dev.wait_until_idle();

    terminal.type_in("/sim chunks=5000 delay_ms=5\n");
    terminal.wait_for("This is Houston's");
    terminal.type_in("\u{3}");
    terminal.wait_for("cancelling…");
    terminal.wait_for("cancelled");

    terminal.type_in("/history 2\n");
    terminal.wait_for("It is 2");
    terminal.wait_for("> /sim chunks=5000 delay_ms=5");
    terminal.type_in("/sim fail=authentication_error\n");
    terminal.wait_for("✗ ordered by /sim fail (AUTHENTICATION_ERROR)");
    terminal.type_in("/new\n");
    terminal.wait_for("new conversation: goal_");
    terminal.type_in("hello\n");
    // A full row is continued in the next one.
    terminal.wait_for(" hello\r\n");
    terminal.type_in("\u{4}");
    assert!(terminal.child.wait().unwrap().success());
    let typed = std::fs::read_to_string(dev.folder.path().join("chat_history")).unwrap();
    assert!(typed.contains("Please create a note: buy milk\n"), "{typed}");

    // A chat that is started again shows the open run.
    let mut terminal = Terminal::open(dev.folder.path());
    terminal.wait_for("Chat · goal_");
    terminal.type_in("/sim chunks=1000 delay_ms=100\n");
    // The messages before it, which are printed first, have the same words as its answer.
    terminal.wait_for("> /sim chunks=1000 delay_ms=100");
    terminal.wait_for("This is Houston's");
    terminal.type_in("/quit\n");
    terminal.wait_for("the answer goes on");
    assert!(terminal.child.wait().unwrap().success());
    let mut terminal = Terminal::open(dev.folder.path());
    terminal.wait_for("> /sim chunks=1000 delay_ms=100");
    terminal.wait_for("This is");
    terminal.type_in("/cancel\n");
    terminal.wait_for("cancelled");
    terminal.type_in("\u{3}");
    assert!(terminal.child.wait().unwrap().success());
}
