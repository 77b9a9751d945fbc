//! The parts of a document that an extraction read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers that state how an extraction read its document. They contain no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Number of pages of the document.
    pub pages: u32,
    /// Number of pages whose text was sent to the model. The other pages have no text.
    pub pages_read: u32,
    /// Number of parts of the text that were extracted separately.
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
}

impl Coverage {
    /// Returns true if the text of every page was read.
    pub fn is_complete(&self) -> bool {
        self.pages_read == self.pages
    }
}

impl fmt::Display for Coverage {
    /// Formats one line for people: `12 of 14 pages in 2 windows, 3 model calls, 1 conflict, 17 of 18 values in the text; 2 pages
    /// have no text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, pages_read, windows, model_calls, conflicts, located, inferred, .. } = *self;
        write!(
            f,
            "{pages_read} of {} in {}, {}",
            counted(pages, "page"),
            counted(windows, "window"),
            counted(model_calls, "model call")
        )?;
        if conflicts > 0 {
            write!(f, ", {}", counted(conflicts, "conflict"))?;
        }
        if located > 0 || inferred > 0 {
            write!(f, ", {located} of {} in the text", counted(located.saturating_add(inferred), "value"))?;
        }
        match pages.saturating_sub(pages_read) {
            0 => Ok(()),
            1 => f.write_str("; 1 page has no text"),
            missing => write!(f, "; {missing} pages have no text"),
        }
    }
}

fn counted(count: u32, noun: &str) -> String {
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
        let some = stored(Coverage { conflicts: 2, originals: 3, located: 4, inferred: 5, ..Coverage::default() });
        let counts = ["conflicts", "originals", "located", "inferred"].map(|name| some[name].as_u64());
        assert_eq!(counts, [Some(2), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn coverage_is_one_line_that_states_what_was_left_out() {
        let whole = Coverage { pages: 1, pages_read: 1, windows: 1, model_calls: 1, ..Coverage::default() };
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
        assert!(whole.is_complete() && !part.is_complete());
        let cited = Coverage { located: 17, inferred: 1, ..part }.to_string();
        assert!(cited.ends_with(", 1 conflict, 17 of 18 values in the text; 2 pages have no text"), "{cited}");
        let one = Coverage { pages: 13, ..part };
        assert!(one.to_string().ends_with("; 1 page has no text"), "{one}");
    }
}
