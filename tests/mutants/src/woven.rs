// SPDX-License-Identifier: GPL-3.0-or-later
//! A file with changes woven in, and what that takes.

use tree_sitter::Node;

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
