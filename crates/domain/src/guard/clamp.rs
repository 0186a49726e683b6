//! Maximum values of arguments.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::argument::quoted;

/// Lowers the numbers in `input` that are above `limits` (by JSON pointer, as in [`super::ToolFacts::limits`]).
/// Numbers written as text count, too; what is no number, or is left out, stays as it is. Returns the arguments, and
/// for each change a sentence for the model.
///
/// ```
/// use houston_domain::guard::clamp;
/// use serde_json::json;
///
/// let limits = [("/limit".to_owned(), 50.into())].into();
/// let (input, notes) = clamp(&limits, json!({"limit": 500}));
/// assert_eq!(input, json!({"limit": 50}));
/// assert_eq!(notes, ["`limit` may be 50 at most: 50 was used instead of 500."]);
/// ```
#[must_use]
pub fn clamp(limits: &BTreeMap<String, Number>, mut input: Value) -> (Value, Vec<String>) {
    let mut notes = Vec::new();
    for (pointer, most) in limits {
        let Some(value) = input.pointer_mut(pointer) else { continue };
        let (exceeds, given, lowered) = match value {
            Value::Number(given) => (exceeds(given, most), given.to_string(), Value::Number(most.clone())),
            Value::String(text) => (text_exceeds(text, most), quoted(text), Value::String(most.to_string())),
            _ => continue,
        };
        if exceeds {
            *value = lowered;
            let name = pointer.trim_start_matches('/');
            notes.push(format!("`{name}` may be {most} at most: {most} was used instead of {given}."));
        }
    }
    (input, notes)
}

/// Whether `text` is a number, and greater than `most`.
fn text_exceeds(text: &str, most: &Number) -> bool {
    let most = most.as_f64().unwrap_or(f64::INFINITY);
    text.trim().parse::<f64>().is_ok_and(|given| given > most)
}

/// Whether `given` is greater than `most`.
pub(super) fn exceeds(given: &Number, most: &Number) -> bool {
    match (given.as_i128(), most.as_i128()) {
        (Some(given), Some(most)) => given > most,
        _ => {
            given.as_f64().unwrap_or(f64::INFINITY).partial_cmp(&most.as_f64().unwrap_or(f64::INFINITY))
                == Some(Ordering::Greater)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn limits(most: Value) -> BTreeMap<String, Number> {
        let Value::Number(most) = most else { panic!("a number") };
        [("/page/size".to_owned(), most)].into()
    }

    #[test]
    fn numbers_above_the_maximum_are_lowered() {
        for (most, given, clamped) in [
            (json!(50), json!(51), json!(50)),
            (json!(50), json!(50), json!(50)),
            (json!(50), json!(-1), json!(-1)),
            (json!(50), json!(50.5), json!(50)),
            (json!(0.5), json!(1), json!(0.5)),
            (json!(50), json!(u64::MAX), json!(50)),
            (json!(50), json!(1e300), json!(50)),
            (json!(50), json!("500"), json!("50")),
            (json!(50), json!(" +5e2 "), json!("50")),
            (json!(50), json!("inf"), json!("50")),
            (json!(50), json!("all"), json!("all")),
            (json!(50), json!([500]), json!([500])),
            (json!(50), json!(null), json!(null)),
        ] {
            let (input, notes) = clamp(&limits(most), json!({"page": {"size": given}}));
            assert_eq!(input, json!({"page": {"size": clamped}}));
            assert_eq!(notes.is_empty(), given == clamped, "{notes:?}");
        }
    }

    #[test]
    fn arguments_left_out_stay_left_out() {
        let input = json!({"size": 500});
        assert_eq!(clamp(&limits(json!(50)), input.clone()), (input, vec![]));
    }

    proptest! {
        #[test]
        fn clamping_twice_changes_nothing(most in -1000_i64..1000, given in any::<f64>()) {
            let (once, _) = clamp(&limits(json!(most)), json!({"page": {"size": given}}));
            let (twice, notes) = clamp(&limits(json!(most)), once.clone());
            prop_assert_eq!(once, twice);
            prop_assert!(notes.is_empty());
        }
    }
}
