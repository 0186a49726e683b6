//! The question that every provider understands.

use serde::Deserialize;

use crate::error::Failure;

/// How old a page may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 31 days.
    Month,
    /// 365 days.
    Year,
}

impl Freshness {
    /// The number of days.
    pub fn days(self) -> u32 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 365,
        }
    }

    /// `day`, `week`, `month` or `year`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Words or a question, at most [`Query::CHARACTERS`] and [`Query::WORDS`].
    pub query: String,
    /// Results wanted, 1 to 20.
    #[serde(default = "ten")]
    pub count: usize,
    /// The page of results, 1 to 10.
    #[serde(default = "one")]
    pub page: usize,
    /// How old pages may be.
    #[serde(default)]
    pub freshness: Option<Freshness>,
    /// Two letters (ISO 3166), for instance `de`.
    #[serde(default)]
    pub country: Option<String>,
    /// A language (ISO 639), with or without a region: `en`, `pt-BR`.
    #[serde(default)]
    pub language: Option<String>,
    /// Only pages of these domains and their subdomains.
    #[serde(default)]
    pub include_domains: Vec<String>,
    /// No pages of these domains and their subdomains.
    #[serde(default)]
    pub exclude_domains: Vec<String>,
}

fn ten() -> usize {
    10
}

fn one() -> usize {
    1
}

impl Query {
    /// The most characters and words of a query; Brave's limits, the smallest.
    pub const CHARACTERS: usize = 400;
    /// See [`Query::CHARACTERS`].
    pub const WORDS: usize = 50;
    /// The most domains of a list.
    pub const DOMAINS: usize = 20;

    /// A question with the usual settings: ten results, the first page.
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            count: ten(),
            page: one(),
            freshness: None,
            country: None,
            language: None,
            include_domains: Vec::new(),
            exclude_domains: Vec::new(),
        }
    }

    /// Checks the arguments, and writes domains, country and language in one way.
    ///
    /// # Errors
    /// [`Failure`], which names the argument and what is allowed.
    pub fn check(mut self) -> Result<Self, Failure> {
        let wrong = |text: String| Err(text.into());
        self.query = self.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let (characters, words) = (self.query.chars().count(), self.query.split(' ').count());
        if self.query.is_empty() || characters > Self::CHARACTERS || words > Self::WORDS {
            return wrong(format!(
                "`query` has {characters} characters; allowed are 1 to {} and at most {} words",
                Self::CHARACTERS,
                Self::WORDS
            ));
        }
        if !(1..=20).contains(&self.count) {
            return wrong(format!("`count` is {}; allowed are 1 to 20", self.count));
        }
        if !(1..=10).contains(&self.page) {
            return wrong(format!("`page` is {}; allowed are 1 to 10", self.page));
        }
        if let Some(country) = &mut self.country {
            country.make_ascii_uppercase();
            if country.len() != 2 || !country.bytes().all(|byte| byte.is_ascii_uppercase()) {
                return wrong(format!("`country` is `{country}`; write two letters, like `de`"));
            }
        }
        if let Some(language) = &self.language
            && !is_language(language)
        {
            return wrong(format!("`language` is `{language}`; write it like `en` or `pt-BR`"));
        }
        for (name, domains) in
            [("include_domains", &mut self.include_domains), ("exclude_domains", &mut self.exclude_domains)]
        {
            if domains.len() > Self::DOMAINS {
                return wrong(format!(
                    "`{name}` has {} domains; allowed are {}",
                    domains.len(),
                    Self::DOMAINS
                ));
            }
            for domain in domains {
                *domain = super::domains::normalised(domain)
                    .ok_or_else(|| format!("`{name}`: `{domain}` is not a domain like `example.com`"))?;
            }
        }
        Ok(self)
    }

    /// The language without its region, in small letters.
    pub(super) fn plain_language(&self) -> Option<String> {
        let language = self.language.as_deref()?;
        Some(language.split('-').next().unwrap_or(language).to_ascii_lowercase())
    }

    /// For providers without pages: how many results to ask for, and how many of the first to leave out.
    pub(super) fn window(&self, provider: &str, most: usize) -> Result<(usize, usize), Failure> {
        let wanted = self.page * self.count;
        if wanted > most {
            return Err(format!(
                "{provider} gives at most {most} results: ask for a smaller `page` or `count`"
            )
            .into());
        }
        Ok((wanted, (self.page - 1) * self.count))
    }
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    let is_word = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    is_word(first, 2..=3)
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && parts.all(|part| is_word(part, 2..=4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_named_with_what_is_allowed() {
        let right = Query::new("rust  async\n runtime").check().unwrap();
        assert_eq!(right.query, "rust async runtime");
        for (json, says) in [
            (r#"{"query": " "}"#, "`query` has 0 characters; allowed are 1 to 400"),
            (r#"{"query": "a", "count": 21}"#, "`count` is 21; allowed are 1 to 20"),
            (r#"{"query": "a", "count": 0}"#, "`count` is 0"),
            (r#"{"query": "a", "page": 11}"#, "`page` is 11; allowed are 1 to 10"),
            (r#"{"query": "a", "country": "germany"}"#, "two letters"),
            (r#"{"query": "a", "language": "English"}"#, "`pt-BR`"),
            (r#"{"query": "a", "include_domains": ["a b"]}"#, "`include_domains`: `a b` is not a domain"),
            (r#"{"query": "a", "exclude_domains": ["x.com OR site:y.com"]}"#, "is not a domain"),
        ] {
            let error = serde_json::from_str::<Query>(json).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
        assert!(serde_json::from_str::<Query>(r#"{"query": "a", "safe": true}"#).is_err());
        assert!(Query::new("a ".repeat(51)).check().is_err());
    }

    #[test]
    fn providers_without_pages_get_a_window() {
        let query = |count, page| Query { count, page, ..Query::new("a") };
        assert_eq!(query(5, 1).window("X", 20).unwrap(), (5, 0));
        assert_eq!(query(5, 4).window("X", 20).unwrap(), (20, 15));
        assert!(query(5, 5).window("X", 20).unwrap_err().to_string().contains("at most 20 results"));
    }
}
