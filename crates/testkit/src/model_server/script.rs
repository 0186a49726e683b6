//! Common scripts. Any closure `Fn(&Call) -> Reply` is a script.

use super::{Call, Reply};

/// The same reply to every call.
pub fn always(reply: Reply) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |_| reply.clone()
}

/// One reply after the other, in the order of the calls; the last one for all further calls.
pub fn in_turn(replies: impl IntoIterator<Item = Reply>) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let replies: Vec<Reply> = replies.into_iter().collect();
    move |call| {
        let at = call.number.min(replies.len().saturating_sub(1));
        replies.get(at).cloned().unwrap_or_else(Reply::empty)
    }
}

/// `fault` for the first `count` calls, then the replies of `script`.
pub fn after_faults(
    count: usize,
    fault: Reply,
    script: impl Fn(&Call) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |call| if call.number < count { fault.clone() } else { script(call) }
}
