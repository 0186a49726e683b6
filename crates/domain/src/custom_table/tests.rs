mod csv;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const ZONE: Option<chrono_tz::Tz> = Some(chrono_tz::Europe::Berlin);

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

fn fields() -> Fields {
    let fields = json!([
        {"name": "title", "type": "text", "required": true, "description": "What it is."},
        {"name": "price", "type": "number"},
        {"name": "count", "type": "integer"},
        {"name": "sold", "type": "boolean"},
        {"name": "day", "type": "date"},
        {"name": "at", "type": "datetime"},
        {"name": "colour", "type": "enum", "enum": ["Red", "blue"]},
        {"name": "tags", "type": "list"},
    ]);
    Fields::new(serde_json::from_value(fields).unwrap(), &TableLimits::default()).unwrap()
}

#[test]
fn values_are_checked_and_stored_in_one_form() {
    let given = json!({"title": "Lamp", "price": 12.5, "count": 3.0, "sold": false, "day": "2026-11-25",
                       "at": "2026-11-25T09:30", "colour": "red", "tags": ["a"]});
    let stored = fields().check(&object(given), ZONE, Part::Whole).unwrap();
    let expected = json!({"title": "Lamp", "price": 12.5, "count": 3, "sold": false, "day": "2026-11-25",
                          "at": "2026-11-25T08:30:00Z", "colour": "Red", "tags": ["a"]});
    assert_eq!(Value::from(stored), expected);
}

#[test]
fn wrong_values_are_reported_each_with_what_is_allowed() {
    for (given, words) in [
        (json!({}), "`title` is required: give a text"),
        (json!({"title": null}), "`title` is required"),
        (json!({"title": 5}), "`title` must be a text of at most 8192 bytes, not 5"),
        (json!({"title": "a\u{0}"}), "must be a text"),
        (
            json!({"title": "a", "price": "12"}),
            "`price` must be a number, without quotes or unit, not \"12\"",
        ),
        (json!({"title": "a", "count": 1.5}), "`count` must be a whole number"),
        (json!({"title": "a", "count": 1e300}), "`count` must be a whole number"),
        (json!({"title": "a", "day": "25.11.2026"}), "`day` must be a day, as 2026-11-25"),
        (json!({"title": "a", "day": "2026-02-30"}), "`day` must be a day"),
        (json!({"title": "a", "at": "noon"}), "`at` must be a time"),
        (json!({"title": "a", "colour": "green"}), "one of \"Red\", \"blue\", not \"green\""),
        (json!({"title": "a", "tags": "x"}), "`tags` must be a list"),
        (
            json!({"title": "a", "prize": 1}),
            "`prize` is no field of this table; its fields: `title`, `price`",
        ),
    ] {
        let faults = fields().check(&object(given.clone()), ZONE, Part::Whole).unwrap_err();
        assert!(texts(&faults).contains(words), "{given}: {}", texts(&faults));
    }
    let two = json!({"price": "x", "sold": 1});
    assert_eq!(fields().check(&object(two), ZONE, Part::Whole).unwrap_err().len(), 3);
    let local = json!({"title": "a", "at": "2026-11-25T09:30"});
    assert!(fields().check(&object(local), None, Part::Whole).is_err(), "no zone, no local time");
}

#[test]
fn changes_may_remove_values_that_are_not_required() {
    let change = |value| fields().check(&object(value), ZONE, Part::Changes);
    assert_eq!(Value::from(change(json!({"price": null})).unwrap()), json!({"price": null}));
    assert!(texts(&change(json!({"title": null})).unwrap_err()).contains("is required"));
    assert!(texts(&change(json!({})).unwrap_err()).contains("at least one of \"title\""));
}

