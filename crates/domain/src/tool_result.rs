//! Large results of tools: the history has a preview, the whole is stored beside it.

use crate::setting::{WrongSetting, require};

settings! {
    /// `[context.results]` of `jobs/orchestrator.toml`, in bytes.
    ///
    /// ```toml
    /// [context.results]
    /// inline_bytes = 16_384
    /// beginning_bytes = 2_048
    /// page_bytes = 8_192
    /// ```
    pub struct ResultLimits {
        /// Longer results are stored beside the history.
        pub inline_bytes: usize = 16_384;
        /// Length of the preview in the history.
        pub beginning_bytes: usize = 2_048;
        /// Length of what the agent reads at once.
        pub page_bytes: usize = 8_192;
    }
}

impl ResultLimits {
    /// Checks that preview and page leave room for what Houston says about them.
    ///
    /// # Errors
    /// [`WrongSetting`] at the one that does not.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let inline = self.inline_bytes;
        let reason = format_args!("must be from 1024 to inline_bytes ({inline}) minus 512");
        require(self.page_bytes >= 1024 && self.page_bytes + 512 <= inline, "/page_bytes", reason)?;
        let reason = format_args!("must be at most inline_bytes ({inline}) minus 512");
        require(self.beginning_bytes + 512 <= inline, "/beginning_bytes", reason)?;
        Ok(())
    }
}

/// A part of a long text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultPart<'t> {
    /// Where it begins, in bytes.
    pub start: usize,
    /// The part.
    pub text: &'t str,
    /// Where the next part begins; `None` at the end.
    pub next: Option<usize>,
}

/// A part of a long text: about `max_bytes` bytes from the character at or before byte `offset`.
pub fn part(content: &str, offset: usize, max_bytes: usize) -> ResultPart<'_> {
    let start = content.floor_char_boundary(offset);
    // At least one character, so that reading on reaches the end.
    let end = content.floor_char_boundary(start.saturating_add(max_bytes.max(4)));
    ResultPart { start, text: &content[start..end], next: (end < content.len()).then_some(end) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Part after part, every byte is read once.
        #[test]
        fn parts_add_up_to_the_whole(content in "[a-zäö\n日🙂]{0,300}", max_bytes in 1..50usize) {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let ResultPart { start, text, next } = part(&content, offset, max_bytes);
                prop_assert_eq!(start, offset);
                prop_assert!(next.is_none_or(|next| next > offset));
                whole.push_str(text);
                at = next;
            }
            prop_assert_eq!(whole, content);
        }
    }
}
