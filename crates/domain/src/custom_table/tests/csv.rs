use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::custom_table::{Fields, TableLimits};

fn fields() -> Fields {
    let fields = json!([
        {"name": "what", "type": "text"}, {"name": "price", "type": "number"}, {"name": "count", "type": "integer"},
        {"name": "paid", "type": "boolean"}, {"name": "on", "type": "date"}, {"name": "at", "type": "datetime"},
        {"name": "kind", "type": "enum", "enum": ["food", "=travel"]}, {"name": "tags", "type": "list"},
    ]);
    Fields::new(serde_json::from_value(fields).unwrap(), &TableLimits::default()).unwrap()
}

fn csv(records: &[Map<String, Value>]) -> Vec<u8> {
    let fields = fields();
    let lines = records.iter().flat_map(|record| fields.csv_line(record));
    fields.csv_head().into_iter().chain(lines).collect()
}

fn faults(text: &str) -> Vec<String> {
    fields().read_csv(text.as_bytes(), 10).unwrap_err().iter().map(ToString::to_string).collect()
}

prop_compose! {
    fn record()(
        what in "[-=+@'\t\r\n\",;ａ-ｚ＝a-c ]{1,12}", cents in any::<i32>(), count in any::<i64>(), paid in any::<bool>(),
        tags in proptest::collection::vec("[=a\";\\[\\] ]{0,4}", 0..3), kind in 0..2_usize,
    ) -> Map<String, Value> {
        let kind = ["food", "=travel"][kind];
        let all = json!({"what": what, "price": f64::from(cents) / 100.0, "count": count, "paid": paid, "on": "2026-11-25",
                         "at": "2026-11-25T09:30:00Z", "kind": kind, "tags": tags});
        all.as_object().unwrap().clone()
    }
}

proptest! {
    #[test]
    fn what_is_exported_is_imported_unchanged(records in proptest::collection::vec(record(), 1..5)) {
        prop_assert_eq!(fields().read_csv(&csv(&records), 10).unwrap(), records);
    }

    /// No cell of a text begins like a formula, whatever a stranger wrote into it.
    #[test]
    fn no_text_is_a_formula(record in record()) {
        let csv = csv(&[record]);
        let mut rows = ::csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_slice());
        let row = rows.records().nth(1).unwrap().unwrap();
        for column in [0, 6, 7] {
            let cell = &row[column];
            prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '＠']), "{cell}");
        }
    }
}

#[test]
fn spreadsheets_may_leave_out_columns_and_write_their_own_way() {
    let text = "\u{feff}paid, what ,tags\r\nTRUE,\"a\nb\",x; y\r\n,'=1,\r\n";
    let records = fields().read_csv(text.as_bytes(), 10).unwrap();
    assert_eq!(Value::from(records[0].clone()), json!({"paid": true, "what": "a\nb", "tags": ["x", "y"]}));
    assert_eq!(Value::from(records[1].clone()), json!({"what": "=1"}));
}

#[test]
fn faults_name_line_and_column_and_what_is_allowed() {
    assert_eq!(
        faults("what,price,on\n\"two\nlines\",1,2026-11-25\nx,1 EUR,soon\n"),
        [
            "line 4, column `price`: must be a number, without quotes or unit, not \"1 EUR\"",
            "line 4, column `on`: must be a day, as 2026-11-25, not \"soon\"",
        ]
    );
    let unknown = faults("what,cost\nx,1\n");
    assert!(
        unknown[0].starts_with("line 1, column `cost`: is no field of this table; its fields: `what`"),
        "{unknown:?}"
    );
    assert_eq!(faults("what,what\nx,1\n"), ["line 1, column `what`: is there twice"]);
    assert_eq!(faults("what,price\nx\n"), ["line 2: has 1 cells, but the first line names 2 columns"]);
    assert_eq!(faults("what\n"), ["line 2: there is no record below the names of the fields"]);
    let many = format!("what\n\"two\nlines\"\n{}", "x\n".repeat(20));
    assert_eq!(faults(&many), ["line 13: a table may have at most 10 records"]);
    assert_eq!(faults(&format!("price\n{}", "x\n".repeat(50))).len(), 20);
    let more = fields()
        .extended(
            serde_json::from_value(json!([{"name": "who", "type": "text", "required": true}])).unwrap(),
            0,
            &TableLimits::default(),
        )
        .unwrap();
    let missing = more.read_csv(b"what\nx\n", 10).unwrap_err();
    assert!(missing[0].to_string().contains("line 1, column `who`: is missing"), "{missing:?}");
}
