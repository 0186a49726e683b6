//! Answers that thinking has used up: they are asked for again, once, with more room.

use houston_domain::model::{ModelError, ModelErrorCode};

use crate::model::Description;

/// The limit with which an answer is asked for again whose `limit` of output tokens was used up by thinking: twice as much, at
/// most what the model can. `None` when it can no more, or when its thinking does not count.
#[must_use]
pub fn more_room(limit: u32, model: &Description) -> Option<u32> {
    let profile = model.profile();
    let most = profile
        .capabilities
        .max_output_tokens
        .map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX));
    let more = limit.saturating_mul(2).min(most);
    (profile.thinking_shares_limit && more > limit).then_some(more)
}

/// The error of an answer whose `limit` of output tokens was used up by thinking.
#[must_use]
pub fn used_up(limit: u32, model: &Description) -> ModelError {
    let message = format!(
        "{model}: thinking has used up the {limit} output tokens of the answer before the model wrote anything; raise \
         max_output_tokens, or let it think less"
    );
    ModelError::new(ModelErrorCode::OutputLimitReached, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_doubled_up_to_what_the_model_can() {
        let model = |provider: &str, model: &str| Description {
            provider: provider.to_owned(),
            model: model.to_owned(),
            simulated: false,
            supports_tools: true,
        };
        let gpt = model("openai", "gpt-5-mini");
        assert_eq!(more_room(4_096, &gpt), Some(8_192));
        assert_eq!(more_room(100_000, &gpt), Some(128_000));
        assert_eq!(more_room(128_000, &gpt), None);
        assert_eq!(more_room(4_096, &model("local", "unlisted")), Some(8_192));
        let error = used_up(8_192, &gpt);
        assert!(
            error.code == ModelErrorCode::OutputLimitReached && error.message.contains("8192"),
            "{error}"
        );
    }
}
