//! Words that do not belong in a source.

use crate::{is_test, report, sources};

/// Every line of code (comments left out) that holds the word, but for this folder's own.
fn lines_with(word: &str, only_tests: Option<bool>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in sources() {
        if file.starts_with("tests/tidy") || only_tests.is_some_and(|tests| tests != is_test(&file)) {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            if line.contains(word) && !line.trim_start().starts_with("//") {
                found.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn nothing_is_left_unfinished() {
    for word in ["todo!(", "unimplemented!(", "dbg!(", "FIXME"] {
        report(word, &lines_with(word, None));
    }
}

#[test]
fn tests_wait_on_conditions_and_never_sleep() {
    for word in ["thread::sleep(", "time::sleep("] {
        let lines = lines_with(word, Some(true));
        let waits = ["crates/folio-testkit/src/", "tests/bench/"];
        let lines: Vec<_> =
            lines.into_iter().filter(|line| !waits.iter().any(|place| line.starts_with(place))).collect();
        report(word, &lines);
    }
}

#[test]
fn no_test_is_ignored() {
    report("#[ignore", &lines_with("#[ignore", None));
}

#[test]
fn a_silenced_lint_says_why() {
    let mut found = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| !file.starts_with("tests/tidy")) {
        for (at, _) in text.match_indices("[allow(") {
            let attribute = text[at..].split(")]").next().unwrap_or_default();
            if !attribute.contains("reason") {
                found.push(format!("{}:{}", file.display(), text[..at].lines().count()));
            }
        }
    }
    report("a silenced lint without a reason", &found);
}

#[test]
fn no_task_is_spawned_without_an_owner() {
    // `tokio::spawn` is allowed where its handle is kept, or where the line before it names the owner.
    let mut found = Vec::new();
    for (file, text) in sources() {
        if is_test(&file) || file.starts_with("tests") {
            continue;
        }
        let lines: Vec<_> = text.lines().collect();
        let tests_from = lines.iter().position(|line| line.contains("#[cfg(test)]")).unwrap_or(lines.len());
        for (at, line) in lines.iter().enumerate().take(tests_from) {
            let explained = at > 0 && lines[at - 1].trim_start().starts_with("//");
            let kept = line.trim_start().starts_with("let ") || line.contains("//");
            if line.contains("tokio::spawn(") && !kept && !explained {
                found.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    report("a spawned task whose owner is not named in the line before", &found);
}
