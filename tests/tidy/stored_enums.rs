//! The values of stored enums are those of a checked-in list, and `docs/operations.md` names each value that the oldest
//! compatible version cannot read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;

use crate::{is_test, report, root, sources};

/// Crates whose types are stored in CQL, in the embedded store or in Redis.
const CRATES: [&str; 7] = [
    "folio-credit",
    "folio-history",
    "folio-passages",
    "folio-resources",
    "folio-storage",
    "folio-types",
    "folio-webhooks",
];

/// Enums of these crates that only requests contain.
const NOT_STORED: [&str; 1] = ["Order"];

/// Sections of the list.
const OLDEST: &str = "oldest";
const ADDED: &str = "added";
const LATER: &str = "later";

/// Enums with the stored names of their values.
type Enums = BTreeMap<String, BTreeSet<String>>;

fn list() -> toml::Table {
    let text = std::fs::read_to_string(root().join("tests/tidy/stored_enums.toml")).expect("the list is readable");
    text.parse().expect("the list is TOML")
}

/// Returns a section of the list.
fn section(list: &toml::Table, name: &str) -> Enums {
    let enums = list[name].as_table().expect("a section is a table");
    let value = |value: &toml::Value| value.as_str().expect("a value is a text").to_owned();
    let values = |of: &toml::Value| -> BTreeSet<String> {
        of.as_array().expect("an enum has an array").iter().map(value).collect()
    };
    enums.iter().map(|(name, of)| (name.clone(), values(of))).collect()
}

/// Returns the enums that a source can decode: those that derive `Deserialize`, and those of `named_enum!`. A value with
/// `#[serde(skip)]` is not stored.
fn enums(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let declaration = Regex::new(r"^( *)(?:pub(?:\([a-z]+\))? )?enum (\w+)").expect("an expression");
    let value = Regex::new(r#"^([A-Z]\w*)(?: = "([^"]+)")?"#).expect("an expression");
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(declared) = declaration.captures(line) else { continue };
        let start = lines[..at].iter().rposition(|line| !is_annotation(line)).map_or(0, |before| before + 1);
        let annotations = &lines[start..at];
        let is_named = start > 0 && lines[start - 1].trim_end().ends_with("named_enum! {");
        if !is_named && !annotations.iter().any(|line| line.contains("Deserialize")) {
            continue;
        }
        let is_snake_case = annotations.iter().any(|line| line.contains(r#"rename_all = "snake_case""#));
        let (end, indentation) = (format!("{}}}", &declared[1]), format!("{}    ", &declared[1]));
        let (mut values, mut is_skipped) = (BTreeSet::new(), false);
        for line in lines[at + 1..].iter().take_while(|line| **line != end) {
            let Some(inner) = line.strip_prefix(&indentation) else { continue };
            if let Some(parts) = value.captures(inner) {
                let name = match parts.get(2) {
                    Some(name) => name.as_str().to_owned(),
                    None if is_snake_case => snake_case(&parts[1]),
                    None => parts[1].to_owned(),
                };
                if !is_skipped {
                    values.insert(name);
                }
                is_skipped = false;
            } else if inner == "#[serde(skip)]" {
                is_skipped = true;
            }
        }
        found.push((declared[2].to_owned(), values));
    }
    found
}

/// Returns true for a line with a comment or an attribute.
fn is_annotation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("#[")
}

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Returns the stored enums of the sources.
fn stored_enums() -> Enums {
    let is_stored = |file: &Path| {
        let folders = CRATES.map(|name| format!("crates/{name}/src"));
        folders.iter().any(|folder| file.starts_with(folder)) && !is_test(file)
    };
    let mut found = Enums::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| is_stored(file)) {
        for (name, values) in enums(&text).into_iter().filter(|(name, _)| !NOT_STORED.contains(&name.as_str())) {
            let earlier = found.insert(name.clone(), values);
            assert!(earlier.is_none(), "{}: another stored enum has the name {name}", file.display());
        }
    }
    found
}

#[test]
fn the_stored_enums_have_the_values_of_the_list() {
    let list = list();
    let mut listed = section(&list, OLDEST);
    let mut wrong = Vec::new();
    for (name, values) in section(&list, ADDED) {
        match listed.get_mut(&name) {
            Some(oldest) => oldest.extend(values),
            None => wrong.push(format!("{name}: [{ADDED}] extends an enum that is not in [{OLDEST}]")),
        }
    }
    for (name, values) in section(&list, LATER) {
        if listed.insert(name.clone(), values).is_some() {
            wrong.push(format!("{name}: the enum is in [{OLDEST}] and in [{LATER}]"));
        }
    }
    let found = stored_enums();
    let names: BTreeSet<&String> = listed.keys().chain(found.keys()).collect();
    let none = BTreeSet::new();
    for name in names {
        let (listed, found) = (listed.get(name).unwrap_or(&none), found.get(name).unwrap_or(&none));
        wrong.extend(found.difference(listed).map(|value| format!("{name}: the list lacks {value:?}")));
        wrong.extend(listed.difference(found).map(|value| format!("{name}: the sources lack {value:?}")));
    }
    report("stored enums differ from tests/tidy/stored_enums.toml: follow its first lines", &wrong);
}

#[test]
fn the_operators_document_names_each_value_that_the_oldest_version_cannot_read() {
    let text = std::fs::read_to_string(root().join("docs/operations.md")).expect("docs/operations.md is readable");
    let upgrade = text.split("\n## ").find(|section| section.starts_with("Upgrade\n")).expect("a section Upgrade");
    let mut missing = Vec::new();
    for (name, values) in section(&list(), ADDED) {
        let unnamed = values.into_iter().filter(|value| !upgrade.contains(&format!("`{value}`")));
        missing.extend(unnamed.map(|value| format!("{name}: `{value}`")));
    }
    report("docs/operations.md, \"Upgrade\", does not name a value that the oldest version cannot read", &missing);
}

#[test]
fn the_list_belongs_to_the_oldest_compatible_version() {
    let upgrade =
        std::fs::read_to_string(root().join("xtask/src/upgrade.rs")).expect("xtask/src/upgrade.rs is readable");
    let list = list();
    let commit = list["commit"].as_str().expect("a commit");
    let declared = format!("const OLDEST_COMMIT: &str = \"{commit}\";");
    assert!(
        upgrade.contains(&declared),
        "OLDEST_COMMIT is not {commit}: update [{OLDEST}] in tests/tidy/stored_enums.toml"
    );
}

#[test]
fn the_values_of_an_enum_are_read_from_its_source() {
    let text = r#"
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase<T> {
    /// Text with { and }.
    NotRun,
    #[serde(skip)]
    Derived,
    Failed { Reason: T },
}

pub enum Internal {
    One,
}

#[derive(Deserialize)]
enum Plain {
    AsDeclared(u8),
}

mod inner {
    named_enum! {
        /// A comment.
        pub enum Named {
            Two = "TWO",
        }
    }
}
"#;
    let expected: [(&str, &[&str]); 3] =
        [("Phase", &["failed", "not_run"]), ("Plain", &["AsDeclared"]), ("Named", &["TWO"])];
    let expected = expected.map(|(name, values)| {
        (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<BTreeSet<_>>())
    });
    assert_eq!(enums(text), expected);
}
