//! Models over HTTP: what the operator's settings say, measured speed, estimates.

use futures_util::future::{BoxFuture, ready};
use houston_api::{ExplainError, ModelCatalogue, RefusedSetting};
use houston_domain::answering::Sampling;
use houston_protocol::model::{
    EstimateModels, ModelCapabilities, ModelEstimate, ModelLimits, ModelResponse, ModelRoute, ModelsResponse,
    Strategy,
};
use houston_protocol::problem::FieldError;
use serde_json::{Value, json};

use crate::test_api::TestApi;

/// A catalogue with two models, whose estimates repeat what they were asked. The numbers of the real one are tested where it is.
#[derive(Debug)]
pub(crate) struct TwoModels;

impl ModelCatalogue for TwoModels {
    fn models(&self) -> BoxFuture<'static, Result<ModelsResponse, ExplainError>> {
        let model = |model: &str| ModelResponse {
            id: format!("openai/{model}"),
            provider: "openai".to_owned(),
            model: model.to_owned(),
            use_cases: vec!["agent".to_owned()],
            simulated: false,
            price: None,
            limits: ModelLimits { context_window: Some(1_000), max_output_tokens: None },
            capabilities: ModelCapabilities {
                tools: Some(true),
                parallel_tools: None,
                vision: None,
                json_schema: None,
                reasoning: None,
                prompt_caching: None,
            },
            quality: 50,
            retires_on: None,
            measured: None,
        };
        let route = ModelRoute {
            use_case: "agent".to_owned(),
            strategy: Strategy::Fallback,
            needs: Vec::new(),
            models: vec!["openai/gpt-5".to_owned(), "openai/gpt-5-mini".to_owned()],
        };
        let all = ModelsResponse { data: vec![model("gpt-5"), model("gpt-5-mini")], routes: vec![route] };
        Box::pin(ready(Ok(all)))
    }

    fn refusal(
        &self,
        model: String,
        sampling: Sampling,
    ) -> BoxFuture<'static, Result<Option<RefusedSetting>, ExplainError>> {
        let refused = sampling.temperature.is_some_and(|value| value > 1.5);
        let why = format!("{model}: the model does not take it");
        Box::pin(ready(Ok(refused.then_some(RefusedSetting { setting: "temperature", why }))))
    }

    fn estimate(
        &self,
        asked: EstimateModels,
        own_model: Option<String>,
    ) -> BoxFuture<'static, Result<Result<ModelEstimate, FieldError>, ExplainError>> {
        let use_case = own_model.or(asked.use_case).unwrap_or_else(|| "agent".to_owned());
        if use_case == "poems" {
            return Box::pin(ready(Ok(Err(FieldError::at("/use_case", "is no use case")))));
        }
        Box::pin(ready(Ok(Ok(ModelEstimate {
            use_case,
            strategy: asked.strategy.unwrap_or(Strategy::Fallback),
            needs: asked.needs,
            input_tokens: asked.input_tokens.unwrap_or(0),
            cached_tokens: asked.cached_tokens,
            output_tokens: asked.output_tokens.unwrap_or(0),
            candidates: Vec::new(),
            strategies: Vec::new(),
        }))))
    }
}

#[tokio::test]
async fn models_have_the_speed_that_the_tenant_measured() {
    let api = TestApi::start().await;
    let call = |tenant: &str, model: &str, first: u32, took: u32, tokens: u32, ago: u32| {
        format!(
            "insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model, input_tokens,
                    output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, reported, first_event_ms, took_ms,
                    created_at)
             values (gen_random_uuid(), gen_random_uuid(), '{tenant}', gen_random_uuid(), 1, 'openai', '{model}', 9, {tokens}, 0,
                     0, 0, false, {first}, {took}, now() - interval '{ago} minutes');"
        )
    };
    let tenant = api.tenant.0.to_string();
    let other = "00000000-0000-0000-0000-000000000000";
    api.sql(
        &[
            call(&tenant, "gpt-5", 400, 2_400, 200, 1),
            call(&tenant, "gpt-5", 600, 1_600, 50, 2),
            call(&tenant, "gpt-5", 500, 1_500, 80, 3),
            call(&tenant, "gpt-5", 9_000, 9_900, 1, 45),
            call(other, "gpt-5-mini", 100, 1_100, 100, 1),
        ]
        .concat(),
    );
    let all = api.get("/v1/models").await.ok();
    assert_eq!(all["routes"][0]["models"], json!(["openai/gpt-5", "openai/gpt-5-mini"]));
    assert_eq!(
        all["data"][0]["measured"],
        json!({"calls": 3, "first_event_ms": 500.0, "tokens_per_s": 80.0}),
        "medians of the last half hour"
    );
    assert_eq!(all["data"][1]["measured"], json!(null), "another tenant's calls");
    let one = api.get("/v1/models/openai%2Fgpt-5").await.ok();
    assert_eq!(one, all["data"][0]);
    api.get("/v1/models/openai%2Fgpt-6").await.refused(404, "not_found");
    api.sql(&call(&tenant, "gpt-5", 1, 2, 1, 1));
    assert_eq!(api.get("/v1/models").await.ok(), all, "read once a minute");
}

