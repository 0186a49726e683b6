//! Links with which people decide questions: `/approve/question_0192…/<token>`. Who has the link may decide, so its token is
//! stored only as a hash.

use std::fmt::Write as _;

use crate::id::{Ids, QuestionId};

/// A new token: 256 random bits in hex.
#[must_use]
pub fn token(ids: &Ids) -> String {
    let mut random = [0; 32];
    ids.fill(&mut random);
    random.iter().fold(String::with_capacity(64), |mut token, byte| {
        let _ = write!(token, "{byte:02x}");
        token
    })
}

/// The path of the page, at the address of the API.
#[must_use]
pub fn path(question: QuestionId, token: &str) -> String {
    format!("/approve/{question}/{token}")
}
