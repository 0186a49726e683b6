//! [`ModelPolicy`]: how long a provider keeps a prompt, and how soon an answer is needed; and the rule by which
//! [`CachePolicy::Auto`] chooses.
//!
//! A message says it for the run that answers it, the creator of a task for the task, and the file of a kind for all its runs; what
//! none of them says has the default.

use serde::{Deserialize, Serialize};

names! {
    /// How long the provider of a model is to keep a prompt, so that the next request pays less for what it has in common with it.
    #[derive(Hash, Default)]
    pub enum CachePolicy {
        /// Not at all, where that can be said.
        Off = "off",
        /// As it usually does: Anthropic 5 minutes after each use, OpenAI at least as long.
        Short = "short",
        /// Longer: Anthropic an hour, OpenAI 12 or 24 hours.
        Long = "long",
        /// What would have cost least with the pauses that the agentable has had: see [`cheapest`].
        #[default]
        Auto = "auto",
    }
}

names! {
    /// How soon an answer is needed.
    #[derive(Hash, Default)]
    pub enum Latency {
        /// Sooner than usual, for a higher price, where the provider has a fast lane.
        Fast = "fast",
        /// As usual: somebody waits.
        #[default]
        Interactive = "interactive",
        /// Within minutes, or two hours: the provider's cheap tier, or a call that it answers later.
        Relaxed = "relaxed",
        /// Within a day, because nobody waits: as cheap as the provider has it. Where it takes calls that it answers later, the run
        /// waits for them without a worker.
        Batch = "batch",
    }
}

/// The order in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ModelStrategy))]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// By estimated cost of the request, cheapest first; models without a price last.
    Cheapest,
    /// By latency measured recently in this process, fastest first. Models without a measurement come first, so that
    /// they get one.
    Fastest,
    /// By quality, as the operator ranks them, best first; among equals the cheaper.
    Smartest,
    /// By quality and cost with equal weight: the cost of the most expensive candidate weighs as much as the whole
    /// quality scale.
    Balanced,
    /// In the order listed in the configuration.
    #[default]
    Fallback,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 5] =
        [Self::Cheapest, Self::Fastest, Self::Smartest, Self::Balanced, Self::Fallback];

    /// The name in configuration files.
    pub fn as_str(self) -> &'static str {
        ["cheapest", "fastest", "smartest", "balanced", "fallback"][self as usize]
    }
}

/// What a model must be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ModelNeed))]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Tool calls.
    Tools,
    /// Images as input.
    Vision,
    /// Answers constrained to a JSON schema by the provider.
    JsonSchema,
}

impl Need {
    /// All features.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Vision, Self::JsonSchema];

    /// The name in configuration files.
    pub fn as_str(self) -> &'static str {
        ["tools", "vision", "json_schema"][self as usize]
    }
}

impl Latency {
    /// Whether a cheap tier is used that may take minutes.
    pub fn is_patient(self) -> bool {
        matches!(self, Self::Relaxed | Self::Batch)
    }
}

/// What is said about the model calls of a run. What is left out is as the next layer says.
///
/// ```json
/// {"cache": "long", "latency": "relaxed"}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPolicy {
    /// How long prompts are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CachePolicy>,
    /// How soon answers are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl ModelPolicy {
    /// Whether it says nothing.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// This, and what it leaves out as `below` has it.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self { cache: self.cache.or(below.cache), latency: self.latency.or(below.latency) }
    }
}

/// What a provider takes for what it keeps, as a share of what plain input costs, and for how long it keeps it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachePrices {
    /// Reading what was kept: `0.1`.
    pub read: f64,
    /// Writing what is kept for the shorter time: `1.25`.
    pub write: f64,
    /// Writing what is kept for the longer time: `2.0`. `None`: there is no longer time, or its price is not known.
    pub long_write: Option<f64>,
    /// The shorter time, in seconds.
    pub short_s: u32,
    /// The longer time, in seconds.
    pub long_s: u32,
}

/// The most pauses that [`cheapest`] looks at, the latest ones: what an agentable did weeks ago says little about today.
pub const MAX_PAUSES: usize = 32;

/// How much of a request is new after this many others, beside what the one before had: an opinion, of conversations that begin
/// with a prompt and tools as long as sixteen requests. It is written at each request, also when the rest is read.
fn new_share(requests: usize) -> f64 {
    /// The prompt and the tools, in requests.
    const FRAME: usize = 16;
    1.0 / f64::from(u32::try_from(requests + FRAME).unwrap_or(u32::MAX))
}

