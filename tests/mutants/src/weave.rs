// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts many changes into one file: each function that some of them change gets its body once for each change, and
//! chooses at run time.

use std::collections::BTreeMap;

use tree_sitter::{Node, Parser, Tree};

use crate::{c, rust};

/// A text that replaces a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// First byte of the part.
    pub start: usize,
    /// First byte after the part.
    pub end: usize,
    /// The text.
    pub new: String,
}

impl Edit {
    /// The smallest edit that makes `new` from `old`, which begins at the byte `start`.
    #[must_use]
    pub fn between(start: usize, old: &str, new: &str) -> Self {
        let same = |(one, other): &(char, char)| one == other;
        let pairs = old.chars().zip(new.chars());
        let head: usize = pairs
            .take_while(same)
            .map(|(letter, _)| letter.len_utf8())
            .sum();
        let pairs = old[head..].chars().rev().zip(new[head..].chars().rev());
        let tail: usize = pairs
            .take_while(same)
            .map(|(letter, _)| letter.len_utf8())
            .sum();
        Self {
            start: start + head,
            end: start + old.len() - tail,
            new: new[head..new.len() - tail].to_owned(),
        }
    }

    /// The text from `from` to `to`, which contain this edit, as it is with the edit.
    #[must_use]
    pub fn apply(&self, text: &str, from: usize, to: usize) -> String {
        [&text[from..self.start], &self.new, &text[self.end..to]].concat()
    }
}

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

/// A function with numbered changes of its body.
pub(crate) struct Function<'a> {
    /// First byte of its line: the grammar of C takes an unknown macro before a function for no part of it.
    pub(crate) start: usize,
    pub(crate) node: Node<'a>,
    pub(crate) body: Node<'a>,
    pub(crate) changes: Vec<(usize, &'a Edit)>,
}

/// A file with changes woven in.
#[derive(Default)]
pub(crate) struct Woven {
    pub(crate) text: String,
    /// First line, last line and number of the change of each changed body. Lines count from 1.
    places: Vec<(usize, usize, usize)>,
    /// Numbers of the changes that are in no function which can be woven.
    pub(crate) alone: Vec<usize>,
}

impl Woven {
    /// The text as it is.
    pub(crate) fn of_no_language(text: String, changes: &[(usize, &Edit)]) -> Self {
        Self {
            text,
            places: Vec::new(),
            alone: changes.iter().map(|(number, _)| *number).collect(),
        }
    }

    fn line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    /// Adds a text that belongs to a change.
    pub(crate) fn push_of(&mut self, number: usize, text: &str) {
        let first = self.line();
        self.text += text;
        self.places.push((first, self.line(), number));
    }

    /// The change whose text a line is in.
    pub(crate) fn change_at(&self, line: usize) -> Option<usize> {
        let within = |(first, last, _): &&(usize, usize, usize)| (*first..=*last).contains(&line);
        self.places
            .iter()
            .find(within)
            .map(|(_, _, number)| *number)
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
