//! CSV, as RFC 4180 has it: fields in quotes may have separators, line breaks and doubled quotes. The separator is the one of
//! `,`, `;` and tab that the first line has most of.

use serde_json::{Map, Value};

/// The rows as objects, whose keys are the fields of the first row. All values are texts.
///
/// # Errors
/// What is wrong, as a clause: a quote that is not closed, a row with more fields than the first.
pub fn csv_to_json(text: &str) -> Result<Vec<Value>, String> {
    let rows = rows(text)?;
    let Some((header, rows)) = rows.split_first() else { return Ok(Vec::new()) };
    let object = |(nth, row): (usize, &Vec<String>)| {
        if row.len() > header.len() {
            let (line, fields, names) = (nth + 2, row.len(), header.len());
            return Err(format!("row {line} has {fields} fields, but the first row has {names}"));
        }
        let pairs = header.iter().zip(row).map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        Ok(Value::from(pairs.collect::<Map<_, _>>()))
    };
    rows.iter().enumerate().map(object).collect()
}

fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
    let first = text.lines().next().unwrap_or_default();
    let separator =
        [',', ';', '\t'].into_iter().rev().max_by_key(|one| first.matches(*one).count()).unwrap_or(',');
    let (mut rows, mut row, mut field, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if field.is_empty() => is_quoted = true,
            letter if is_quoted => field.push(letter),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            letter if letter == separator => row.push(std::mem::take(&mut field)),
            letter => field.push(letter),
        }
    }
    if is_quoted {
        return Err("a quote in `text` is not closed".to_owned());
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    // Empty lines.
    rows.retain(|row| row.len() > 1 || row.iter().any(|field| !field.is_empty()));
    Ok(rows)
}
