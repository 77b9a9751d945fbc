//! Tests of the plan: bounds, borders, overlap, and that no text is left out.

use std::collections::BTreeSet;

use super::*;

fn plan(pages: &[&str], max: u64) -> Plan {
    let mut planner = Planner::new(max);
    for (number, text) in (1..).zip(pages) {
        planner.add_page(number, text, None);
    }
    planner.finish()
}

/// Returns the text of a window without headings.
fn text(window: &Window, pages: &[&str]) -> String {
    window.parts.iter().map(|part| &pages[part.page as usize - 1][part.range.clone()]).collect()
}

/// Asserts that every byte with text is in a window, that windows are within the bound, and that each window contains
/// text that no earlier window contains.
fn assert_covers(pages: &[&str], max: u64) -> Plan {
    let plan = plan(pages, max);
    let mut covered = BTreeSet::new();
    for window in &plan.windows {
        let before = covered.len();
        for part in &window.parts {
            covered.extend(part.range.clone().map(|at| (part.page, at)));
        }
        assert!(covered.len() > before, "a window repeats earlier text only: {window:?}");
        assert!(window.tokens <= max || plan.windows.len() == 1, "{} of {max} tokens", window.tokens);
        let counted = count_tokens(&text(window, pages));
        assert!(counted <= max, "{counted} of {max} tokens");
    }
    for (number, page) in (1..).zip(pages).filter(|(_, page)| !page.trim().is_empty()) {
        let missing = (0..page.len()).find(|at| !covered.contains(&(number, *at)));
        assert_eq!(missing, None, "page {number}");
    }
    plan
}

#[test]
fn a_document_that_fits_has_one_window() {
    let plan = assert_covers(&["Invoice 7", " \n", "Total: 12"], 1_000);
    let pages: Vec<u32> = plan.windows[0].parts.iter().map(|part| part.page).collect();
    assert_eq!((plan.windows.len(), pages, plan.coverage.pages_read), (1, vec![1, 3], 2));
    assert_eq!(plan.windows[0].pages(), Some((1, 3)));
}

#[test]
fn a_document_without_text_has_one_empty_window() {
    let plan = plan(&["", "\n "], 1_000);
    assert_eq!((plan.windows, plan.coverage), (vec![Window::default()], Coverage::default()));
}

#[test]
fn the_page_of_a_structured_invoice_is_the_last_one() {
    let invoice = format!("{STRUCTURED_INVOICE_START}factur-x.xml.\n\nTotal: 12");
    let printed = format!("see: {invoice}");
    for (pages, expected) in [
        ([invoice.as_str(), invoice.as_str()], Some(2)),
        (["Invoice 7", invoice.as_str()], Some(2)),
        ([invoice.as_str(), "Invoice 7"], None),
        (["Invoice 7", printed.as_str()], None),
    ] {
        assert_eq!(plan(&pages, 1_000).structured_page, expected, "{pages:?}");
    }
}

#[test]
fn a_missing_page_is_not_read_and_a_cut_page_is() {
    let mut planner = Planner::new(1_000);
    let pages = [
        ("Invoice 7", None),
        ("[Not recognized]", Some(TextGap::Missing)),
        ("Total: 12 [… cut]", Some(TextGap::Cut)),
        ("", Some(TextGap::Missing)),
        (" ", None),
    ];
    for (number, (text, gap)) in (1..).zip(pages) {
        planner.add_page(number, text, gap);
    }
    let Plan { windows, coverage, .. } = planner.finish();
    let sent: Vec<u32> = windows[0].parts.iter().map(|part| part.page).collect();
    assert_eq!(sent, [1, 2, 3], "the model reads the note");
    let expected = Coverage {
        pages_read: 2,
        pages_missing: 2,
        pages_incomplete: 1,
        incomplete_pages: vec![2, 3, 4],
        ..Coverage::default()
    };
    assert_eq!(coverage, expected);
}

#[test]
fn windows_end_at_pages_and_repeat_the_page_before() {
    // 100 words of 2 tokens each are 20 pages per window of 4,000 tokens.
    let page = "alpha ".repeat(100);
    let pages = vec![page.as_str(); 50];
    let plan = assert_covers(&pages, 4_000);
    assert!(plan.windows.len() > 1);
    for pair in plan.windows.windows(2) {
        let (before, after) = (pair[0].pages().unwrap(), pair[1].pages().unwrap());
        assert!(after.0 <= before.1 && after.0 > before.0, "{before:?} {after:?}");
    }
    for part in plan.windows.iter().flat_map(|window| &window.parts) {
        assert_eq!(part.range, 0..page.len(), "a page is whole");
    }
}

#[test]
fn a_long_page_is_divided_at_sections_else_at_lines() {
    let section = format!("# Section\n{}", "one line of text\n".repeat(12));
    let page = section.repeat(60);
    let plan = assert_covers(&[&page], 2_000);
    assert!(plan.windows.len() > 1);
    for window in plan.windows.iter().skip(1) {
        let start = text(window, &[&page]);
        assert!(start.starts_with("# Section"), "{}", &start[..40]);
    }
    let lines = "one line of text without a section\n".repeat(400);
    for window in &assert_covers(&[&lines], 1_000).windows {
        assert!(text(window, &[&lines]).starts_with("one line"));
    }
}

#[test]
fn a_line_without_end_is_divided_in_any_script() {
    for unit in ["word ", "請求書", "1,2;3", "ä", "x", "請 1 ", "a1"] {
        let page = unit.repeat(4_000);
        let plan = assert_covers(&[&page, "end"], 600);
        assert!(plan.windows.len() > 2, "{unit}");
    }
}

#[test]
fn every_size_of_pages_and_windows_is_covered() {
    let texts: Vec<String> = (0..40).map(|number| format!("{number} Zeile für Zeile\n\n").repeat(number * 3)).collect();
    let pages: Vec<&str> = texts.iter().map(String::as_str).collect();
    for max in (256..4_000).step_by(111) {
        let plan = assert_covers(&pages, max);
        assert_eq!(plan.coverage.pages_read, 39);
    }
}

#[test]
fn the_overlap_is_at_most_an_eighth_of_a_window() {
    let page = "a line with several words\n".repeat(2_000);
    for pair in plan(&[&page], 2_000).windows.windows(2) {
        let (end, start) = (pair[0].parts[0].range.end, pair[1].parts[0].range.start);
        let shared = count_tokens(&page[start..end]);
        assert!(start < end && shared <= 250, "{shared}");
    }
}

#[test]
fn more_windows_than_the_setting_run_as_a_job() {
    let options = Options::default();
    assert_eq!([1, 8, 9, 64].map(|windows| runs_as_job(windows, &options)), [false, false, true, true]);
    let options = Options { request_windows_max: 64, ..options };
    assert!(!runs_as_job(64, &options) && runs_as_job(65, &options));
}
