//! Numbers of headings: `2.1 Scope`, `Chapter 3`, `§ 4`.

/// Maximum number of parts of a number.
const PARTS_MAX: usize = 6;
/// Maximum value of a part. Larger numbers are years and amounts.
const PART_MAX: u32 = 199;
/// Maximum length of a numbered heading in characters.
const CHARS_MAX: usize = 120;
/// Words before the number of a heading.
const NAMES: [&str; 9] = ["chapter", "section", "article", "part", "clause", "kapitel", "abschnitt", "artikel", "§"];

/// Returns the number of a line that may be a heading. None: the line has no number, or is no heading.
pub(super) fn number_of(line: &str) -> Option<Vec<u32>> {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let is_named = NAMES.contains(&first.to_lowercase().as_str());
    let (number, title) = match is_named {
        true => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        false => (first, rest),
    };
    let parts = parse(number)?;
    let title = title.trim();
    let is_title = match title.chars().next() {
        None => is_named,
        Some(first) => (first.is_alphabetic() && !first.is_lowercase()) || (is_named && !first.is_alphanumeric()),
    };
    let ends_like_text = title.ends_with(['.', ';', ',', ':']);
    (is_title && !ends_like_text && !is_entry_of_contents(title) && line.chars().count() <= CHARS_MAX).then_some(parts)
}

fn parse(number: &str) -> Option<Vec<u32>> {
    let number = number.trim_end_matches([':', ')', '.', '–', '-']);
    let parts: Option<Vec<u32>> = number
        .split('.')
        .map(|part| part.parse().ok().filter(|value: &u32| *value <= PART_MAX && value.to_string() == part))
        .collect();
    parts.filter(|parts| parts.len() <= PARTS_MAX)
}

/// Returns true if a line is an entry of a table of contents: a title, a gap or dots, and the number of a page.
pub(super) fn is_entry_of_contents(line: &str) -> bool {
    let title = line.trim_end_matches(|c: char| c.is_ascii_digit());
    title.len() < line.len()
        && (title.ends_with("  ")
            || title.ends_with('\t')
            || title.trim_end().ends_with(". .")
            || title.trim_end().ends_with("..")
            || title.trim_end().ends_with('…'))
}

/// Returns true if a heading with the number `next` may follow one with the number `last`.
fn follows(last: &[u32], next: &[u32]) -> bool {
    let Some((value, prefix)) = next.split_last() else { return false };
    match last.get(prefix.len()) {
        // A lower level begins.
        None => prefix == last && *value == 1,
        Some(before) => last.get(..prefix.len()) == Some(prefix) && before.checked_add(1) == Some(*value),
    }
}

/// Returns the positions of the headings among lines with numbers: the sequence of numbers that spans the most lines. `numbered`:
/// the positions of the lines, with their numbers.
pub(super) fn sequence(numbered: &[(usize, Vec<u32>)]) -> Vec<usize> {
    // A sequence starts at each number 1. It continues with the next line that may follow. Only the sequence that started last
    // continues, so that the time is proportional to the number of lines.
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    let mut last: &[u32] = &[];
    for (line, number) in numbered {
        let is_first = sequences.is_empty();
        match sequences.last_mut() {
            Some(sequence) if follows(last, number) => {
                sequence.push(*line);
                last = number;
            }
            _ if number == &[1] || (is_first && number == &[0]) || (number == &[1, 1] && last != [1]) => {
                sequences.push(vec![*line]);
                last = number;
            }
            _ => {}
        }
    }
    let span = |sequence: &Vec<usize>| match sequence.as_slice() {
        [first, .., last] => last - first,
        _ => 0,
    };
    let longest = sequences.into_iter().max_by_key(span).unwrap_or_default();
    // Items of a list follow each other without text between them.
    if longest.len() >= 2 && span(&longest) >= 2 * (longest.len() - 1) { longest } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_headings_are_recognized() {
        for (line, expected) in [
            ("1 Scope", vec![1]),
            ("2.1. Terms and definitions", vec![2, 1]),
            ("Chapter 3", vec![3]),
            ("Section 4: Fees", vec![4]),
            ("§ 5 Haftung", vec![5]),
        ] {
            assert_eq!(number_of(line), Some(expected), "{line}");
        }
        for line in [
            "Scope",
            "1",
            "2024 Results",
            "3 items were sold.",
            "1 Scope . . . . . 7",
            "2 Terms........ 12",
            "3 Fees   14",
            "01 Scope",
            "1.2.3.4.5.6.7 Deep",
            "12, Main Street",
        ] {
            assert_eq!(number_of(line), None, "{line}");
        }
    }

    #[test]
    fn the_sequence_with_the_most_text_is_that_of_the_headings() {
        let numbered = |lines: &[(usize, &[u32])]| -> Vec<(usize, Vec<u32>)> {
            lines.iter().map(|(line, number)| (*line, number.to_vec())).collect()
        };
        // A list, then headings, with an amount between them.
        let lines = numbered(&[
            (1, &[1]),
            (2, &[2]),
            (3, &[3]),
            (10, &[1]),
            (15, &[1, 1]),
            (17, &[9, 9]),
            (20, &[1, 2]),
            (40, &[2]),
        ]);
        assert_eq!(sequence(&lines), [10, 15, 20, 40]);
        let list = numbered(&[(1, &[1]), (2, &[2]), (3, &[3])]);
        assert_eq!(sequence(&list), [0; 0]);
        assert_eq!(sequence(&[]), [0; 0]);
    }
}
