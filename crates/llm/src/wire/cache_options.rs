//! How OpenAI's protocols say how long prompts are kept.

use serde::Serialize;

use crate::cache::Lifetime;
use crate::model::Request;
use crate::profile::{CacheControl, Profile};

/// `prompt_cache_options`: <https://developers.openai.com/api/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct CacheOptions {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// The end of what is kept.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Breakpoint {
    mode: &'static str,
}

pub(crate) const EXPLICIT: Breakpoint = Breakpoint { mode: "explicit" };

impl CacheOptions {
    /// The options of a request; `has_marks`: it has marks of its own if anything is kept. Without marks of its own the provider
    /// sets one. Writing costs more than plain input.
    pub(crate) fn of(profile: &Profile, request: &Request<'_>, has_marks: bool) -> Option<Self> {
        if profile.cache != CacheControl::Options {
            return None;
        }
        let lifetime = profile.lifetime(request);
        let ttl = (lifetime == Some(Lifetime::Long)).then_some("12h");
        match lifetime {
            Some(_) if !has_marks => ttl.map(|_| Self { mode: "implicit", ttl }),
            _ => Some(Self { mode: "explicit", ttl }),
        }
    }
}

/// `prompt_cache_retention`, for models before `prompt_cache_options`.
pub(crate) fn retention(profile: &Profile, request: &Request<'_>) -> Option<&'static str> {
    let is_long = profile.lifetime(request) == Some(Lifetime::Long);
    (profile.cache == CacheControl::Retention && is_long).then_some("24h")
}
