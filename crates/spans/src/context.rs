//! [`SpanContext`]: what names a span.

/// The trace and the id of a span, and whether its trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanContext {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) is_sampled: bool,
    /// It was begun in another process.
    pub(crate) is_remote: bool,
}

/// Which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The part of the traces, from 0 to 1. The id of a trace decides.
    pub share: f64,
    /// A span that has a parent does as that does.
    pub follows_parent: bool,
}

impl Sampler {
    /// All that begin here; of others, those that their parent records.
    pub const DEFAULT: Self = Self { share: 1.0, follows_parent: true };

    pub(crate) fn samples(self, trace: u128, parent: Option<SpanContext>) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.is_sampled,
            _ if self.share >= 1.0 => true,
            // The first 63 of the last 64 bits, as the SDKs of OpenTelemetry do: all services choose the same traces.
            _ => {
                let bits = trace as u64 >> 1;
                bits < (self.share.max(0.0) * 2f64.powi(63)) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_traces_is_chosen_by_their_ids() {
        let parent = |is_sampled| Some(SpanContext { trace: 1, span: 1, is_sampled, is_remote: true });
        let half = Sampler { share: 0.5, follows_parent: true };
        let (low, high) = (0x7f << 56, 0x80 << 56);
        assert!(half.samples(low, None) && !half.samples(high, None));
        assert!(half.samples(high, parent(true)) && !half.samples(low, parent(false)));
        let alone = Sampler { share: 0.5, follows_parent: false };
        assert!(alone.samples(low, parent(false)) && !alone.samples(high, parent(true)));
        let [none, all] = [0.0, 1.0].map(|share| Sampler { share, follows_parent: false });
        assert!(!none.samples(0, None) && all.samples(u128::MAX, None));
    }
}
