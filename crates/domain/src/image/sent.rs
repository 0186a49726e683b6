//! Which images of a history a model is sent.

use serde::{Deserialize, Serialize};

/// How many images of a history a model is sent with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextImages {
    /// The newest ones, at most this many.
    pub max_images: usize,
    /// Bytes of them together, before they are encoded.
    pub max_bytes: usize,
}

impl Default for ContextImages {
    fn default() -> Self {
        Self { max_images: 8, max_bytes: 15_000_000 }
    }
}

/// For each image of a history, the oldest first, whether a model is sent it. `bytes` are their lengths.
///
/// The newest are sent. Once there are more than allowed, half of what is allowed goes at once: what a request begins with
/// then stays the same for as many further images, and the provider's cache holds. The newest that fits alone is always sent.
#[must_use]
pub fn is_sent(bytes: &[usize], limits: ContextImages) -> Vec<bool> {
    let step = (limits.max_images / 2).max(1);
    let beyond = bytes.len().saturating_sub(limits.max_images);
    let mut first = (beyond.div_ceil(step) * step).min(bytes.len());
    if limits.max_images == 0 {
        first = bytes.len();
    }
    while bytes[first..].iter().sum::<usize>() > limits.max_bytes {
        first += if first + step < bytes.len() { step } else { 1 };
    }
    (0..bytes.len()).map(|nth| nth >= first).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(bytes: &[usize], limits: ContextImages) -> usize {
        is_sent(bytes, limits).iter().position(|sent| *sent).unwrap_or(bytes.len())
    }

    #[test]
    fn old_images_go_by_half_of_the_limit() {
        let limits = ContextImages { max_images: 8, max_bytes: 100 };
        let firsts: Vec<usize> = (0..=17).map(|count| first(&vec![1; count], limits)).collect();
        assert_eq!(firsts, [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12]);
        assert_eq!(first(&[60, 60], limits), 1, "too few for a step of four");
        assert_eq!(first(&[60, 1, 1, 1, 60], limits), 4);
    }

    proptest! {
        #[test]
        fn the_newest_are_sent_within_the_limits(
            bytes in proptest::collection::vec(0_usize..50, 0..40), max_images in 0_usize..10, max_bytes in 0_usize..200
        ) {
            let limits = ContextImages { max_images, max_bytes };
            let sent = is_sent(&bytes, limits);
            prop_assert_eq!(sent.len(), bytes.len());
            prop_assert!(sent.is_sorted(), "the newest, without gaps");
            prop_assert!(sent.iter().filter(|sent| **sent).count() <= max_images);
            let sum: usize = bytes.iter().zip(&sent).filter(|(_, sent)| **sent).map(|(bytes, _)| bytes).sum();
            prop_assert!(sum <= max_bytes);
            let newest_fits = max_images > 0 && bytes.last().is_some_and(|bytes| *bytes <= max_bytes);
            prop_assert_eq!(sent.last().copied().unwrap_or(false), newest_fits);
        }
    }
}
