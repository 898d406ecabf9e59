// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts many changes into one file: each function that some of them change gets its body once for each change, and
//! chooses at run time.

use std::collections::BTreeMap;

use tree_sitter::{Node, Parser, Tree};

use crate::woven::{Edit, Function, Woven};
use crate::{c, rust};

/// A named change of a file.
#[derive(Clone, Debug)]
pub struct Change {
    /// A name that no other change of the copy has.
    pub name: String,
    /// The file, relative to the sources.
    pub file: String,
    /// The change of its text.
    pub edit: Edit,
}

/// The languages whose functions can hold several changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Rust,
}

impl Language {
    pub(crate) fn of(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "c" | "h" => Some(Self::C),
            "rs" => Some(Self::Rust),
            _ => None,
        }
    }

    pub(crate) fn parse(self, text: &str) -> Option<Tree> {
        let mut parser = Parser::new();
        let grammar = match self {
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
        };
        parser.set_language(&grammar.into()).ok()?;
        parser.parse(text, None)
    }

    /// The kind of node that is a function.
    fn function(self) -> &'static str {
        match self {
            Self::C => "function_definition",
            Self::Rust => "function_item",
        }
    }
}

/// The function nearest around the bytes, if they are in its body, and the body.
pub(crate) fn function_around<'a>(
    language: Language,
    tree: &'a Tree,
    start: usize,
    end: usize,
) -> Option<(Node<'a>, Node<'a>)> {
    let mut node = tree.root_node().descendant_for_byte_range(start, end)?;
    while node.kind() != language.function() {
        node = node.parent()?;
    }
    let body = node.child_by_field_name("body")?;
    (body.start_byte() < start && end < body.end_byte()).then_some((node, body))
}

/// Weaves numbered changes into the text of a file.
pub(crate) fn weave(language: Language, text: &str, changes: &[(usize, &Edit)]) -> Woven {
    let Some(tree) = language.parse(text) else {
        return Woven::of_no_language(text.to_owned(), changes);
    };
    let mut woven = Woven::default();
    let mut functions: BTreeMap<usize, Function> = BTreeMap::new();
    for &(number, edit) in changes {
        let around = function_around(language, &tree, edit.start, edit.end);
        let can = |node| match language {
            Language::C => c::can_hold(node, text),
            Language::Rust => rust::can_hold(node, text),
        };
        match around.filter(|(node, _)| can(*node)) {
            Some((node, body)) => functions
                .entry(node.start_byte())
                .or_insert(Function {
                    start: text[..node.start_byte()].rfind('\n').map_or(0, |at| at + 1),
                    node,
                    body,
                    changes: Vec::new(),
                })
                .changes
                .push((number, edit)),
            None => woven.alone.push(number),
        }
    }
    let mut done = 0;
    if language == Language::C && !functions.is_empty() {
        woven.text += c::INCLUDE;
    }
    for function in functions.into_values() {
        // A function within a function that is woven already.
        if function.start < done {
            let numbers = function.changes.iter().map(|(number, _)| *number);
            woven.alone.extend(numbers);
            continue;
        }
        woven.text += &text[done..function.start];
        match language {
            Language::C => c::weave(&function, text, &mut woven),
            Language::Rust => rust::weave(&function, text, &mut woven),
        }
        done = function.node.end_byte();
    }
    woven.text += &text[done..];
    woven
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_as_small_as_it_can_be() {
        let edit = Edit::between(10, "if (a < b)", "if (a <= b)");
        assert_eq!((edit.start, edit.end, edit.new.as_str()), (17, 17, "="));
        let edit = Edit::between(0, "aa", "a");
        assert_eq!((edit.start, edit.end, edit.new.as_str()), (1, 2, ""));
    }
}
