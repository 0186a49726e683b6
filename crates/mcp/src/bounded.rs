//! [`Bounded`]: the output of a process, which ends where a line is too long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Reads lines of at most `most` bytes. A longer one is the end: dropping it, as the transport would, leaves the call that
/// it answers without an answer.
pub(crate) struct Bounded<R> {
    inner: R,
    most: usize,
    /// Bytes since the last line break.
    line: usize,
    exceeded: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    /// `exceeded` becomes true when a line was too long.
    pub(crate) fn new(inner: R, most: usize, exceeded: Arc<AtomicBool>) -> Self {
        Self { inner, most, line: 0, exceeded }
    }

    /// Counts these bytes. Whether all lines are short enough.
    fn count(&mut self, bytes: &[u8]) -> bool {
        bytes.split_inclusive(|byte| *byte == b'\n').all(|piece| {
            self.line += piece.len();
            let is_fine = self.line <= self.most;
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
            is_fine
        })
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.exceeded.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let is_fine = self.count(&buffer.filled()[before..]);
        if !is_fine {
            buffer.set_filled(before);
            self.exceeded.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(text: &str, most: usize) -> (String, bool) {
        let exceeded = Arc::new(AtomicBool::new(false));
        let mut bounded = Bounded::new(text.as_bytes(), most, Arc::clone(&exceeded));
        let mut all = String::new();
        // One byte at a time, so that a line consists of many pieces.
        let mut byte = [0];
        while bounded.read(&mut byte).await.unwrap() == 1 {
            all.push(char::from(byte[0]));
        }
        (all, exceeded.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn output_ends_at_a_line_that_is_too_long() {
        assert_eq!(read("1234\n1234\n", 5).await, ("1234\n1234\n".to_owned(), false));
        assert_eq!(read("1234\n12345\n1\n", 5).await, ("1234\n12345".to_owned(), true));
    }

    #[tokio::test]
    async fn long_line_in_one_piece_ends_the_output() {
        let exceeded = Arc::new(AtomicBool::new(false));
        let mut bounded = Bounded::new(&b"1\n123456\n1\n"[..], 5, Arc::clone(&exceeded));
        let mut all = Vec::new();
        bounded.read_to_end(&mut all).await.unwrap();
        assert!(exceeded.load(Ordering::Relaxed) && all.len() <= 2, "{all:?}");
    }
}
