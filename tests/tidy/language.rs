//! Checks the writing rules in doc comments of all languages, proto comments, names of Rust and documents.
//!
//! The rules that a program can check: no private word of the glossary, no pronoun as the first word of a comment, a
//! complete first sentence. The review of a change checks the others.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::{files, report, root};

/// Private words in comments and documents, as regular expressions, with the standard term.
const WORDS: &[(&str, &str)] = &[
    (r"believ(e|es|ed|ing)", "cache, trust"),
    (r"(tell|tells|told|telling)", "publish, notify, return, report, send"),
    (r"(whoever|whomever|somebody|nobody|anybody)", "a noun of the system"),
    (r"stood|stands", "is stored, is committed, exists"),
    (r"(goes|gone|go|going|went) on", "continues, resumes"),
    (r"gone", "dead, deleted, expired"),
    (r"lets? go( of)?|letting go", "drops, releases, evicts"),
    (r"hangs on|hung", "child of, dependent"),
    (r"landed|lands", "is committed"),
    (r"bury|buries|buried", "writes a tombstone"),
    (r"mends?|mended", "repairs"),
    (r"hears?|heard", "receives, applies"),
    (r"under way", "in progress, in flight"),
    (r"(makes?|made|making) room|(is|are|was) put out", "evicts"),
    (r"anew", "recreated, reloaded"),
    (r"again and again", "periodically"),
    (r"by now", "currently"),
    (r"beside", "with, in the same batch"),
    (r"judge[sd]?|judging", "evaluates, checks"),
    (r"look(s|ed)? at( again)?", "reads, checks"),
    (r"comes? to rest|rests", "becomes idle"),
    (r"passed over|written over", "skipped, overwritten"),
    (r"(takes?|took|taking) the place of", "replaces"),
    (r"pieces?", "delta, chunk, segment"),
    (r"figures?", "metrics, measurements"),
    (r"worth", "status, weight"),
    (r"standing", "liveness"),
    (r"held", "buffered, reserved, acquired"),
    (r"asked", "requested"),
    (r"room", "capacity, budget"),
    (r"(gives?|gave|given|giving) up", "cancels, abandons"),
];

/// Private words as parts of the names of functions, which may be sentences, and of variables, fields and variants.
const FUNCTION_WORDS: &[&str] = &[
    "anew", "asked", "beat", "believe", "believed", "bury", "gone", "held", "hung", "landed", "mend", "nobody",
    "somebody", "stands", "stood", "tell", "teller", "tells", "told", "whoever",
];

/// Private words as parts of the names of types, modules and files.
const NAME_WORDS: &[&str] = &[
    "anew", "asked", "beat", "believe", "believed", "bury", "figure", "figures", "given", "gone", "hanging", "heard",
    "held", "here", "hung", "known", "landed", "letter", "life", "mail", "mend", "news", "nobody", "place", "places",
    "resting", "room", "said", "short", "shown", "somebody", "standing", "stands", "stood", "tell", "teller", "tells",
    "told", "whoever", "worth",
];

/// Words that no comment may begin with.
const SUBJECTS: &[&str] =
    &["who", "whose", "what", "how", "whether", "whoever", "whatever", "somebody", "nobody", "anybody"];

/// File name extensions of the sources of the page and of the clients.
const SCRIPTS: &[&str] = &["ts", "tsx", "mjs", "py"];

/// A comment block: the number of its first line, and its text.
struct Comment {
    line: usize,
    text: String,
}

/// Returns the doc comments of a Rust source, or the comments of a proto file, without code blocks.
fn comments(source: &str, markers: &[&str]) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let (mut open, mut fenced) = (None, false);
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let marker = markers.iter().find(|marker| line.starts_with(**marker) && !line.starts_with("////"));
        let Some(marker) = marker else {
            (open, fenced) = (None, false);
            continue;
        };
        if open != Some(*marker) {
            found.push(Comment { line: at + 1, text: String::new() });
            open = Some(*marker);
        }
        let text = line.trim_start_matches(marker).trim();
        let fence = text.starts_with("```");
        fenced ^= fence;
        if let Some(comment) = found.last_mut().filter(|_| !fence && !fenced) {
            comment.text += text;
            comment.text += "\n";
        }
    }
    found
}

