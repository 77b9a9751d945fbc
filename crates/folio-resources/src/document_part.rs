//! Parts: documents that are made of another document, such as the attachments of a mail, the members of an archive and the
//! page ranges of a PDF. Names inside a file are hostile input.

use folio_types::{DocumentId, limits};
use serde::{Deserialize, Serialize};

use crate::term;

/// Characters that reverse or hide text, so that a name looks like another one.
const BIDIRECTIONAL: [char; 12] = [
    '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}',
    '\u{2068}', '\u{2069}', '\u{61c}',
];
/// Maximum length of the extension that the end of a name keeps, in characters.
// proto: none "internal; a part of a name"
const EXTENSION_CHARS: usize = 10;

/// The origin of a document that is a part of another document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPart {
    /// The mail, the archive or the split document. Its deletion keeps the part.
    pub parent: DocumentId,
    /// Number of the part in its parent, from 1.
    pub position: u32,
    /// Name of an attachment, or path of a member of an archive. Empty for a range of pages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The pages of the parent. None: the part is no range of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageRange>,
    /// Number of mails and archives around the part.
    #[serde(default)]
    pub depth: u32,
    /// Bounds of the parts that are made of the part itself.
    #[serde(default)]
    pub budget: PartBudget,
}

/// A range of pages, from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRange {
    pub first: u32,
    pub last: u32,
}

/// Bounds of the parts that are made of a document, with the parts of its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBudget {
    /// Number of parts.
    pub parts: u32,
    /// Size of all parts in bytes.
    pub bytes: u64,
}

impl PartBudget {
    /// The bounds of an uploaded document.
    pub const UPLOAD: Self = Self { parts: limits::PARTS_MAX, bytes: limits::PARTS_BYTES };

    /// Returns an equal share of the rest for each of the parts that are mails or archives.
    #[must_use]
    pub fn share(self, used: Self, containers: u32) -> Self {
        let shares = containers.max(1);
        Self {
            parts: self.parts.saturating_sub(used.parts) / shares,
            bytes: self.bytes.saturating_sub(used.bytes) / u64::from(shares),
        }
    }
}

/// A part of which no document was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPart {
    /// Number of the part in its parent, from 1. 0: the rest of the parent.
    pub position: u32,
    /// Name of the attachment, or path of the member.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// A reason for users.
    pub reason: String,
}

impl RefusedPart {
    /// Creates a record. The reason is cut to [`limits::REFUSED_PART_CHARS`].
    pub fn new(position: u32, path: String, reason: &str) -> Self {
        let reason = reason.chars().filter(|c| !c.is_control()).take(limits::REFUSED_PART_CHARS).collect();
        Self { position, path, reason }
    }
}

/// Returns the term that each part of a document has.
pub(crate) fn part_term(parent: &DocumentId) -> String {
    term("part_of", parent)
}

/// Returns the path of a part with `/` between its names, without control characters, relative names and characters that
/// reverse text, cut at its beginning to [`limits::PART_PATH_CHARS`].
pub fn part_path(path: &str) -> String {
    let names = path.split(['/', '\\']).map(clean).filter(|name| !matches!(name.as_str(), "" | "." | ".."));
    let path = names.collect::<Vec<_>>().join("/");
    let excess = path.chars().count().saturating_sub(limits::PART_PATH_CHARS);
    path.chars().skip(excess).collect()
}

fn clean(name: &str) -> String {
    let shown = name.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|c| !BIDIRECTIONAL.contains(c));
    shown.collect::<String>().trim().to_owned()
}

/// Returns the name of the document that is made of a part: the last name of its path, at most [`limits::NAME_CHARS`] with its
/// extension. `position` names a part without a path.
pub fn part_name(path: &str, position: u32) -> String {
    let name = path.rsplit('/').next().unwrap_or_default().trim();
    let chars = name.chars().count();
    if name.is_empty() {
        return format!("part {position}");
    }
    if chars <= limits::NAME_CHARS {
        return name.to_owned();
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension).unwrap_or_default();
    let extension = match extension.chars().count() {
        1..=EXTENSION_CHARS => format!(".{extension}"),
        _ => String::new(),
    };
    let start: String = name.chars().take(limits::NAME_CHARS - extension.chars().count()).collect();
    // A cut name must not end with a blank.
    format!("{}{}", start.trim_end(), extension.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::check_name;

    #[test]
    fn paths_of_parts_are_relative_and_have_no_hidden_characters() {
        for (path, clean, name) in [
            ("a.pdf", "a.pdf", "a.pdf"),
            ("../../etc/passwd", "etc/passwd", "passwd"),
            ("/abs/./b.pdf", "abs/b.pdf", "b.pdf"),
            (r"C:\in\c.pdf", "C:/in/c.pdf", "c.pdf"),
            ("x\u{202e}fdp.exe\r\n", "xfdp.exe", "xfdp.exe"),
            ("a\0b.txt", "a b.txt", "a b.txt"),
            ("..", "", "part 7"),
            ("", "", "part 7"),
        ] {
            assert_eq!(part_path(path), clean, "{path:?}");
            assert_eq!(part_name(&part_path(path), 7), name, "{path:?}");
        }
        let long = format!("{}.pdf", "ä".repeat(300));
        let name = part_name(&long, 1);
        assert!(name.ends_with(".pdf") && name.chars().count() == limits::NAME_CHARS, "{name}");
        assert_eq!(part_path(&"x/".repeat(1_000)).chars().count(), limits::PART_PATH_CHARS);
    }

    #[test]
    fn invariant_10_the_shares_of_containers_are_at_most_the_rest() {
        let all = PartBudget { parts: 10, bytes: 1_000 };
        assert_eq!(all.share(PartBudget { parts: 4, bytes: 100 }, 4), PartBudget { parts: 1, bytes: 225 });
        assert_eq!(all.share(PartBudget { parts: 11, bytes: 2_000 }, 1), PartBudget::default());
        assert_eq!(all.share(PartBudget::default(), 0), all);
    }

    proptest! {
        #[test]
        fn every_path_gives_a_valid_name(path in ".{0,600}", position in 1_u32..1_000) {
            let cleaned = part_path(&path);
            prop_assert!(check_name("name", &part_name(&cleaned, position)).is_ok(), "{cleaned:?}");
        }
    }
}
