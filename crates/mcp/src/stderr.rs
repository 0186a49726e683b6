//! [`Stderr`]: the last of what a process has printed, for operators.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::text::cleaned;

/// How much is kept.
const KEPT: usize = 64 * 1024;

/// The last 64 KiB that a process has written to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<u8>>>);

impl Stderr {
    /// Reads until the end. Without a reader a process that prints much would wait forever.
    pub(crate) async fn drain(self, mut from: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(piece.iter().take(read));
            let surplus = kept.len().saturating_sub(KEPT);
            kept.drain(..surplus);
        }
    }

    /// The last lines, without characters that a terminal would obey.
    pub(crate) fn last_lines(&self, lines: usize) -> Vec<String> {
        let kept: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept);
        let mut last: Vec<String> = text
            .lines()
            .rev()
            .map(|line| cleaned(line, 400))
            .filter(|line| !line.is_empty())
            .take(lines)
            .collect();
        last.reverse();
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let stderr = Stderr::default();
        let printed = format!("{}\nlast \u{1b}[31mline\n", "x".repeat(KEPT * 3));
        stderr.clone().drain(printed.as_bytes()).await;
        assert_eq!(stderr.0.lock().unwrap().len(), KEPT);
        assert_eq!(stderr.last_lines(1), ["last [31mline"]);
    }
}
