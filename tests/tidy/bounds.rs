//! The bounds that the proto comments state are those of the code.
//!
//! A comment `// proto: ELEMENT "PHRASE"` above a constant names the proto comment that states its value. A phrase with
//! a bound that no constant declares fails the test, and so does a constant with another value. The element may be
//! docs/api.md. A bound of an operation or a resource that clients do not see has the element `none` and the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;

use crate::{files, report, root, sources};

const CONVENTIONS: &str = "docs/api.md";

/// A phrase that the comment of a proto element states.
struct Bound {
    /// `Message.field`, `Service.Rpc` or the name of a message; `*` for any message. Or a document, or `none`.
    element: String,
    /// The phrase with `{}` for the value.
    phrase: String,
    /// The source file, and the name of its constant or field with a default.
    constant: (String, String),
}

/// Returns the bounds that the sources declare: comments of the form `// proto: ELEMENT "PHRASE"` above a constant, or
/// above a field.
fn bounds() -> Vec<Bound> {
    let comment = Regex::new(r#"^\s*// proto: (\S+) "(.+)"$"#).expect("an expression");
    let name = Regex::new(r"\b([A-Za-z_]\w*):").expect("an expression");
    let mut found = Vec::new();
    for (file, text) in sources() {
        let mut waiting = Vec::new();
        for line in text.lines() {
            if let Some(parts) = comment.captures(line) {
                waiting.push((parts[1].to_owned(), parts[2].to_owned()));
            } else if !waiting.is_empty() {
                let name = name.captures(line).unwrap_or_else(|| panic!("{line:?} has a bound and no name"));
                let constant = (file.display().to_string(), name[1].to_owned());
                found.extend(waiting.drain(..).map(|(element, phrase)| Bound {
                    element,
                    phrase,
                    constant: constant.clone(),
                }));
            }
        }
    }
    found
}

/// Returns the document with the conventions of the API, and the elements of the proto files with their comments, each
/// in one line and without quoted code.
fn comments() -> BTreeMap<String, String> {
    let conventions = std::fs::read_to_string(root().join(CONVENTIONS)).expect("a document").replace('\n', " ");
    let mut found = BTreeMap::from([(CONVENTIONS.to_owned(), conventions)]);
    for file in files().into_iter().filter(|file| file.starts_with("proto/folio/v1")) {
        let text = std::fs::read_to_string(root().join(&file)).expect("a proto file is readable");
        let (mut block, mut comment) = (String::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("//") {
                comment = format!("{comment} {}", words.trim());
                continue;
            }
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let is_block = ["message", "enum", "service"].contains(&words[0]);
            if is_block {
                words[1].clone_into(&mut block);
            }
            let name = match line.split_once('=') {
                _ if is_block => block.clone(),
                _ if words[0] == "rpc" => format!("{block}.{}", words[1]),
                Some((declared, _)) => format!("{block}.{}", declared.split_whitespace().last().unwrap_or_default()),
                None => format!("{block}.{}", words.get(1).copied().unwrap_or_default()),
            };
            if !comment.is_empty() {
                let plain: String = comment.trim().split('`').step_by(2).collect::<Vec<_>>().join("`");
                found.insert(name, plain);
                comment.clear();
            }
        }
    }
    found
}

/// Returns the value of a constant, in bytes or seconds if it is a size or a duration. Evaluates literals, products,
/// quotients and other constants of the file.
fn value(file: &str, name: &str) -> Result<u64, String> {
    let path: &Path = file.as_ref();
    let text = std::fs::read_to_string(root().join(path)).map_err(|error| format!("{file}: {error}"))?;
    let declaration = Regex::new(&format!(r"(?s)const {name}: [^=]+ = ([^;]+);|\b{name}: (?:\w+ = )?(\d[\d_]*|u8),"))
        .expect("an expression");
    let declared = declaration.captures(&text).ok_or_else(|| format!("{file} has no constant {name}"))?;
    let declared = declared.get(1).or(declared.get(2)).expect("one of both").as_str();
    if declared == "u8" {
        return Ok(u8::MAX.into());
    }
    let expression = declared.replace("Duration::from_secs(", "").replace([')', '_'], "");
    let parts = expression.split_inclusive(['*', '/']);
    let names = Regex::new(r"[A-Z][A-Z_]+").expect("an expression");
    let (mut result, mut divides) = (1, false);
    for part in parts {
        let operand = part.trim_end_matches(['*', '/']).trim();
        let number = match operand.parse::<u64>() {
            Ok(number) => number,
            Err(_) => {
                let other =
                    names.find_iter(declared).map(|name| name.as_str()).find(|name| name.replace('_', "") == operand);
                value(file, other.ok_or_else(|| format!("{file}: {name} is {expression}"))?)?
            }
        };
        result = if divides { result / number } else { result * number };
        divides = part.ends_with('/');
    }
    Ok(result)
}

/// Formats a number like the proto comments.
fn written(number: u64) -> String {
    match number {
        1_000_000_000_000_000 => return "10^15".to_owned(),
        _ if number.to_string().len() < 4 => return number.to_string(),
        _ => {}
    }
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// Returns a phrase with the value of its constant, in the unit that follows the placeholder.
fn phrase(template: &str, value: u64) -> String {
    let unit = template.split("{}").nth(1).unwrap_or_default().trim_start();
    let divisor = match unit {
        unit if unit.starts_with("KiB") => 1 << 10,
        unit if unit.starts_with("MiB") => 1 << 20,
        unit if unit.starts_with("hours") || unit == "h" || unit.starts_with("h ") => 3_600,
        unit if unit.starts_with("days") => 24 * 3_600,
        _ => 1,
    };
    template.replace("{}", &written(value / divisor))
}

#[test]
fn the_proto_comments_state_the_bounds_of_the_code() {
    let bound = Regex::new(concat!(
        r"(?i)\b(at most|up to|more than|less than|at least|about|below|exact up to|default:|0:|after|for|maximum is) \d",
        r"|\d[\d,]* to \d|\d[\d,^]* (KiB|MiB|characters|entries|days|hours|h|s)\b",
    ))
    .expect("an expression");
    let bounds: Vec<_> = bounds().into_iter().filter(|bound| bound.element != "none").collect();
    let (mut wrong, mut used) = (Vec::new(), vec![false; bounds.len()]);
    for (element, comment) in comments() {
        let wildcard = element.split_once('.').map(|(_, field)| format!("*.{field}"));
        let mut rest = comment.clone();
        let of_element = |name: &str| name == element || wildcard.as_deref() == Some(name);
        // A bound of this element precedes the bounds of any message, so that its phrase is matched first.
        let mut rows: Vec<_> = bounds.iter().enumerate().filter(|(_, bound)| of_element(&bound.element)).collect();
        rows.sort_by_key(|(_, bound)| bound.element.starts_with('*'));
        for (at, Bound { element: name, phrase: template, constant: (file, constant) }) in rows {
            let expected = match value(file, constant) {
                Ok(value) => phrase(template, value),
                Err(problem) => {
                    wrong.push(format!("{element}: {problem}"));
                    continue;
                }
            };
            if rest.contains(&expected) {
                rest = rest.replace(&expected, "");
                used[at] = true;
            } else if !name.starts_with('*') {
                wrong.push(format!("{element} does not state {expected:?} ({constant}): {comment}"));
            }
        }
        if let Some(unknown) = bound.find(&rest).filter(|_| element != CONVENTIONS) {
            wrong.push(format!("{element} states {:?}, which no constant declares: {comment}", unknown.as_str()));
        }
    }
    for (Bound { element, phrase, .. }, used) in bounds.iter().zip(used) {
        if !used {
            wrong.push(format!("{element}: no comment states {phrase:?}"));
        }
    }
    report("bounds in proto comments differ from the code", &wrong);
}

#[test]
fn each_bound_of_an_operation_or_resource_is_declared() {
    // The audit log shortens its entries; their bounds are no bounds of requests.
    let is_bounding = |file: &Path| {
        let folders = ["crates/folio-operations/src", "crates/folio-resources/src"];
        folders.iter().any(|folder| file.starts_with(folder)) && !file.starts_with("crates/folio-resources/src/audit")
    };
    let constant = Regex::new(r"const (\w+_(?:MAX|BYTES|CHARS)):").expect("an expression");
    let mut missing = BTreeSet::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| is_bounding(file)) {
        missing.extend(constant.captures_iter(&text).map(|found| (file.display().to_string(), found[1].to_owned())));
    }
    bounds().iter().for_each(|bound| _ = missing.remove(&bound.constant));
    assert!(missing.is_empty(), "bounds without a comment `// proto:`: {missing:#?}");
}
