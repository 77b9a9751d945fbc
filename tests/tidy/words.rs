//! Rules that a search for a word in the sources checks.

use crate::{is_test, report, sources};

/// Returns every line of code that contains the word, without comment lines and without the sources in `tests/tidy`.
fn lines_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in sources() {
        if file.starts_with("tests/tidy") {
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
        report(word, &lines_with(word));
    }
}

#[test]
fn tests_wait_on_conditions_and_never_sleep() {
    // A test may depend on real time (the duration of a fault, a slow peer). The line before the sleep must explain it.
    let mut found = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| is_test(file)) {
        if ["tests/tidy", "tests/bench", "crates/folio-testkit"].iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let explained = at > 0 && lines[at - 1].trim_start().starts_with("//");
            if line.contains("::sleep(") && !explained {
                found.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    report("a test sleeps", &found);
}

#[test]
fn no_test_is_ignored() {
    report("#[ignore", &lines_with("#[ignore"));
}

#[test]
fn a_silenced_lint_has_a_reason() {
    let mut found = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| !file.starts_with("tests/tidy")) {
        let attributes = ["[allow(", "[expect("].into_iter().flat_map(|start| text.match_indices(start));
        for (at, _) in attributes {
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
    // `tokio::spawn` is allowed if its handle is kept or a comment names the owner of the task.
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
