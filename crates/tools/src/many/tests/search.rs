//! How well tools are found.

use serde_json::json;

use super::{Offer, answer, offer};

const QUERIES: &str = include_str!("../../../tests/many/queries.txt");

/// The names found for a query, the best first.
fn found(offer: &Offer, query: &str) -> Vec<String> {
    let answer = answer(offer, &[], "search_tools", json!({"query": query}));
    answer.text().lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect()
}

#[test]
fn right_tool_is_among_five_for_85_percent_of_queries() {
    let offer = offer(&[]);
    let queries: Vec<(&str, Vec<&str>)> = QUERIES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap())
        .map(|(query, right)| (query, right.split(' ').collect()))
        .collect();
    assert!(queries.len() >= 100 && offer.tools().len() >= 300);
    let (mut first, mut missed) = (0, Vec::new());
    for (query, right) in &queries {
        assert!(right.iter().any(|name| offer.get(name).is_some()), "{query}: there is no {right:?}");
        let found = found(&offer, query);
        assert!(found.len() <= 5, "{found:?}");
        let place = found.iter().position(|name| right.contains(&name.as_str()));
        first += usize::from(place == Some(0));
        if place.is_none() {
            missed.push(format!("{query}: {}", found.join(" ")));
        }
    }
    let (count, among_five) = (queries.len(), queries.len() - missed.len());
    println!("first {first}, among five {among_five} of {count}; missed:\n{}", missed.join("\n"));
    assert!(among_five * 100 >= count * 85, "{among_five} of {count}");
}
