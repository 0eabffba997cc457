//! An error's code is compared with a constant, which is defined next to a function that returns
//! the code.

use super::rust_files;

/// Returns the part of a file before its tests.
fn program(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
}

/// Returns the lines of a statement that begins at a line: those that are indented further, and the
/// one that closes it.
fn statement<'a>(lines: &[&'a str], first: usize) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let rest = lines[first + 1..].iter();
    let inside = rest.take_while(|it| it.trim().is_empty() || indent(it) > indent(lines[first]));
    std::iter::once(&lines[first]).chain(inside).copied().collect()
}

/// Returns whether a line compares a code with a literal.
fn compares(line: &str) -> bool {
    let line = line.trim_start();
    let is_of_code = line.contains("code_str()");
    let operators = ["== \"", "!= \"", "[\"", "\") = ("];
    let is_operand = operators.iter().any(|it| line.contains(it));
    let is_pattern = line.contains("matches!(") && line.contains('"');
    is_of_code && (is_operand || is_pattern) || is_arm(line)
}

/// Returns whether a line is an arm of a `match` whose pattern has a literal.
fn is_arm(line: &str) -> bool {
    let pattern = line.split_once(" => ").map(|it| it.0).unwrap_or_default();
    ["\"", "(\"", "| \""].iter().any(|it| pattern.starts_with(it))
}

#[test]
fn codes_of_errors_are_compared_as_constants() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files("src") {
        if path.as_str().contains("test") || path == "src/client/protocol.rs" {
            continue;
        }
        let lines: Vec<&str> = program(&text).lines().collect();
        for (number, line) in lines.iter().enumerate().filter(|it| it.1.contains("code_str()")) {
            let of = match line.contains("match ") {
                true => statement(&lines, number),
                false => vec![*line],
            };
            let found = of.iter().filter(|it| compares(it));
            wrong.extend(found.map(|it| format!("{path}:{}: {}", number + 1, it.trim())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
