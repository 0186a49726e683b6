//! What of a request a model does not accept.

use houston_domain::answering::{Effort, Sampling};

use crate::model::{Description, Request};
use crate::profile::{Profile, Thinking};
use crate::wire::Wire;

/// A setting of a request that a model does not accept. Without the caller's word it is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct Unaccepted {
    /// `temperature`, `top_p`, `stop` or `effort`.
    pub setting: &'static str,
    /// Why not, for people.
    pub why: String,
}

impl Description {
    /// The first of these settings that the model does not accept. The simulated model accepts all.
    #[must_use]
    pub fn refusal(&self, sampling: &Sampling) -> Option<Unaccepted> {
        if self.simulated || sampling.is_empty() {
            return None;
        }
        self.profile().refusal(sampling)
    }
}

impl Profile {
    /// The first of these settings that the model does not accept, for a caller that refuses it. A request is sent without it.
    #[must_use]
    pub fn refusal(&self, sampling: &Sampling) -> Option<Unaccepted> {
        let Sampling { temperature, top_p, effort, stop } = sampling;
        let (temperature, top_p, effort) = (*temperature, *top_p, *effort);
        let request = Request { temperature, top_p, effort, stop, ..Request::default() };
        self.unaccepted(&request).into_iter().next()
    }

    /// The settings of `request` that the model does not accept.
    pub(crate) fn unaccepted(&self, request: &Request<'_>) -> Vec<Unaccepted> {
        let mut found = Vec::new();
        let mut add = |setting, why: String| found.push(Unaccepted { setting, why });
        if request.temperature.is_some() && self.temperature_for(request).is_none() {
            add("temperature", self.why_no_temperature(request));
        }
        if request.top_p.is_some() && self.top_p_for(request).is_none() {
            let why = if self.top_p { "the model takes one of temperature and top_p" } else { NOT_TAKEN };
            add("top_p", why.to_owned());
        }
        if !request.stop.is_empty() && self.stop_for(request).is_empty() {
            add("stop", NOT_TAKEN.to_owned());
        }
        if let Some(effort) = request.effort.filter(|_| self.effort_for(request).is_none()) {
            add("effort", self.why_no_effort(effort));
        }
        found
    }

    fn why_no_temperature(&self, request: &Request<'_>) -> String {
        if self.temperature && self.is_thinking_asked(request) {
            return "the model takes none while it thinks by request".to_owned();
        }
        NOT_TAKEN.to_owned()
    }

    fn why_no_effort(&self, effort: Effort) -> String {
        if self.thinking == Thinking::None {
            return "the model has no setting for how much it thinks".to_owned();
        }
        let accepted: Vec<&str> = self.efforts.iter().map(|effort| effort.as_str()).collect();
        format!("the model does not take `{}`; it takes {}", effort.as_str(), accepted.join(", "))
    }

    /// Whether an effort of thinking is asked for that excludes a temperature (Anthropic):
    /// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>.
    fn is_thinking_asked(&self, request: &Request<'_>) -> bool {
        self.wire == Wire::Anthropic && self.effort_for(request).is_some_and(|effort| effort != Effort::None)
    }

    /// The effort that is asked for, if the model accepts it.
    pub(crate) fn effort_for(&self, request: &Request<'_>) -> Option<Effort> {
        request.effort.filter(|effort| self.thinking != Thinking::None && self.efforts.contains(effort))
    }

    /// The temperature, if the model accepts it.
    pub(crate) fn temperature_for(&self, request: &Request<'_>) -> Option<f64> {
        request.temperature.filter(|_| self.temperature && !self.is_thinking_asked(request))
    }

    /// The share of the likeliest words, if the model accepts it, alone or together with a temperature.
    pub(crate) fn top_p_for(&self, request: &Request<'_>) -> Option<f64> {
        let is_alone = self.temperature_for(request).is_none();
        request.top_p.filter(|_| self.top_p && (is_alone || self.temperature_with_top_p))
    }

    /// The texts that end the answer, if the model accepts them.
    pub(crate) fn stop_for<'a>(&self, request: &Request<'a>) -> &'a [String] {
        if self.stop { request.stop } else { &[] }
    }
}

const NOT_TAKEN: &str = "the model does not take it";
