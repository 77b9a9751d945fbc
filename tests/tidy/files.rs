//! Small files with descriptive names.

use crate::{files, is_test, report, root, sources};

/// Maximum number of lines of a source file, including its tests. Files of tests only have no maximum.
const LINES_MAX: usize = 500;

#[test]
fn source_files_are_small() {
    let long = sources().into_iter().filter_map(|(file, text)| {
        let lines = text.lines().count();
        (lines > LINES_MAX && !is_test(&file)).then(|| format!("{}: {lines} lines", file.display()))
    });
    report("a source file is too long: split it", &long.collect::<Vec<_>>());
}

#[test]
fn no_file_has_a_vague_name() {
    let vague = files().into_iter().filter(|file| {
        file.components().any(|part| {
            let name = part.as_os_str().to_string_lossy().to_lowercase();
            let stem = name.split('.').next().unwrap_or_default().to_owned();
            ["common", "util", "utils", "helper", "helpers", "misc", "stuff"].contains(&stem.as_str())
        })
    });
    report("a vague name", &vague.map(|file| file.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn no_generated_or_secret_file_is_tracked() {
    let unwanted = files().into_iter().filter(|file| {
        let name = file.to_string_lossy();
        [".pem", ".key", ".token", ".orig", ".rej", ".swp", ".snap.new", ".log"].iter().any(|end| name.ends_with(end))
    });
    report(
        "a generated or secret file is tracked",
        &unwanted.map(|file| file.display().to_string()).collect::<Vec<_>>(),
    );
}

#[test]
fn no_file_contains_the_mark_of_a_conflict() {
    let marks = ["<".repeat(7), ">".repeat(7)].map(|mark| mark + " ");
    let contains = |text: &str| text.lines().any(|line| marks.iter().any(|mark| line.starts_with(mark)));
    assert!(contains(&format!("a\n{}main", marks[0])) && !contains("a << b"));
    let unmerged =
        files().into_iter().filter(|file| std::fs::read_to_string(root().join(file)).is_ok_and(|text| contains(&text)));
    report("a merge is not finished", &unmerged.map(|file| file.display().to_string()).collect::<Vec<_>>());
}
