//! [`Evaluators`]: children that evaluate what has no meter of its own, one request after another.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::outcome::Error;
use crate::process::{Allowance, Child, Death, Program, Read};
use crate::protocol::{Message, Task};
use crate::sandbox::ready;

/// CPU time after which the kernel ends a child, and after which it gets no further request: each evaluation has a second.
const CPU: Duration = Duration::from_secs(2);
const USED_UP_MS: u64 = 1_000;
/// After this time a child is stuck. It is long, because children yield the processor to all else on their machine: an expression
/// is not to blame for that, and is judged by its CPU time alone.
const TIME: Duration = Duration::from_secs(600);
/// Bytes of an answer.
const ANSWER: usize = 4 << 20;
/// SIGSEGV: the end of the stack. Memory that is used up is an abort, for which there is SIGABRT, or SIGSYS behind the walls.
const SEGMENTATION_FAULT: i32 = 11;
/// SIGKILL.
const KILLED: i32 = 9;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// It took longer than it may.
    #[error("takes more than a second of processor time")]
    Time,
    /// It needs more memory than it may have.
    #[error("needs more than 256 MiB of memory")]
    Memory,
    /// It ended the child in another way.
    #[error("is nested too deeply")]
    Depth,
    /// Nothing was evaluated.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

/// Children that evaluate. The first is started with the first request, and then always one more than is needed, so that
/// nobody waits for its start.
#[derive(Debug)]
pub struct Evaluators {
    program: Program,
    permits: Semaphore,
    spare: Mutex<Vec<Child>>,
}

impl Evaluators {
    /// At most so many `children` evaluate at once; other requests wait.
    pub fn new(program: Program, children: usize) -> Self {
        let permits = Semaphore::new(children.clamp(1, Semaphore::MAX_PERMITS));
        Self { program, permits, spare: Mutex::default() }
    }

    /// The answer to a request of one line. Dropping the future kills the child.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`]: what the evaluation took too much of, or why nothing was evaluated.
    pub async fn evaluate(&self, request: &str) -> Result<Box<RawValue>, NoAnswer> {
        let _permit = self.permits.acquire().await;
        match self.once(request).await? {
            Some(answer) => Ok(answer),
            // No limit ends a child in this way: somebody has killed it, or the kernel when the machine had no memory left.
            None => self.once(request).await?.ok_or(NoAnswer::Memory),
        }
    }

    /// `None`: the child was killed.
    async fn once(&self, request: &str) -> Result<Option<Box<RawValue>>, NoAnswer> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut child = match spare {
            Some(child) => child,
            None => self.start()?,
        };
        if self.spare.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            // Without it, the next request waits for the start of its child.
            if let Ok(next) = self.start() {
                self.keep(next);
            }
        }
        if !child.is_ready() {
            child = ready(child).await?;
        }
        child.begin();
        child.write(request.as_bytes()).await;
        child.write(b"\n").await;
        match child.message().await? {
            Read::Message(Message::Evaluated { answer, cpu_ms }) => {
                if cpu_ms < USED_UP_MS {
                    self.keep(child);
                }
                Ok(Some(answer))
            }
            Read::Message(_) => Err(Error::Protocol("an evaluation sent another message".to_owned()).into()),
            Read::TimedOut => {
                child.kill().await;
                Err(Error::Protocol(format!("an evaluation did not end within {} s", TIME.as_secs())).into())
            }
            Read::End(Death::OutOfTime) => Err(NoAnswer::Time),
            Read::End(Death::Signal(KILLED)) => Ok(None),
            Read::End(Death::Signal(SEGMENTATION_FAULT)) => Err(NoAnswer::Depth),
            Read::End(Death::Signal(_)) => Err(NoAnswer::Memory),
            Read::End(Death::Code(code)) => {
                Err(Error::NotASandbox(format!("it ended with code {code}")).into())
            }
        }
    }

    fn start(&self) -> Result<Child, Error> {
        let allowance = Allowance { cpu: CPU, time: TIME, output: 0, line: ANSWER };
        Child::start(&self.program, Task::Evaluation, allowance)
    }

    fn keep(&self, child: Child) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(child);
    }
}
