//! Ranking of tools for a query: BM25 over their names, descriptions and parameters.

use std::collections::HashMap;

use houston_domain::tool_call::ToolDefinition;
use serde_json::Value;

use super::words::{Concept, concepts, words};

/// The usual constants of BM25: how fast repeated words stop counting, and how much the length of a text counts.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.5;

/// How much a word counts by where it is written.
const IN_NAME: f32 = 3.0;
const IN_SERVER: f32 = 1.5;
const IN_DESCRIPTION: f32 = 1.0;
const IN_REST: f32 = 0.3;
const IN_PARAMETER: f32 = 0.5;
const IN_PARAMETER_TEXT: f32 = 0.15;

/// Words of a description that count in full: what comes later are usually examples and warnings.
const FIRST_WORDS: usize = 25;
/// How much a word counts that begins like one of the query, or differs from it in one letter.
const SIMILAR: f32 = 0.6;
/// How much the rarity of a word counts that is the rarity of all words with its meaning together: "make" is as common as
/// "create", even if only one tool says it.
const OF_MEANING: f32 = 0.7;
/// How much the score of a tool is reduced that fits none of the words of a query, in the limit.
const UNFIT: f32 = 0.5;

/// Words of tools, and the tools that have them.
pub(super) struct Index {
    /// For each word the tools with it, and how much it counts in each.
    postings: HashMap<String, Vec<(usize, f32)>>,
    /// The length of each tool's text, relative to the average.
    lengths: Vec<f32>,
}

impl Index {
    pub(super) fn of<'d>(definitions: impl Iterator<Item = &'d ToolDefinition>) -> Self {
        let (mut postings, mut lengths) = (HashMap::<String, Vec<(usize, f32)>>::new(), Vec::new());
        for (nth, definition) in definitions.enumerate() {
            let counted = counted(definition);
            lengths.push(counted.values().sum::<f32>());
            for (word, count) in counted {
                postings.entry(word).or_default().push((nth, count));
            }
        }
        let average = lengths.iter().sum::<f32>() / number(lengths.len().max(1));
        lengths.iter_mut().for_each(|length| *length /= average.max(1.0));
        Self { postings, lengths }
    }

    /// The tools that fit a query, by their positions, the best first.
    pub(super) fn ranked(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<usize, (f32, f32)> = HashMap::new();
        let mut concepts_found = 0.0;
        for concept in concepts(query) {
            let best = self.scores_of(&concept);
            concepts_found += if best.is_empty() { 0.0 } else { 1.0 };
            for (nth, score) in best {
                let (sum, matched) = scores.entry(nth).or_default();
                *sum += score;
                *matched += 1.0;
            }
        }
        let score = |(sum, matched): (f32, f32)| sum * (1.0 - UNFIT + UNFIT * matched / concepts_found);
        let mut ranked: Vec<(usize, f32)> =
            scores.into_iter().map(|(nth, found)| (nth, score(found))).collect();
        ranked.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(a.cmp(b)));
        ranked.into_iter().map(|(nth, _)| nth).collect()
    }

    /// How well the tools fit one word of a query: the best of the words that stand for it counts.
    fn scores_of(&self, concept: &Concept) -> HashMap<usize, f32> {
        let found = self.found(concept);
        // The tools that have any of the words, each as much as the best word counts.
        let mut with_any: HashMap<usize, f32> = HashMap::new();
        for (postings, weight) in &found {
            for (nth, _) in *postings {
                let most = with_any.entry(*nth).or_default();
                *most = most.max(*weight);
            }
        }
        let of_meaning = self.rarity(with_any.values().sum());
        let mut best: HashMap<usize, f32> = HashMap::new();
        for (postings, weight) in found {
            let rarity = OF_MEANING * of_meaning + (1.0 - OF_MEANING) * self.rarity(number(postings.len()));
            for (nth, count) in postings {
                let length = 1.0 - LENGTH + LENGTH * self.lengths[*nth];
                let score = weight * rarity * count * (SATURATION + 1.0) / (count + SATURATION * length);
                let most = best.entry(*nth).or_default();
                *most = most.max(score);
            }
        }
        best
    }

    /// The tools that have a word of the concept, or one that is spelled like it.
    fn found(&self, Concept { word, stems }: &Concept) -> Vec<(&[(usize, f32)], f32)> {
        let mut found: Vec<(&[(usize, f32)], f32)> = Vec::new();
        for (stem, weight) in stems {
            found.extend(self.postings.get(stem).map(|postings| (postings.as_slice(), *weight)));
        }
        if let Some(word) = word
            && !self.postings.contains_key(word)
        {
            let similar = self.postings.iter().filter(|(other, _)| is_similar(other, word));
            found.extend(similar.map(|(_, postings)| (postings.as_slice(), SIMILAR)));
        }
        found
    }

    fn rarity(&self, with: f32) -> f32 {
        let all = number(self.lengths.len());
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 16 million tools")]
fn number(count: usize) -> f32 {
    count as f32
}

/// How much each word of a tool counts.
fn counted(definition: &ToolDefinition) -> HashMap<String, f32> {
    let mut counted: HashMap<String, f32> = HashMap::new();
    let mut add = |text: &str, weight: f32| {
        for word in words(text) {
            *counted.entry(word).or_default() += weight;
        }
    };
    match definition.name.split_once("__") {
        Some((server, name)) => {
            add(server, IN_SERVER);
            add(name, IN_NAME);
        }
        None => add(&definition.name, IN_NAME),
    }
    let description = &definition.description;
    let end = description
        .split_whitespace()
        .nth(FIRST_WORDS)
        .map_or(description.len(), |word| word.as_ptr().addr() - description.as_ptr().addr());
    let (first, rest) = description.split_at(end);
    add(first, IN_DESCRIPTION);
    add(rest, IN_REST);
    let parameters = definition.input_schema.get("properties").and_then(Value::as_object);
    for (name, schema) in parameters.into_iter().flatten() {
        add(name, IN_PARAMETER);
        add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), IN_PARAMETER_TEXT);
    }
    counted
}