/// How long prompts are best kept, if the pauses between requests go on as they were: `pauses` are those of the agentable so far,
/// in seconds, the latest last. Compares what the same requests, and one more that follows at once, would have cost without a
/// cache, with the shorter and with the longer time; each use begins the time anew. The one more is there because a loop of
/// tools without a cache costs several times what is written in vain; while requests follow each other closely, a cache is kept in
/// any case. Without a past it is [`CachePolicy::Short`].
///
/// With Anthropic's prices (1.25, 2 and 0.1), pauses of ten minutes ask for the longer time, and three of a day for no cache.
pub fn cheapest(pauses: &[u32], prices: &CachePrices) -> CachePolicy {
    let new = new_share(pauses.len());
    let pauses = &pauses[pauses.len().saturating_sub(MAX_PAUSES)..];
    let Some(last) = pauses.last() else { return CachePolicy::Short };
    let cost = |write: f64, kept_s: u32| {
        let read = prices.read * (1.0 - new) + write * new;
        let after = |pause: &u32| if *pause < kept_s { read } else { write };
        write + pauses.iter().map(after).sum::<f64>() + read
    };
    let short = (cost(prices.write, prices.short_s), CachePolicy::Short);
    let long = prices.long_write.map(|write| (cost(write, prices.long_s), CachePolicy::Long));
    let requests = u32::try_from(pauses.len() + 2).unwrap_or(u32::MAX);
    let off = (*last >= prices.short_s).then(|| (f64::from(requests), CachePolicy::Off));
    // Of equal ones the first counts.
    let cheaper =
        |best: (f64, CachePolicy), other: (f64, CachePolicy)| if other.0 < best.0 { other } else { best };
    [off, long].into_iter().flatten().fold(short, cheaper).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANTHROPIC: CachePrices =
        CachePrices { read: 0.1, write: 1.25, long_write: Some(2.0), short_s: 300, long_s: 3600 };
    const MINUTES: u32 = 60;

    #[test]
    fn pauses_decide_how_long_prompts_are_kept() {
        for (pauses, expected) in [
            (vec![], CachePolicy::Short),
            // A loop of tools.
            (vec![2, 5, 3], CachePolicy::Short),
            (vec![10 * MINUTES], CachePolicy::Long),
            (vec![10 * MINUTES, 20 * MINUTES], CachePolicy::Long),
            // Loops with ten minutes between them.
            (vec![2, 3, 600, 2, 3, 700, 1, 2, 800], CachePolicy::Long),
            // One question a day, answered at once.
            (vec![86_400, 90_000], CachePolicy::Short),
            (vec![86_400, 90_000, 80_000], CachePolicy::Off),
            // The third of them has begun to loop.
            (vec![86_400, 90_000, 80_000, 4], CachePolicy::Short),
            // A loop a day.
            (vec![2, 3, 2, 86_400, 2, 3, 1, 86_400], CachePolicy::Short),
        ] {
            assert_eq!(cheapest(&pauses, &ANTHROPIC), expected, "{pauses:?}");
        }
    }

    #[test]
    fn free_writes_and_unknown_prices_keep_the_usual_time() {
        let free = CachePrices { write: 1.0, long_write: None, ..ANTHROPIC };
        assert_eq!(cheapest(&[86_400, 90_000], &free), CachePolicy::Short);
        assert_eq!(cheapest(&[600, 700, 800], &free), CachePolicy::Short);
    }

    #[test]
    fn old_pauses_are_forgotten() {
        let mut pauses = vec![86_400; 100];
        pauses.extend([600; MAX_PAUSES]);
        assert_eq!(cheapest(&pauses, &ANTHROPIC), CachePolicy::Long);
    }

    #[test]
    fn upper_layers_win_field_by_field() {
        let kind = ModelPolicy { cache: Some(CachePolicy::Long), latency: Some(Latency::Relaxed) };
        let message = ModelPolicy { cache: None, latency: Some(Latency::Interactive) };
        let both = ModelPolicy { cache: Some(CachePolicy::Long), latency: Some(Latency::Interactive) };
        assert_eq!(message.over(kind), both);
        assert!(ModelPolicy::default().is_unset() && !message.is_unset());
        let error = toml::from_str::<ModelPolicy>("cache = 'forever'").unwrap_err().to_string();
        assert!(error.contains("`off`, `short`, `long`, `auto`"), "{error}");
        let error = toml::from_str::<ModelPolicy>("latency = 'slow'").unwrap_err().to_string();
        assert!(error.contains("`interactive`, `relaxed`, `batch`"), "{error}");
    }

    proptest! {
        /// With the past as the future, no other choice would have cost less.
        #[test]
        fn choice_would_have_cost_least(pauses in prop::collection::vec(0_u32..20_000, 1..40)) {
            let chosen = cheapest(&pauses, &ANTHROPIC);
            let seen = &pauses[pauses.len().saturating_sub(MAX_PAUSES)..];
            let new = new_share(pauses.len());
            let cost = |policy| {
                let (write, kept) = match policy {
                    CachePolicy::Off => return seen.len() as f64 + 2.0,
                    CachePolicy::Long => (2.0, 3600),
                    CachePolicy::Short | CachePolicy::Auto => (1.25, 300),
                };
                let of = |pause: &u32| if *pause < kept { 0.1 * (1.0 - new) + write * new } else { write };
                write + seen.iter().map(of).sum::<f64>() + of(&0)
            };
            let in_loop = seen.last().is_some_and(|last| *last < 300);
            for other in [CachePolicy::Off, CachePolicy::Short, CachePolicy::Long] {
                let may = other != CachePolicy::Off || !in_loop;
                prop_assert!(!may || cost(chosen) <= cost(other) + 1e-9, "{chosen:?} {other:?}");
            }
        }
    }
}
