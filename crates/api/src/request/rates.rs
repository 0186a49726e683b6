//! Rate limits of requests that start work: messages, conversations with a first message, check-ins, feeds, AG-UI runs.
//!
//! Whatever starts work calls [`ask`] before it writes; what stores a message does so itself. A request is counted once, however
//! often it asks. What is left is on every answer of these routes, as the headers `RateLimit-Policy` and
//! `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11). A stream that was accepted is never refused.
//!
//! What a request was answered is kept in its task: so an endpoint for another protocol needs nothing but to post its message.

use std::cell::RefCell;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use houston_domain::rate::{Quota, RateLimits};
use houston_store::rate::{Ask, Left, Standing, Whose};

use crate::error::{ApiError, Result, whole_seconds};
use crate::request::idempotency::Key;
use crate::state::Ctx;

pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The routes whose POST starts work. Their answers have the policy even if nothing was asked.
const ROUTES: [&str; 9] = [
    "/v1/{kinds}",
    "/v1/{kinds}/{id}/messages",
    "/v1/{kinds}/{id}/ag-ui",
    "/ag-ui/{target}",
    "/compat/ai-sdk/{target}",
    "/compat/openai/v1/responses",
    "/compat/openai/v1/chat/completions",
    "/v1/{kinds}/{id}/check-ins",
    "/v1/users/{id}/feed/generate",
];

tokio::task_local! {
    /// What the request of this task was answered.
    static ASKED: RefCell<Option<Standing>>;
}

/// Runs a request, and adds the headers to its answer.
pub(crate) async fn limited<R>(
    limits: RateLimits,
    (method, route): (&Method, &str),
    request: impl Future<Output = R>,
) -> (R, HeaderMap) {
    let mut headers = HeaderMap::new();
    if !limits.limit_requests() || *method != Method::POST {
        return (request.await, headers);
    }
    let asking = async {
        let answer = request.await;
        (answer, ASKED.with(RefCell::take))
    };
    let (answer, standing) = ASKED.scope(RefCell::default(), asking).await;
    if standing.is_some() || ROUTES.contains(&route) {
        set(&mut headers, POLICY, &policy(&limits));
    }
    if let Some(standing) = standing {
        set(&mut headers, LIMIT, &left(&standing.left));
    }
    (answer, headers)
}

/// Counts the request, unless it was counted before or its idempotency key was used.
///
/// # Errors
/// [`ApiError::RateLimited`] when a limit is exceeded. If Postgres does not answer, the request goes on, and finds out itself.
pub(crate) async fn ask(ctx: &Ctx, whose: Whose, key: Option<&Key>) -> Result<()> {
    // Without the scope there are no limits.
    let is_due = ASKED.try_with(|asked| asked.borrow().is_none()).unwrap_or(false);
    if !is_due {
        return Ok(());
    }
    let idempotency_key = key.map(|key| key.as_stored().key.to_owned());
    let asked = ctx.store().ask_rates(Ask { whose, key: ctx.caller.key(), idempotency_key }).await;
    let Some(standing) = asked else { return Ok(()) };
    let exceeded = standing.exceeded.map(|(policy, retry_after)| {
        let of = standing.left.iter().find(|left| left.name == policy).map(|left| left.quota);
        ApiError::RateLimited { policy, quota: of.unwrap_or_default(), retry_after }
    });
    let _ = ASKED.try_with(|asked| asked.replace(Some(standing)));
    exceeded.map_or(Ok(()), Err)
}

/// `"requests";q=20;w=60, "tokens";q=30000;w=60`.
fn policy(limits: &RateLimits) -> String {
    let all = [("requests", limits.requests), ("key", limits.keys), ("tokens", limits.tokens.quota())];
    let item = |(name, Quota { quota, window_s })| format!("\"{name}\";q={quota};w={window_s}");
    all.into_iter().filter(|(_, quota)| quota.is_on()).map(item).collect::<Vec<_>>().join(", ")
}

/// `"requests";r=12;t=24, "tokens";r=30000;t=0`.
fn left(all: &[Left]) -> String {
    let item = |Left { name, remaining, reset, .. }: &Left| {
        format!("\"{name}\";r={remaining};t={}", whole_seconds(*reset))
    };
    all.iter().map(item).collect::<Vec<_>>().join(", ")
}

fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn headers_are_lists_of_named_policies() {
        assert_eq!(policy(&RateLimits::USUAL), r#""requests";q=20;w=60, "tokens";q=30000;w=60"#);
        let of = |name, remaining, millis| Left {
            name,
            quota: RateLimits::USUAL.requests,
            remaining,
            reset: Duration::from_millis(millis),
        };
        let all = [of("requests", 12, 23_001), of("tokens", 0, 60_000)];
        assert_eq!(left(&all), r#""requests";r=12;t=24, "tokens";r=0;t=60"#);
    }
}
