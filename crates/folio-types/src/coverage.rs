//! The parts of a document that an extraction read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of pages in [`Coverage::incomplete_pages`].
// proto: ExtractionCoverage.incomplete_pages "at most {}"
pub const INCOMPLETE_PAGES_MAX: usize = 20;

/// Numbers that state how an extraction read its document. They contain no content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Number of pages of the document.
    pub pages: u32,
    /// Number of pages whose text was sent to the model. The other pages have no text, or their text is missing. If an agent read
    /// the document, all pages whose text is not missing count as read.
    pub pages_read: u32,
    /// Number of parts of the text that were extracted separately. 0: an agent read the document.
    pub windows: u32,
    /// Number of model calls, including those that an earlier attempt of the same request made.
    pub model_calls: u32,
    /// Number of values that differ from the merged data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflicts: u32,
    /// Number of values whose text was normalized.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub originals: u32,
    /// Number of values that the text of the document contains.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub located: u32,
    /// Number of values that the text of the document does not contain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inferred: u32,
    /// Number of pages whose text could not be read, such as images without OCR. `pages_read` does not count them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pages_missing: u32,
    /// Number of pages whose text was cut at a limit. `pages_read` counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pages_incomplete: u32,
    /// Pages whose text is missing or was cut, at most [`INCOMPLETE_PAGES_MAX`], in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete_pages: Vec<u32>,
    /// Number of located values for which the model stated a valid quote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cited: u32,
}

impl Coverage {
    /// Adds a page whose text is missing (`is_missing`) or was cut.
    pub fn add_incomplete(&mut self, page: u32, is_missing: bool) {
        let count = if is_missing { &mut self.pages_missing } else { &mut self.pages_incomplete };
        *count = count.saturating_add(1);
        if self.incomplete_pages.len() < INCOMPLETE_PAGES_MAX {
            self.incomplete_pages.push(page);
        }
    }

    /// Returns true if all text of the document was read. Pages without text count as read.
    pub fn is_complete(&self) -> bool {
        self.pages_missing == 0 && self.pages_incomplete == 0
    }
}

impl fmt::Display for Coverage {
    /// Formats one line for people: `12 of 14 pages in 2 windows, 3 model calls, 1 conflict, 17 of 18 values in the text, 12 of
    /// them quoted; 1 page has no text; 1 page could not be read, 1 page was cut (pages 3, 7)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, pages_read, windows, model_calls, conflicts, located, inferred, cited, .. } = *self;
        let (missing, incomplete) = (self.pages_missing, self.pages_incomplete);
        let (of_pages, in_windows) = (counted(pages, "page"), counted(windows, "window"));
        if windows == 0 {
            write!(f, "{of_pages}, read by an agent")?;
        } else {
            write!(f, "{pages_read} of {of_pages} in {in_windows}, {}", counted(model_calls, "model call"))?;
        }
        if conflicts > 0 {
            write!(f, ", {}", counted(conflicts, "conflict"))?;
        }
        if located > 0 || inferred > 0 {
            write!(f, ", {located} of {} in the text", counted(located.saturating_add(inferred), "value"))?;
        }
        if cited > 0 {
            write!(f, ", {cited} of them quoted")?;
        }
        match pages.saturating_sub(pages_read).saturating_sub(missing) {
            0 => {}
            1 => f.write_str("; 1 page has no text")?,
            blank => write!(f, "; {blank} pages have no text")?,
        }
        let missing_text = format!("{} could not be read", counted(missing, "page"));
        let cut_text = format!("{} {} cut", counted(incomplete, "page"), if incomplete == 1 { "was" } else { "were" });
        match (missing, incomplete) {
            (0, 0) => return Ok(()),
            (_, 0) => write!(f, "; {missing_text}")?,
            (0, _) => write!(f, "; {cut_text}")?,
            (_, _) => write!(f, "; {missing_text}, {cut_text}")?,
        }
        let listed: Vec<String> = self.incomplete_pages.iter().map(u32::to_string).collect();
        let has_more = u64::from(missing) + u64::from(incomplete) > listed.len() as u64;
        let noun = if listed.len() == 1 && !has_more { "page" } else { "pages" };
        write!(f, " ({noun} {}{})", listed.join(", "), if has_more { ", …" } else { "" })
    }
}

