// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes woven into functions of Rust: the body becomes a choice between its changed forms and itself.

use tree_sitter::Node;

use crate::SWITCH;
use crate::woven::{Function, Woven};

/// Whether a function can choose at run time: it can neither if it is evaluated by the compiler, nor if each body would
/// return another type.
pub(crate) fn can_hold(node: Node, text: &str) -> bool {
    let part = |name| {
        node.child_by_field_name(name)
            .map(|node| &text[node.byte_range()])
    };
    let mut cursor = node.walk();
    let is_const = node.children(&mut cursor).any(|child| {
        child.kind() == "function_modifiers" && text[child.byte_range()].contains("const")
    });
    !is_const && !part("return_type").is_some_and(|name| name.contains("impl "))
}

/// Adds the function to the woven text.
pub(crate) fn weave(function: &Function, text: &str, woven: &mut Woven) {
    let (from, to) = (function.body.start_byte(), function.body.end_byte());
    woven.text += &text[function.start..from];
    woven.text += "{ ";
    for (number, edit) in &function.changes {
        // The block needs nothing from its crate, so that the change can be in any module of any crate.
        let chosen = format!(
            "if {{ static ON: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new(); \
             *ON.get_or_init(|| ::std::env::var_os(\"{SWITCH}\").is_some_and(|it| it == \"{number}\")) }}\n"
        );
        woven.text += &chosen;
        woven.push_of(*number, &edit.apply(text, from, to));
        woven.text += "\nelse ";
    }
    woven.text += &text[from..to];
    woven.text += " }";
}

#[cfg(test)]
mod tests {
    use crate::weave::{Language, weave};
    use crate::woven::Edit;

    fn woven(text: &str, old: &str, new: &str) -> Option<String> {
        let edit = Edit::between(text.find(old).unwrap(), old, new);
        let woven = weave(Language::Rust, text, &[(7, &edit)]);
        woven.alone.is_empty().then_some(woven.text)
    }

    #[test]
    fn a_body_becomes_a_choice() {
        let text = "impl A {\n    async fn f(&self) -> u8 {\n        self.a + 1\n    }\n}\n";
        let woven = woven(text, "+ 1", "- 1").unwrap();
        assert!(
            woven.contains("\"TANDEM_MUTANT\").is_some_and(|it| it == \"7\")"),
            "{woven}"
        );
        assert!(woven.contains("self.a - 1"), "{woven}");
        assert!(
            woven.contains("else {\n        self.a + 1\n    } }\n}\n"),
            "{woven}"
        );
    }

    #[test]
    fn what_is_no_body_or_known_at_build_time_stays_alone() {
        for text in [
            "const A: u8 = 1;",
            "const fn f() -> u8 { 1 }",
            "fn f(a: [u8; 1]) {}",
            "macro_rules! m { () => { fn f() { 1 } } }",
            "fn f() -> impl Iterator<Item = u8> { [1].into_iter() }",
        ] {
            assert_eq!(woven(text, "1", "2"), None, "{text}");
        }
    }
}
