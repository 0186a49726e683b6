//! Calls that ask a model: what they work on is read, the budget is checked, and what the model costs is committed with the
//! response.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::budget::Spent;
use houston_domain::id::ImageId;
use houston_domain::image::MAX_TOKENS;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_llm::Image as SentImage;
use houston_store::Error;
use houston_tools::ask::{Ask, Image, Material, SourceText, TextSource};
use rust_decimal::Decimal;

use super::ToolRunner;
use super::execution::{ExternalCall, Work};
use crate::background::side_model::{Answered, NoAnswer, Question, SideModel};
use crate::error::{Interrupted, Result};
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// A question that is ready to be asked.
struct Ready {
    ask: Ask,
    /// The text that the model reads.
    text: String,
    source: String,
    untrusted: bool,
}

impl ToolRunner {
    /// The call; one that asks a model with what the model works on, or the reason why it is not asked.
    pub(super) async fn with_material<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        call: ExternalCall,
    ) -> Result<ExternalCall> {
        let ExternalCall { work: Work::Ask(ask), .. } = call else { return Ok(call) };
        Ok(ExternalCall { work: Box::pin(self.asking(journal, *ask)).await?, ..call })
    }

    async fn asking<S: RunStorage>(&mut self, journal: &Journal<'_, S>, mut ask: Ask) -> Result<Work> {
        let Some(model) = journal.services.side_models.get(ask.use_case).cloned() else {
            return Ok(Work::answered(not_set(&ask)));
        };
        let (ready, image) = match std::mem::replace(&mut ask.material, Material::given()) {
            Material::Image(source, load) => {
                let text = ask.task.clone();
                (Ready { ask, text, source, untrusted: true }, Some(load))
            }
            Material::Posted(id) => {
                let image = match posted(journal, ask.tool, id).await? {
                    Ok(image) => image,
                    Err(response) => return Ok(Work::answered(response)),
                };
                let text = ask.task.clone();
                let load: BoxFuture<'static, _> = Box::pin(std::future::ready(Ok(image)));
                (Ready { ask, text, source: id.to_string(), untrusted: true }, Some(load))
            }
            Material::Text(source) => {
                let Some(SourceText { text, untrusted }) = source_text(journal, &source).await? else {
                    return Ok(Work::answered(ask.missing(&source)));
                };
                match ask.question(&source.name(), &text) {
                    Ok(text) => (Ready { ask, text, source: source.name(), untrusted }, None),
                    Err(refused) => return Ok(Work::answered(refused)),
                }
            }
        };
        let budget = journal.services.config.budget.raised(&self.raises);
        let mut spent = Spent::default();
        let now = journal.now();
        // Lives as long as the call.
        let call = Arc::new(());
        if budget.is_set() {
            self.reserved.retain(|(call, _)| call.strong_count() > 0);
            let reserved = self.reserved.iter().map(|(_, most)| *most).sum();
            spent = journal.spent(&budget).await?.and(reserved);
            // Calls that run at once must not spend the same rest of a budget.
            let more = if image.is_some() { MAX_TOKENS } else { 0 };
            let most = model.max_cost(&ready.question(None), more, now, budget.refuse_unpriced);
            if let Err(over) = budget.check(&spent, most) {
                let text = format!("{}: the model is not asked: {over}", ready.ask.tool);
                return Ok(Work::answered(ToolResponse::failure(ToolErrorCode::RateLimited, text)));
            }
            self.reserved.push((Arc::downgrade(&call), most.unwrap_or(Decimal::ZERO)));
        }
        let ledger = journal.ledger.clone();
        let work = async move {
            let _call = call;
            let image = match image {
                None => None,
                Some(load) => match load.await {
                    Ok(image) => Some(image),
                    Err(response) => return response,
                },
            };
            let sent =
                image.as_ref().map(|image| SentImage { media_type: image.media_type, base64: &image.base64 });
            let answered = model.ask(ready.question(sent), (&budget, &spent), now, &ledger).await;
            ready.response(&model, answered)
        };
        Ok(Work::Execute(Box::pin(work)))
    }
}