/// Returns a number with its noun, which has an "s" unless the number is 1.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_zero_are_not_stored() {
        let stored = |coverage: Coverage| serde_json::to_value(coverage).unwrap();
        let none = stored(Coverage { pages: 1, ..Coverage::default() });
        assert_eq!(none.as_object().unwrap().len(), 4, "{none}");
        let some =
            stored(Coverage { conflicts: 2, originals: 3, located: 4, inferred: 5, cited: 6, ..Coverage::default() });
        let counts = ["conflicts", "originals", "located", "inferred", "cited"].map(|name| some[name].as_u64());
        assert_eq!(counts, [Some(2), Some(3), Some(4), Some(5), Some(6)]);
    }

    #[test]
    fn coverage_is_one_line_that_states_what_was_left_out() {
        let whole = Coverage { pages: 1, pages_read: 1, windows: 1, model_calls: 1, ..Coverage::default() };
        assert!(whole.is_complete());
        assert_eq!(whole.to_string(), "1 of 1 page in 1 window, 1 model call");
        let part = Coverage {
            pages: 14,
            pages_read: 12,
            windows: 2,
            model_calls: 3,
            conflicts: 1,
            originals: 7,
            ..Coverage::default()
        };
        assert_eq!(part.to_string(), "12 of 14 pages in 2 windows, 3 model calls, 1 conflict; 2 pages have no text");
        assert!(part.is_complete(), "the other pages have no text");
        let cited = Coverage { located: 17, inferred: 1, ..part.clone() }.to_string();
        assert!(cited.ends_with(", 1 conflict, 17 of 18 values in the text; 2 pages have no text"), "{cited}");
        let quoted = Coverage { located: 17, inferred: 1, cited: 12, ..part.clone() }.to_string();
        assert!(quoted.ends_with(", 17 of 18 values in the text, 12 of them quoted; 2 pages have no text"), "{quoted}");
        let one = Coverage { pages: 13, ..part };
        assert!(one.to_string().ends_with("; 1 page has no text"), "{one}");
        let by_agent = Coverage { pages: 2, pages_read: 2, located: 3, inferred: 1, ..Coverage::default() };
        assert_eq!(by_agent.to_string(), "2 pages, read by an agent, 3 of 4 values in the text");
    }

    #[test]
    fn missing_and_cut_pages_are_counted_and_the_first_are_listed() {
        let with = |missing: &[u32], cut: &[u32]| {
            let mut coverage = Coverage { pages: 90, pages_read: 90, windows: 1, ..Coverage::default() };
            coverage.pages_read -= u32::try_from(missing.len()).unwrap();
            missing.iter().for_each(|page| coverage.add_incomplete(*page, true));
            cut.iter().for_each(|page| coverage.add_incomplete(*page, false));
            assert!(!coverage.is_complete());
            coverage
        };
        let end = |coverage: &Coverage| coverage.to_string().split_once(" model calls").unwrap().1.to_owned();
        assert_eq!(end(&with(&[7], &[])), "; 1 page could not be read (page 7)");
        assert_eq!(end(&with(&[], &[3, 4])), "; 2 pages were cut (pages 3, 4)");
        let mut both = with(&[2, 3], &[8]);
        assert_eq!(end(&both), "; 2 pages could not be read, 1 page was cut (pages 2, 3, 8)");
        both.pages_read -= 1;
        let line = end(&both);
        assert_eq!(line, "; 1 page has no text; 2 pages could not be read, 1 page was cut (pages 2, 3, 8)");
        let stored: Coverage = serde_json::from_value(serde_json::to_value(&both).unwrap()).unwrap();
        assert_eq!(stored, both);
        let many = with(&(1..=30).collect::<Vec<_>>(), &[40]);
        assert_eq!((many.pages_missing, many.pages_incomplete), (30, 1));
        assert_eq!(many.incomplete_pages.len(), INCOMPLETE_PAGES_MAX);
        assert!(end(&many).ends_with(", 19, 20, …)"), "{many}");
    }
}
