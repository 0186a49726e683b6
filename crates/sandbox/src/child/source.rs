//! From the code as it was given to the source that QuickJS runs: syntax is checked, TypeScript becomes JavaScript.

use oxc_allocator::Allocator;
use oxc_codegen::Codegen;
use oxc_diagnostics::{Diagnostics, OxcDiagnostic};
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType};
use oxc_transformer::{TransformOptions, Transformer};

use crate::outcome::Fault;
use crate::script::Language;

/// The function that is called with the code as its body. Its head is one line, which [`super::script::position`] knows.
pub(super) fn prepare(code: &str, language: Language) -> Result<String, Fault> {
    if let Some(at) = code.find('\0') {
        let fault = Fault::new("SyntaxError: the code contains a zero character");
        return Err(positioned(fault, code, u32::try_from(at).unwrap_or(0)));
    }
    match language {
        Language::JavaScript => {
            translate(code, SourceType::mjs())?;
            Ok(wrap(code))
        }
        Language::TypeScript => Ok(wrap(&translate(code, SourceType::ts())?.unwrap_or_default())),
    }
}

fn wrap(body: &str) -> String {
    format!("(async () => {{\n{body}\n}})()")
}

/// Checks the syntax; returns JavaScript if the source is TypeScript.
fn translate(code: &str, source_type: SourceType) -> Result<Option<String>, Fault> {
    let allocator = Allocator::default();
    // The code is the body of a function.
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, code, source_type).with_options(options).parse();
    check(code, &parsed.diagnostics)?;
    let mut program = parsed.program;
    if let Some(module) = program.body.iter().find(|statement| statement.is_module_declaration()) {
        let fault = Fault::new("SyntaxError: import and export need modules, which there are none of");
        return Err(positioned(fault, code, module.span().start));
    }
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    check(code, &semantic.diagnostics)?;
    if !source_type.is_typescript() {
        return Ok(None);
    }
    let scoping = semantic.semantic.into_scoping();
    let path = std::path::Path::new("code.ts");
    let transformed = Transformer::new(&allocator, path, &TransformOptions::default())
        .build_with_scoping(scoping, &mut program);
    check(code, &transformed.diagnostics)?;
    Ok(Some(Codegen::new().build(&program).code))
}

fn check(code: &str, diagnostics: &Diagnostics) -> Result<(), Fault> {
    diagnostics.errors().next().map_or(Ok(()), |error| Err(fault(code, error)))
}

fn fault(code: &str, error: &OxcDiagnostic) -> Fault {
    let mut message = format!("SyntaxError: {}", error.message);
    if let Some(help) = &error.help {
        message = format!("{message}. {help}");
    }
    let fault = Fault::new(message);
    match error.labels.first() {
        Some(label) => positioned(fault, code, label.offset()),
        None => fault,
    }
}

/// The fault at a byte of the code.
fn positioned(mut fault: Fault, code: &str, byte: u32) -> Fault {
    let before = &code[..code.floor_char_boundary(usize::try_from(byte).unwrap_or(usize::MAX))];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let count = |count: usize| u32::try_from(count).ok().and_then(|count| count.checked_add(1));
    fault.line = count(before.matches('\n').count());
    fault.column = count(before[line_start..].chars().count());
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_have_line_and_column() {
        let fault = prepare("const a = 1;\nlet x = ;", Language::JavaScript).unwrap_err();
        assert_eq!((fault.line, fault.column), (Some(2), Some(9)), "{fault:?}");
        let fault = prepare("const ü = 'ü' + ;", Language::TypeScript).unwrap_err();
        assert_eq!((fault.line, fault.column), (Some(1), Some(17)), "{fault:?}");
    }

    #[test]
    fn code_cannot_leave_its_function() {
        assert!(prepare("})(); globalThis.evil = 1; (async () => {", Language::JavaScript).is_err());
        assert!(prepare("}); (() => {", Language::TypeScript).is_err());
    }

    #[test]
    fn modules_are_refused_with_their_position() {
        let fault = prepare("const a = 1\nimport fs from 'fs'", Language::JavaScript).unwrap_err();
        assert_eq!(fault.line, Some(2));
        assert!(fault.message.contains("import"), "{fault:?}");
    }

    #[test]
    fn types_are_removed() {
        let source =
            "enum Size { Small, Large }\nconst f = (n: number): number => n as number;\nreturn f(Size.Large)";
        let javascript = prepare(source, Language::TypeScript).unwrap();
        assert!(!javascript.contains(": number") && javascript.contains("return f("), "{javascript}");
    }

    #[test]
    fn top_level_return_and_await_are_valid() {
        assert!(prepare("const x = await tools.a({}); return x", Language::JavaScript).is_ok());
        assert!(prepare("const x: unknown = await tools.a({}); return x", Language::TypeScript).is_ok());
    }
}