impl Ready {
    fn question<'q>(&'q self, image: Option<SentImage<'q>>) -> Question<'q> {
        let Ask { instructions, max_output_tokens, schema, .. } = &self.ask;
        // The tool's own time-out ends it earlier.
        let within = Duration::from_secs(3600);
        let question = Question::new(instructions, self.text.clone(), *max_output_tokens, within);
        Question { schema: schema.as_ref(), image, ..question }
    }

    fn response(&self, model: &SideModel, answered: Result<Answered, NoAnswer>) -> ToolResponse {
        let tool = self.ask.tool;
        let failed = |code, why: &str| ToolResponse::failure(code, format!("{tool}: {why}"));
        match answered {
            Ok(Answered { is_cut: true, .. }) => {
                let why = "the answer was longer than the model may write: give the text in parts";
                failed(ToolErrorCode::ValidationError, why)
            }
            Ok(Answered { text, .. }) => self.ask.response(&self.source, self.untrusted, &text),
            Err(NoAnswer::Empty) => failed(ToolErrorCode::Unknown, "the model did not answer, or declined"),
            Err(NoAnswer::Invalid) => {
                let why = "the model did not answer as the schema demands, twice: simplify the schema, or shorten the text";
                failed(ToolErrorCode::Unknown, why)
            }
            Err(NoAnswer::OverBudget(over)) => failed(ToolErrorCode::RateLimited, &over.to_string()),
            Err(NoAnswer::Failed(error)) => {
                tracing::info!(tool, model = %model.name(), %error, "the model of a tool failed");
                failed(ToolErrorCode::IoError, "the model could not be reached: try again later")
            }
        }
    }
}

/// The text of a file or a large result that the agentable may read; `None`: there is none.
async fn source_text<S: RunStorage>(
    journal: &Journal<'_, S>,
    source: &TextSource,
) -> Result<Option<SourceText>> {
    let (tenant, agentable) = (journal.owner.tenant, journal.agentable());
    let read = match source {
        TextSource::Given(text) => return Ok(Some(SourceText::new(text.clone(), false))),
        TextSource::File(path) => {
            let file = journal.of_postgres(|store| store.tenant(tenant).file(agentable, path).map_ok(Some));
            file.await.map(|file| file.map(|file| SourceText::new(file.content, file.untrusted)))
        }
        TextSource::Result(id) => {
            let result =
                journal.of_postgres(|store| store.tenant(tenant).tool_result(agentable, *id).map_ok(Some));
            result.await.map(|result| result.map(|result| SourceText::new(result.content, false)))
        }
    };
    match read {
        // A file that cannot be read is none that the agent may read.
        Err(Interrupted::Store(Error::NotFound { .. } | Error::Folder(_))) => Ok(None),
        read => read,
    }
}

/// An image that the user has posted, or what a call of `tool` about it answers.
async fn posted<S: RunStorage>(
    journal: &Journal<'_, S>,
    tool: &str,
    id: ImageId,
) -> Result<Result<Image, ToolResponse>> {
    let (tenant, user, ids) = (journal.owner.tenant, journal.owner.user, [id]);
    let found = journal.of_postgres(|store| store.tenant(tenant).images(user, &ids, &ids)).await?;
    let failed = |code, why: &str| ToolResponse::failure(code, format!("{tool}: {why}"));
    Ok(match found.into_iter().find_map(|image| image.data) {
        Some(data) => Image::of(&data).map_err(|why| failed(ToolErrorCode::ValidationError, &why)),
        None => Err(failed(ToolErrorCode::NotFound, &format!("the user has no image {id}"))),
    })
}

fn not_set(ask: &Ask) -> ToolResponse {
    let (tool, use_case) = (ask.tool, ask.use_case);
    let why = format!(
        "{tool}: no model is set for it: the operator of this installation sets `{use_case}` in models.toml"
    );
    ToolResponse::failure(ToolErrorCode::ConfigError, why)
}