/// Returns the doc comments of a TypeScript or Python source, without tags such as `@internal`.
fn script_comments(source: &str) -> Vec<Comment> {
    let block = Regex::new(r#"(?s)/\*\*(.+?)\*/|"""(.+?)""""#).expect("an expression");
    let found = block.captures_iter(source).map(|found| {
        let start = found.get(0).expect("a match").start();
        let body = found.get(1).or(found.get(2)).expect("one of both").as_str();
        let lines = body.trim().lines().map(|line| line.trim().trim_start_matches('*').trim());
        let text = lines.filter(|line| !line.starts_with('@')).collect::<Vec<_>>().join("\n");
        Comment { line: source[..start].matches('\n').count() + 1, text }
    });
    found.collect()
}

/// Returns the first paragraph of a comment in one line.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty() && !line.starts_with(['|', '#']));
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the text without quoted code, whose words are names.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn words() -> Vec<(Regex, &'static str)> {
    let compiled = WORDS.iter().map(|(word, instead)| {
        (Regex::new(&format!(r"(?i)\b(?:{word})\b")).expect("the table holds expressions"), *instead)
    });
    compiled.collect()
}

/// Returns the private words in a text, except "stands for", which is plain English.
fn private_words(words: &[(Regex, &'static str)], text: &str) -> Vec<String> {
    let text = without_code(text);
    let found = words.iter().flat_map(|(word, instead)| word.find_iter(&text).map(move |hit| (hit, *instead)));
    let found = found.filter(|(hit, _)| {
        let rest = text.get(hit.end()..).unwrap_or_default();
        !(hit.as_str().eq_ignore_ascii_case("stands") && (rest.starts_with(" for") || rest.starts_with(" in for")))
    });
    found.map(|(hit, instead)| format!("{:?} (write: {instead})", hit.as_str())).collect()
}

/// Returns the violation in the first sentence of a comment. None: the sentence is correct.
fn first_sentence(text: &str) -> Option<String> {
    let paragraph = first_paragraph(text);
    let first = paragraph.split_whitespace().next()?;
    let bare = first.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    if SUBJECTS.contains(&bare.as_str()) {
        return Some(format!("begins with {first:?}"));
    }
    let start = first.chars().next()?;
    let capital = start.is_uppercase() || start.is_numeric() || !start.is_alphabetic();
    let end = paragraph.trim_end_matches(['*', '_', '`', ')', '"']).chars().last()?;
    let ended = ['.', ':', '?', '!', '…'].contains(&end) || paragraph.ends_with('`') && paragraph.starts_with('`');
    (!capital || !ended).then(|| format!("first sentence is not complete: {paragraph:?}"))
}

/// Returns the violation in the name that a line of Rust declares.
fn private_declaration(line: &str) -> Option<String> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.starts_with("pub") || ["async", "const", "unsafe", "extern", "\"C\""].contains(word));
    let kind = words.next()?;
    let (name, private) = match kind {
        "fn" | "let" => (words.find(|word| *word != "mut")?, FUNCTION_WORDS),
        "struct" | "enum" | "trait" | "type" | "mod" | "union" | "static" => (words.next()?, NAME_WORDS),
        field if field.ends_with(':') => (field, FUNCTION_WORDS),
        variant if variant.starts_with(char::is_uppercase) => (variant, FUNCTION_WORDS),
        _ => return None,
    };
    private_name(name.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()?, private)
}

/// Returns the words of an identifier: `LateWrite` and `late_write` are "late" and "write".
pub(crate) fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || !letter.is_alphanumeric() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter.is_alphanumeric()) {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

fn private_name(name: &str, private: &[&str]) -> Option<String> {
    let part = parts(name).into_iter().find(|part| private.contains(&part.as_str()))?;
    Some(format!("the name {name} contains {part:?}"))
}

fn violations_of(file: &Path, text: &str, words: &[(Regex, &'static str)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |line: usize, what: String| found.push(format!("{}:{line}: {what}", file.display()));
    let extension = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let markers: &[&str] = match extension {
        "rs" => &["///", "//!"],
        "proto" => &["//"],
        _ => &[],
    };
    let stem = file.file_stem().filter(|_| !markers.is_empty()).map(|stem| stem.to_string_lossy());
    if let Some(what) = stem.and_then(|stem| private_name(&stem, NAME_WORDS)) {
        add(1, what);
    }
    let commented = if SCRIPTS.contains(&extension) { script_comments(text) } else { comments(text, markers) };
    for Comment { line, text } in commented {
        first_sentence(&text).into_iter().for_each(|what| add(line, what));
        private_words(words, &text).into_iter().for_each(|what| add(line, what));
    }
    if extension == "rs" {
        for (at, line) in text.lines().enumerate() {
            private_declaration(line).into_iter().for_each(|what| add(at + 1, what));
        }
    }
    if extension == "md" {
        let mut fenced = false;
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            if !fenced {
                private_words(words, line).into_iter().for_each(|what| add(at + 1, what));
            }
        }
    }
    found
}

fn violations() -> Vec<String> {
    let words = words();
    let own = files().into_iter().filter(|file| !file.starts_with("tests/tidy") && !file.starts_with("samples"));
    let is_checked = |end: &str| ["rs", "proto", "md"].contains(&end) || SCRIPTS.contains(&end);
    let texts = own.filter(|file| file.extension().and_then(|end| end.to_str()).is_some_and(is_checked));
    let of_file = |file: PathBuf| {
        let text = std::fs::read_to_string(root().join(&file)).expect("a file is readable");
        violations_of(&file, &text, &words)
    };
    texts.flat_map(of_file).collect()
}

#[test]
fn comments_names_and_documents_keep_to_the_writing_rules() {
    report("the writing rules are violated", &violations());
}

#[test]
fn the_language_check_finds_each_kind_of_violation() {
    let words = words();
    let rust = "/// Who calls.\nstruct Caller;\n\n/// lower case.\nfn a() {}\n\n/// No end\nfn b() {}\n\n/// Tells the store.\nfn c() {}\n\n\
                struct Told;\n\nenum Step {\n    Held(u8),\n}\n\n/// A permit. It stands for a slot, as `told` is code.\nfn good() {}\n";
    let found = violations_of(Path::new("crates/a/src/lib.rs"), rust, &words);
    assert_eq!(found.len(), 6, "{found:#?}");
    let proto = "// The name of a tag.\nstring name = 1;\n// Whoever made it.\nstring by = 2;\n";
    assert_eq!(violations_of(Path::new("proto/a.proto"), proto, &words).len(), 2);
    let page = "/** What it does. */\nconst a = 1;\n\n/**\n * Starts here\n */\n/** Is told. */\n/** @internal */\n/** Good. */\n";
    assert_eq!(violations_of(Path::new("web/src/a.tsx"), page, &words).len(), 3);
    let client = "def a():\n    \"\"\"Whoever calls.\"\"\"\n\ndef b():\n    \"\"\"Returns b.\"\"\"\n";
    assert_eq!(violations_of(Path::new("clients/a.py"), client, &words).len(), 2);
    assert_eq!(violations_of(Path::new("docs/a.md"), "A thread is gone.\n```\ngone\n```\n", &words).len(), 1);
}
