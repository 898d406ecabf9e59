// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes that no person has thought of: each statement dropped or swapped with its neighbor, each condition negated,
//! each bound shifted.

use tree_sitter::Node;

use crate::weave::{Change, Language, function_around};
use crate::woven::Edit;
use crate::{c, rust};

/// Beginnings of statements whose absence no test could see: words for people, and assertions.
const QUIET: [&str; 20] = [
    "pr_",
    "DMERR",
    "DMWARN",
    "DMINFO",
    "DMDEBUG",
    "WARN_",
    "BUG_ON",
    "BUILD_BUG",
    "lockdep_",
    "might_",
    "cond_resched",
    "MODULE_",
    "tracing::",
    "debug",
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "write",
    "let _ = write",
];

/// A change that is made by rule.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The change; its name counts the changes of all files in their order.
    pub change: Change,
    /// The line in the file that is changed, from 1 on.
    pub line: usize,
    /// The old text and the new one, for a person.
    pub words: String,
}

/// All changes of some files, given with their texts. The names begin with `prefix`.
#[must_use]
pub fn enumerate(prefix: &str, files: &[(String, String)]) -> Vec<Drawn> {
    let mut all: Vec<Drawn> = Vec::new();
    for (file, text) in files {
        let Some(language) = Language::of(file) else {
            continue;
        };
        let Some(tree) = language.parse(text) else {
            continue;
        };
        let mut edits = Vec::new();
        collect(language, text, tree.root_node(), &mut edits);
        for (word, edit) in edits {
            let can_hold = |node| match language {
                Language::C => c::can_hold(node, text),
                Language::Rust => rust::can_hold(node, text),
            };
            let around = function_around(language, &tree, edit.start, edit.end);
            if !around.is_some_and(|(function, _)| can_hold(function)) {
                continue;
            }
            let line = text[..edit.start].matches('\n').count() + 1;
            let old = &text[edit.start..edit.end];
            let words = match word {
                "drop" => format!("drops `{}`", flat(old)),
                _ => format!("`{}` becomes `{}`", flat(old), flat(&edit.new)),
            };
            let name = format!("{prefix}-{:04}", all.len() + 1);
            let file = file.clone();
            all.push(Drawn {
                change: Change { name, file, edit },
                line,
                words,
            });
        }
    }
    all
}

/// The changes in an order that depends on nothing but the seed.
#[must_use]
pub fn shuffled(mut all: Vec<Drawn>, seed: u64) -> Vec<Drawn> {
    let mut state = seed;
    // SplitMix64.
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    for last in (1..all.len()).rev() {
        let other = random() % (last as u64 + 1);
        all.swap(last, usize::try_from(other).unwrap_or(last));
    }
    all
}

