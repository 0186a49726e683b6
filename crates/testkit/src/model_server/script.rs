//! Scripts that tests write most often. Any closure `Fn(&Call) -> Reply` is one too.

use std::sync::Mutex;
use std::sync::PoisonError;

use super::{Call, Reply};

/// Always the same.
pub fn always(reply: Reply) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |_| reply.clone()
}

/// One after the other, in the order of the calls; the last one for ever.
pub fn in_turn(replies: impl IntoIterator<Item = Reply>) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let replies: Vec<Reply> = replies.into_iter().collect();
    move |call| {
        let at = call.number.min(replies.len().saturating_sub(1));
        replies.get(at).cloned().unwrap_or_else(Reply::empty)
    }
}

/// `ask` when the user spoke last, `answer` once tools have answered.
pub fn react(ask: Reply, answer: Reply) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |call| if call.has_tool_results() { answer.clone() } else { ask.clone() }
}

/// The first `count` calls get `fault`, the others what `script` says.
pub fn after_faults(
    count: usize,
    fault: Reply,
    script: impl Fn(&Call) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let left = Mutex::new(count);
    move |call| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left == 0 {
            return script(call);
        }
        *left -= 1;
        fault.clone()
    }
}

/// Says back what the user said last.
pub fn echo() -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    |call| Reply::text(format!("You said: {}", call.last_user_text())).in_pieces(4)
}