#[tokio::test]
async fn estimate_is_of_a_use_case_a_kind_or_an_agent() {
    let api = TestApi::start().await;
    let estimate = async |body| api.post("/v1/models/estimate", body).await;
    let of = async |body| estimate(body).await.ok()["use_case"].as_str().unwrap().to_owned();
    assert_eq!(of(json!({"input_tokens": 5})).await, "agent");
    assert_eq!(of(json!({"input_tokens": 5, "kind": "goal"})).await, "agent");
    assert_eq!(of(json!({"messages": ["hi"], "use_case": "titles"})).await, "titles");
    let own = json!({"name": "clerk", "kind": "goal", "provider": "openai", "model": "gpt-5"});
    let agent = api.post("/v1/agents", own).await.ok()["id"].clone();
    assert_eq!(of(json!({"input_tokens": 5, "agent_id": agent})).await, "openai/gpt-5");
    for (body, pointer) in [
        (json!({}), "/messages"),
        (json!({"messages": ["a"], "input_tokens": 1}), "/input_tokens"),
        (json!({"input_tokens": 1, "kind": "goal", "use_case": "agent"}), "/use_case"),
        (json!({"input_tokens": 1, "kind": "poem"}), "/kind"),
        (json!({"input_tokens": 1, "use_case": "poems"}), "/use_case"),
        (json!({"input_tokens": 1_000_000_000}), "/input_tokens"),
        (json!({"messages": ["x".repeat(300_000)]}), "/messages"),
        (json!({"input_tokens": 1, "strategy": "best"}), "/strategy"),
        (json!({"input_tokens": 1, "prompt": "x"}), "/prompt"),
    ] {
        let problem = estimate(body.clone()).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    let unknown = json!({"input_tokens": 5, "agent_id": format!("agent_{}", "0".repeat(32))});
    estimate(unknown).await.refused(404, "not_found");
}

/// The catalogue of these tests refuses temperatures above 1.5.
#[tokio::test]
async fn settings_that_a_model_refuses_are_refused_when_given() {
    let api = TestApi::start().await;
    let messages = api.path("/messages");
    let post = async |body: Value| api.post(&messages, body).await;
    let schema = json!({"type": "object"});
    for (body, pointer) in [
        (json!({"content": "a", "sampling": {"temperature": 1.8}}), "/sampling/temperature"),
        (json!({"content": "a", "sampling": {"temperature": 3}}), "/sampling/temperature"),
        (json!({"content": "a", "sampling": {"stop": [""]}}), "/sampling/stop/0"),
        (json!({"content": "a", "output": {"schema": {"type": "array"}}}), "/output/schema"),
        (json!({"content": "a", "output": {"schema": schema, "name": "a b"}}), "/output/name"),
        (
            json!({"content": "a", "output": {"schema": {"type": "object", "title": "a\u{0}"}}}),
            "/output/schema",
        ),
    ] {
        let problem = post(body.clone()).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    post(json!({"content": "a", "sampling": {"temperature": 1.2}, "output": {"schema": schema},
        "limits": {"max_output_tokens": 50}}))
    .await
    .ok();
    let offer: Value = serde_json::from_str(&api.sql("select offer from houston.client_offers")).unwrap();
    assert_eq!(offer["sampling"], json!({"temperature": 1.2}));
    assert_eq!(offer["output"], json!({"name": "answer", "schema": schema}));
    assert_eq!(offer["limits"]["max_output_tokens"], 50);

    let agent =
        json!({"name": "clerk", "kind": "goal", "output": {"schema": schema}, "sampling": {"top_p": 0.5}});
    let made = api.post("/v1/agents", agent).await.ok();
    assert_eq!((&made["sampling"], &made["output"]["name"]), (&json!({"top_p": 0.5}), &json!("answer")));
    let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
    let hot = api
        .send("PATCH", &path, json!({"sampling": {"temperature": 1.8}}))
        .await
        .refused(422, "invalid_request");
    let detail = hot["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("agent: the model"), "{detail}");
    let without = api.send("PATCH", &path, json!({"output": null, "sampling": {}})).await.ok();
    assert!(without.get("output").is_none() && without.get("sampling").is_none(), "{without}");

    let router = json!({"by": "model"});
    let team =
        json!({"name": "office", "agents": [made["id"]], "router": router, "output": {"schema": schema}});
    let team = api.post("/v1/teams", team).await.ok();
    let path = format!("/v1/teams/{}", team["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["output"], json!({"name": "answer", "schema": schema}));
    assert!(api.send("PATCH", &path, json!({"output": null})).await.ok().get("output").is_none());
}