/// A text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds the changes in a node and below, each with its kind.
fn collect(language: Language, text: &str, node: Node, edits: &mut Vec<(&'static str, Edit)>) {
    if language == Language::Rust && is_unseen(node, text) {
        return;
    }
    let said = |node: Node| &text[node.byte_range()];
    let replaced = |node: Node, new: String| Edit {
        start: node.start_byte(),
        end: node.end_byte(),
        new,
    };
    if is_statement(language, node, text) {
        let new = if language == Language::C { ";" } else { "" };
        edits.push(("drop", replaced(node, new.to_owned())));
        if let Some(next) = node.next_sibling().filter(|next| is_plain(*next, text))
            && is_plain(node, text)
        {
            let between = &text[node.end_byte()..next.start_byte()];
            let new = [said(next), between, said(node)].concat();
            let (start, end) = (node.start_byte(), next.end_byte());
            edits.push(("swap", Edit { start, end, new }));
        }
    }
    if let Some(condition) = node.child_by_field_name("condition")
        && !condition.kind().starts_with("let_")
    {
        let new = match condition.kind() {
            "parenthesized_expression" => format!("(!{})", said(condition)),
            _ => format!("!({})", said(condition)),
        };
        edits.push(("negate", replaced(condition, new)));
    }
    if node.kind() == "binary_expression"
        && let Some(operator) = node.child_by_field_name("operator")
    {
        let shifted = match said(operator) {
            "<" => Some("<="),
            "<=" => Some("<"),
            ">" => Some(">="),
            ">=" => Some(">"),
            _ => None,
        };
        if let Some(new) = shifted {
            edits.push(("shift", replaced(operator, new.to_owned())));
        }
        if let Some(bound) = node.child_by_field_name("right")
            && matches!(bound.kind(), "number_literal" | "integer_literal")
            && matches!(said(operator), "+" | "-")
        {
            edits.push(("shift", replaced(bound, format!("({} + 1)", said(bound)))));
        }
    }
    if node.kind() == "range_expression" && node.named_child_count() == 2 {
        let mut cursor = node.walk();
        let dots = node
            .children(&mut cursor)
            .find(|child| child.kind() == "..");
        edits.extend(dots.map(|dots| ("shift", replaced(dots, "..=".to_owned()))));
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        collect(language, text, child, edits);
    }
}

/// Whether a statement can be dropped. A dropped declaration or a dropped result would not build.
fn is_statement(language: Language, node: Node, text: &str) -> bool {
    let said = &text[node.byte_range()];
    let jumps = match language {
        Language::C => {
            matches!(
                node.kind(),
                "break_statement" | "continue_statement" | "goto_statement"
            ) || node.kind() == "return_statement" && node.named_child_count() == 0
        }
        Language::Rust => false,
    };
    let is_expression = node.kind() == "expression_statement" && said.ends_with(';') && said != ";";
    (jumps || is_expression) && !QUIET.iter().any(|quiet| said.starts_with(quiet))
}

/// Whether a statement can change places with its neighbor: an expression that goes on with the next statement.
fn is_plain(node: Node, text: &str) -> bool {
    let said = &text[node.byte_range()];
    let jumps = ["return", "break", "continue", "goto"];
    node.kind() == "expression_statement"
        && said.ends_with(';')
        && !jumps.iter().any(|word| said.starts_with(word))
        && !QUIET.iter().any(|quiet| said.starts_with(quiet))
}

/// Whether an item is a test, or makes words for a person.
fn is_unseen(node: Node, text: &str) -> bool {
    let said = |node: Node| &text[node.byte_range()];
    let of_test =
        |attribute: Node| attribute.kind() == "attribute_item" && said(attribute).contains("test");
    let mut before = node.prev_sibling();
    while let Some(attribute) = before.filter(|node| node.kind() == "attribute_item") {
        if of_test(attribute) {
            return true;
        }
        before = attribute.prev_sibling();
    }
    node.kind() == "impl_item"
        && node
            .child_by_field_name("trait")
            .is_some_and(|name| said(name).ends_with("Display") || said(name).ends_with("Debug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(file: &str, text: &str) -> Vec<String> {
        let all = enumerate("x", &[(file.to_owned(), text.to_owned())]);
        all.into_iter().map(|drawn| drawn.words).collect()
    }

    #[test]
    fn changes_of_c() {
        let text = "int f(int a)\n{\n\tpr_info(\"a\");\n\tif (a < 1)\n\t\treturn a + 1;\n\tone();\n\ttwo();\n\treturn 0;\n}\n";
        assert_eq!(
            words("a.c", text),
            [
                "`(a < 1)` becomes `(!(a < 1))`",
                "`<` becomes `<=`",
                "`1` becomes `(1 + 1)`",
                "drops `one();`",
                "`one(); two();` becomes `two(); one();`",
                "drops `two();`",
            ]
        );
    }

    #[test]
    fn changes_of_rust() {
        let text = "impl fmt::Display for A { fn fmt(&self) { one(); } }\n\
            #[cfg(test)]\nmod tests { fn a() { one(); } }\n\
            fn f(a: u8) {\n    if let Some(b) = a { one(b); }\n    tracing::info!(\"a\");\n    if a > 1 { return; }\n    for i in 0..a { two(i)?; }\n}\n";
        assert_eq!(
            words("a.rs", text),
            [
                "drops `one(b);`",
                "`a > 1` becomes `!(a > 1)`",
                "`>` becomes `>=`",
                "drops `return;`",
                "`..` becomes `..=`",
                "drops `two(i)?;`",
            ]
        );
    }

    #[test]
    fn a_seed_gives_one_order() {
        let text = "void f(void)\n{\n\ta();\n\tb();\n\tc();\n\td();\n}\n";
        let all = enumerate("x", &[("a.c".to_owned(), text.to_owned())]);
        let names = |seed| {
            let order = shuffled(all.clone(), seed).into_iter();
            order.map(|drawn| drawn.change.name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        let mut sorted = names(3);
        sorted.sort();
        assert_eq!(sorted, names_of(&all));
    }

    fn names_of(all: &[Drawn]) -> Vec<String> {
        all.iter().map(|drawn| drawn.change.name.clone()).collect()
    }
}
