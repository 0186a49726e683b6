//! [`TraceParent`]: where a span belongs, as it crosses processes (W3C Trace Context, version 00).

use std::fmt;
use std::str::FromStr;

use crate::context::SpanContext;

/// The trace, the parent span and the flags of a `traceparent` header:
///
/// ```
/// use houston_spans::TraceParent;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// assert_eq!(text.parse::<TraceParent>().unwrap().to_string(), text);
/// assert!("00-00000000000000000000000000000000-b7ad6b7169203331-01".parse::<TraceParent>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent(pub(crate) SpanContext);

/// A text that is no `traceparent` of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTraceParent;

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let mut next = |digits| parts.next().filter(|part| is_hex(part, digits)).ok_or(InvalidTraceParent);
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        if version != "00" || parts.next().is_some() {
            return Err(InvalidTraceParent);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| InvalidTraceParent)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| InvalidTraceParent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceParent)?;
        if trace == 0 || span == 0 {
            return Err(InvalidTraceParent);
        }
        Ok(Self(SpanContext { trace, span, is_sampled: flags & 1 == 1, is_remote: true }))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpanContext { trace, span, is_sampled, .. } = self.0;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(is_sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_headers_are_taken() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(valid.parse::<TraceParent>().unwrap().to_string(), valid);
        for wrong in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-é1",
        ] {
            assert_eq!(wrong.parse::<TraceParent>(), Err(InvalidTraceParent), "{wrong}");
        }
    }
}
