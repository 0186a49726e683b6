//! Searches of lists: words such as `status:failed`.

use crate::show;

/// A search as parameters of the API, and what of it cannot be used. `terms`: what may be searched for, as the word and the
/// parameter.
pub(crate) fn parse(
    search: &str,
    terms: &[(&'static str, &'static str)],
) -> (Vec<(&'static str, String)>, Vec<String>) {
    let (mut pairs, mut wrong) = (Vec::new(), Vec::new());
    for word in search.split_whitespace() {
        let term = word.split_once(':').and_then(|(name, value)| {
            let (_, parameter) = terms.iter().find(|(term, _)| *term == name)?;
            (!value.is_empty()).then(|| (*parameter, value.to_owned()))
        });
        match term {
            Some(pair) => pairs.push(pair),
            None => {
                let names: Vec<String> = terms.iter().map(|(term, _)| format!("{term}:")).collect();
                wrong.push(format!(
                    "“{}” is left out: a search has words such as {}",
                    show::line(word, 60),
                    names.join(", ")
                ));
            }
        }
    }
    (pairs, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_becomes_parameters_and_says_what_it_leaves_out() {
        let terms = [("status", "status"), ("user", "user_id"), ("agent", "agent_id")];
        let (pairs, wrong) = parse("status:failed user:user_1 <b> colour:red agent:", &terms);
        assert_eq!(pairs, [("status", "failed".to_owned()), ("user_id", "user_1".to_owned())]);
        assert_eq!(wrong.len(), 3);
        assert!(wrong[0].starts_with("“<b>” is left out"), "{wrong:?}");
        assert!(wrong[0].ends_with("status:, user:, agent:"), "{wrong:?}");
    }
}
