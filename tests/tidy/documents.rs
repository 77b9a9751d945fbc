//! Checks the form of the documents: the length of the architecture, the sections of decisions, and links.

use crate::{files, report, root};

/// Maximum number of lines of `ARCHITECTURE.md`.
const ARCHITECTURE_LINES_MAX: usize = 200;

#[test]
fn the_map_of_the_architecture_is_short() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is readable");
    let lines = text.lines().count();
    assert!(lines <= ARCHITECTURE_LINES_MAX, "ARCHITECTURE.md has {lines} lines: move reasons to docs/decisions");
}

#[test]
fn each_decision_has_context_decision_and_consequences() {
    let decisions = files().into_iter().filter(|file| file.starts_with("docs/decisions"));
    let decisions: Vec<_> = decisions.filter(|file| file.extension().is_some_and(|end| end == "md")).collect();
    assert!(decisions.len() > 20, "only {} decisions were found", decisions.len());
    let mut wrong = Vec::new();
    let mut numbers = std::collections::BTreeSet::new();
    for file in &decisions {
        let text = std::fs::read_to_string(root().join(file)).expect("a decision is readable");
        let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number =
            name.get(..5).filter(|number| number.ends_with('-')).and_then(|number| number[..4].parse::<u16>().ok());
        if !number.is_some_and(|number| numbers.insert(number)) {
            wrong.push(format!("{name}: begins with no number of its own: NNNN-title.md"));
        }
        if headings.len() != 4
            || !headings[0].starts_with("# ")
            || headings[1..] != ["## Context", "## Decision", "## Consequences"]
        {
            wrong.push(format!("{name}: a title, Context, Decision and Consequences, not {headings:?}"));
        }
    }
    report("a decision has another form", &wrong);
}

#[test]
fn links_between_documents_refer_to_existing_files() {
    let mut wrong = Vec::new();
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(root().join(&file)).expect("a document is readable");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let is_external = target.contains("://") || target.contains(' ') || target.is_empty();
            let folder = root().join(&file).parent().map(std::path::Path::to_owned).unwrap_or_default();
            if !is_external && !folder.join(target).exists() {
                wrong.push(format!("{}: {link}", file.display()));
            }
        }
    }
    report("a link refers to a missing file or section", &wrong);
}