/// Whether one word begins with the other, or they differ in one letter. Short words are not compared.
fn is_similar(word: &str, sought: &str) -> bool {
    const LEAST: usize = 4;
    if word.len() < LEAST || sought.len() < LEAST {
        return false;
    }
    word.starts_with(sought) || sought.starts_with(word) || strsim::damerau_levenshtein(word, sought) == 1
}

#[cfg(test)]
mod tests {
    use houston_domain::tool_call::EffectClass;
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.into(),
            description: description.into(),
            input_schema: json!({"type": "object", "properties": {"path": {"description": "Where it is."}}})
                .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        }
    }

    fn best(query: &str) -> Option<&'static str> {
        let tools = [
            ("crm__addCustomer", "Adds a person who buys."),
            ("files__read_text_file", "Reads a text file."),
            ("files__create_directory", "Creates a directory."),
            ("web__get_forecast", "The weather of the next days."),
        ];
        let definitions: Vec<ToolDefinition> = tools.map(|(name, text)| tool(name, text)).to_vec();
        Index::of(definitions.iter()).ranked(query).first().map(|nth| tools[*nth].0)
    }

    #[test]
    fn best_tool_comes_first() {
        for (query, expected) in [
            ("read a file", Some("files__read_text_file")),
            ("reading files", Some("files__read_text_file")),
            ("make a folder", Some("files__create_directory")),
            ("what is the weather tomorrow", Some("web__get_forecast")),
            ("new customer", Some("crm__addCustomer")),
            ("custommer", Some("crm__addCustomer")),
            ("CRM", Some("crm__addCustomer")),
            ("the", None),
            ("", None),
            ("xylophone", None),
        ] {
            assert_eq!(best(query), expected, "{query}");
        }
    }
}
