//! [`ModelCatalogue`]: what knows the models. This crate calls none, so the process that wires it passes an implementation.

use std::fmt;

use futures_util::future::BoxFuture;
use houston_domain::answering::Sampling;
use houston_protocol::model::{EstimateModels, ModelEstimate, ModelsResponse};
use houston_protocol::problem::FieldError;

use crate::explain::ExplainError;

/// A setting that a model does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSetting {
    /// `temperature`, `top_p`, `stop` or `effort`.
    pub setting: &'static str,
    /// Which model, and why, for people.
    pub why: String,
}

/// The models of the installation.
pub trait ModelCatalogue: fmt::Debug + Send + Sync {
    /// The configured models and their routes, without measured speeds. Nothing of it is secret.
    fn models(&self) -> BoxFuture<'static, Result<ModelsResponse, ExplainError>>;

    /// The first of these settings that a model does not accept, and why. `model`: as `own_model` of [`Self::estimate`]; of a
    /// use case the first model counts.
    fn refusal(
        &self,
        model: String,
        sampling: Sampling,
    ) -> BoxFuture<'static, Result<Option<RefusedSetting>, ExplainError>>;

    /// What a request would cost. `own_model`: the model of the agent that is asked about, as `provider/model`, or the name of a
    /// provider, or of a use case. The inner error says which field names what does not exist.
    fn estimate(
        &self,
        asked: EstimateModels,
        own_model: Option<String>,
    ) -> BoxFuture<'static, Result<Result<ModelEstimate, FieldError>, ExplainError>>;
}