#[test]
fn wrong_fields_of_a_new_table_are_reported() {
    for (given, words) in [
        (json!([]), "1 to 40 fields"),
        (json!([{"name": "Paid On", "type": "date"}]), "such as `paid_on`"),
        (json!([{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]), "`a` is there twice"),
        (json!([{"name": "a", "type": "enum"}]), "`a` needs `enum`"),
        (json!([{"name": "a", "type": "text", "enum": ["x"]}]), "only a field of the type `enum` has"),
        (json!([{"name": "a", "type": "enum", "enum": [" "]}]), "is empty"),
    ] {
        let given: Vec<Field> = serde_json::from_value(given).unwrap();
        let faults = Fields::new(given, &TableLimits::default()).unwrap_err();
        assert!(texts(&faults).contains(words), "{}", texts(&faults));
    }
}

#[test]
fn conditions_follow_the_types_of_the_fields() {
    let parse = |value| conditions(&object(value), &fields(), ZONE);
    let parsed = parse(json!({"price": {"gte": 1, "lt": 2}, "colour": "RED", "tags": "x", "count": [1, 2],
                              "day": null}))
    .unwrap();
    let mut parsed: Vec<String> =
        parsed.iter().map(|one| format!("{} {} {}", one.field, one.test.as_str(), one.value)).collect();
    parsed.sort();
    assert_eq!(
        parsed,
        [
            "colour eq \"Red\"",
            "count in [1,2]",
            "day empty true",
            "price gte 1",
            "price lt 2",
            "tags contains \"x\""
        ]
    );
    for (wrong, words) in [
        (json!({"size": 1}), "`size` is no field"),
        (json!({"price": {"more": 1}}), "no test `more`; there are: eq, ne"),
        (json!({"sold": {"lt": true}}), "which has no `lt`"),
        (json!({"price": {"contains": "1"}}), "which has no `contains`"),
        (json!({"price": {"in": []}}), "1 to 100"),
        (json!({"price": {"empty": 1}}), "true or false"),
    ] {
        assert!(texts(&parse(wrong).unwrap_err()).contains(words));
    }
}

#[test]
fn sums_need_numbers_and_orders_need_order() {
    let sum = |field: &str| Aggregate::new(Function::Sum, Some(field.to_owned()), None, &fields());
    assert!(sum("price").is_ok() && sum("count").is_ok());
    assert!(sum("title").unwrap_err().to_string().contains("needs a number"));
    assert!(Aggregate::new(Function::Sum, None, None, &fields()).is_err());
    assert!(Aggregate::new(Function::Max, Some("day".to_owned()), None, &fields()).is_ok());
    assert!(Aggregate::new(Function::Max, Some("tags".to_owned()), None, &fields()).is_err());
    assert_eq!(
        Order::parse(Some("-price"), &fields()),
        Ok(Order { field: Some("price".to_owned()), descending: true })
    );
    assert!(Order::parse(Some("tags"), &fields()).is_err());
}

#[test]
fn shipped_presets_are_tables() {
    let presets: TablePresets = toml::from_str(include_str!("../../../../jobs/tables.toml")).unwrap();
    assert_eq!(presets.check(&TableLimits::default()), Ok(()));
    assert_eq!(
        presets.0.keys().map(String::as_str).collect::<Vec<_>>(),
        ["bookmarks", "contacts", "expenses"]
    );
    assert!(presets.named("cars").unwrap_err().to_string().contains("bookmarks, contacts, expenses"));
}

/// Values of all shapes, right and wrong.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "(Red|BLUE|2026-(0[1-9]|1[0-2])-[0-3][0-9](T[0-2][0-9]:[0-5][0-9](Z|:00Z)?)?)".prop_map(Value::from),
    ];
    prop_oneof![leaf.clone(), prop::collection::vec(leaf, 0..4).prop_map(Value::from)]
}

proptest! {
    /// What was stored is accepted again and stays the same, so a record that was read can be written back.
    #[test]
    fn stored_values_are_accepted_again(values in prop::collection::vec(value(), 8)) {
        let fields = fields();
        let given: Map<String, Value> =
            fields.all().iter().map(|field| field.name.clone()).zip(values).collect();
        if let Ok(stored) = fields.check(&given, ZONE, Part::Whole) {
            prop_assert_eq!(fields.check(&stored, None, Part::Whole), Ok(stored));
        }
    }
}

#[test]
fn fields_are_added_without_touching_what_there_is() {
    let limits = TableLimits::default();
    let new = |field: Value| serde_json::from_value(json!([field])).unwrap();
    let grown = fields().extended(new(json!({"name": "shop", "type": "text"})), 7, &limits).unwrap();
    assert_eq!(grown.all()[..8], *fields().all());
    assert_eq!(grown.all()[8].name, "shop");
    let refused = |field: Value, records| {
        fields()
            .extended(new(field), records, &limits)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect::<String>()
    };
    let required = json!({"name": "shop", "type": "text", "required": true});
    assert!(
        refused(required.clone(), 7).contains("`shop` cannot be required: 7 records have no value of it")
    );
    assert!(fields().extended(new(required), 0, &limits).is_ok());
    assert!(refused(json!({"name": "title", "type": "text"}), 0).contains("`title` is there twice"));
    let many: Vec<_> = (0..40).map(|nth| json!({"name": format!("f{nth}"), "type": "text"})).collect();
    let many = serde_json::from_value(Value::from(many)).unwrap();
    assert!(
        fields().extended(many, 0, &limits).unwrap_err()[0].to_string().contains("1 to 40 fields, not 48")
    );
    assert!(fields().extended(Vec::new(), 0, &limits).is_err());
}
