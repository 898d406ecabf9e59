// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes woven into functions of C: a changed copy of the function stands before it, and the function's first
//! statement calls the copy that is chosen.

use tree_sitter::Node;

use crate::SWITCH;
use crate::woven::{Function, Woven};

/// The line with which a changed file begins.
pub(crate) const INCLUDE: &str = "#include \"tandem_mutant.h\"\n";
/// In a built kernel module, the number follows these bytes.
pub(crate) const MARK: &str = "tandem's mutant:";
/// The files that a copy of the module's sources gets, relative to the directory of the engine.
pub(crate) const HEADER: &str = "tandem_mutant.h";
pub(crate) const NUMBER: &str = "tandem_mutant.c";
/// A line for the Kbuild file.
pub(crate) const KBUILD: &str = "\ndm-tandem-y += core/tandem_mutant.o\n";

/// The header that declares the number. In user space the environment states it: each file reads it for itself before
/// the program's first thread, because the files become different programs and libraries.
pub(crate) fn header() -> String {
    format!(
        "/* SPDX-License-Identifier: GPL-2.0-or-later */\n\
         #ifndef TANDEM_MUTANT_H\n\
         #define TANDEM_MUTANT_H\n\
         #ifdef __KERNEL__\n\
         extern struct tandem_mutant_choice {{\n\tchar mark[{}];\n\tunsigned int number;\n}} tandem_mutant_chosen;\n\
         #define tandem_mutant (tandem_mutant_chosen.number)\n\
         #else\n\
         extern char *getenv(const char *name);\n\
         extern int atoi(const char *text);\n\
         static unsigned int tandem_mutant;\n\
         __attribute__((constructor, unused)) static void tandem_mutant_read(void)\n\
         {{\n\tconst char *number = getenv(\"{SWITCH}\");\n\n\ttandem_mutant = number ? (unsigned int)atoi(number) : 0;\n}}\n\
         #endif\n\
         #endif\n",
        MARK.len()
    )
}

/// The file that holds the number in the kernel.
pub(crate) fn number() -> String {
    format!(
        "// SPDX-License-Identifier: GPL-2.0-or-later\n\
         #include \"tandem_mutant.h\"\n\
         #ifdef __KERNEL__\n\
         struct tandem_mutant_choice tandem_mutant_chosen = {{ \"{MARK}\", 0 }};\n\
         #endif\n"
    )
}

/// Whether a function can be called with its own parameters.
pub(crate) fn can_hold(node: Node, text: &str) -> bool {
    signature(node, text).is_some()
}

/// Where the name of a function is, and the names of its parameters.
fn signature<'a>(node: Node<'a>, text: &'a str) -> Option<(Node<'a>, Vec<&'a str>)> {
    let declarator = inner(
        node.child_by_field_name("declarator")?,
        "function_declarator",
    )?;
    let name = declarator.child_by_field_name("declarator")?;
    if name.kind() != "identifier" || node.has_error() && text[node.byte_range()].contains("#if") {
        return None;
    }
    let list = declarator.child_by_field_name("parameters")?;
    let mut names = Vec::new();
    let mut cursor = list.walk();
    for parameter in list.named_children(&mut cursor) {
        match (
            parameter.kind(),
            parameter.child_by_field_name("declarator"),
        ) {
            ("parameter_declaration", Some(name)) => {
                let name = inner(name, "identifier")?;
                names.push(&text[name.byte_range()]);
            }
            ("parameter_declaration", None) if &text[parameter.byte_range()] == "void" => {}
            ("comment", _) => {}
            _ => return None,
        }
    }
    Some((name, names))
}

/// The node of this kind in a declarator of pointers, arrays and functions.
fn inner<'a>(mut node: Node<'a>, kind: &str) -> Option<Node<'a>> {
    while node.kind() != kind {
        node = match node.child_by_field_name("declarator") {
            Some(inner) => inner,
            None => {
                let mut cursor = node.walk();
                node.named_children(&mut cursor).next()?
            }
        };
    }
    Some(node)
}

/// Adds the function to the woven text.
pub(crate) fn weave(function: &Function, text: &str, woven: &mut Woven) {
    let Some((name, names)) = signature(function.node, text) else {
        return;
    };
    let (from, to) = (function.start, function.node.end_byte());
    let body = function.body.start_byte();
    let linkage = match text[from..name.start_byte()].contains("static") {
        true => "",
        false => "static ",
    };
    let mut choice = String::new();
    for (number, edit) in &function.changes {
        let copy = format!("{}__m{number}", &text[name.byte_range()]);
        let head = [
            linkage,
            &text[from..name.start_byte()],
            &copy,
            &text[name.end_byte()..body],
        ];
        let changed = head.concat() + &edit.apply(text, body, to);
        woven.push_of(*number, &changed);
        woven.text += "\n\n";
        let names = names.join(", ");
        choice += &format!("\n\tif (tandem_mutant == {number})\n\t\treturn {copy}({names});\n");
    }
    woven.text += &text[from..=body];
    woven.text += &choice;
    woven.text += &text[body + 1..to];
}

#[cfg(test)]
mod tests {
    use crate::weave::{Language, weave};
    use crate::woven::Edit;

    fn woven(text: &str, old: &str, new: &str) -> Option<String> {
        let edit = Edit::between(text.find(old).unwrap(), old, new);
        let woven = weave(Language::C, text, &[(7, &edit)]);
        woven.alone.is_empty().then_some(woven.text)
    }

    #[test]
    fn a_function_calls_its_changed_copy() {
        let text = "noinline enum a f(void)\n{\n\treturn one;\n}\n";
        assert!(
            woven(text, "one", "two")
                .unwrap()
                .contains("\nstatic noinline enum a f__m7(void)\n")
        );
        let text = "struct a *f(const struct b *b, u8 name[4], void (*call)(int x))\n{\n\treturn one(b);\n}\n";
        let woven = woven(text, "one", "two").unwrap();
        assert!(woven.starts_with("#include \"tandem_mutant.h\"\nstatic struct a *f__m7(const struct b *b, u8 name[4], void (*call)(int x))\n{\n\treturn two(b);\n}\n\nstruct a *f("), "{woven}");
        assert!(woven.ends_with("{\n\tif (tandem_mutant == 7)\n\t\treturn f__m7(b, name, call);\n\n\treturn one(b);\n}\n"), "{woven}");
    }

    #[test]
    fn what_is_no_body_stays_alone() {
        for text in [
            "#define A 1\n",
            "static int a = 1;\n",
            "struct a {\n\tint b[1];\n};\n",
            "int f(int a, ...)\n{\n\treturn 1;\n}\n",
        ] {
            assert_eq!(woven(text, "1", "2"), None, "{text}");
        }
    }
}
