//! Calculations: numbers of any size, with units.
//!
//! An expression can call itself without end, and a long one can be nested more deeply than the stack holds: that ends the
//! child.

use fend_core::{Context, evaluate};

/// The result of an expression.
pub(super) fn result(expression: &[u8]) -> Result<String, String> {
    let expression = str::from_utf8(expression).map_err(|_| "it is not UTF-8".to_owned())?;
    let result = evaluate(expression, &mut Context::new())?;
    match result.get_main_result() {
        "" => Err("there is nothing to calculate".to_owned()),
        text => Ok(text.to_owned()),
    }
}
