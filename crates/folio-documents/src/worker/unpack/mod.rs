//! Attachments of mails and members of archives with their bytes, in the child process.
//!
//! Each entry becomes [`Line::Part`] and its bytes, or [`Line::RefusedPart`] with a reason. A refused entry does not affect
//! the others. The bounds hold for every format: number of entries and of parts, size of a part and of all parts, and
//! the ratio of decompression.

mod archive;
mod eml;
mod msg;

use std::fmt::Display;
use std::io::{self, Read, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use super::{Line, Output};
use crate::sniff::{EML, GZIP, MSG, TAR, ZIP};

/// Maximum number of entries of a file that are read, including refused ones.
pub(crate) const ENTRIES_MAX: usize = 10_000;
/// Maximum length of a path in the output, in characters. The parent shortens it further.
const PATH_CHARS: usize = 2_000;
/// Maximum length of a reason in the output, in characters.
const REASON_CHARS: usize = 200;
/// Maximum ratio of the size of an entry to its compressed size.
const RATIO_MAX: u64 = 200;
/// Size up to which an entry may have any ratio, in bytes.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;
/// Files that operating systems add to folders and archives. They become no documents and are not reported.
const SYSTEM_FILES: [&str; 3] = [".DS_Store", "Thumbs.db", "desktop.ini"];
/// Folder that macOS adds to archives.
const SYSTEM_FOLDER: &str = "__MACOSX/";

/// Bounds of the parts of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnpackLimits {
    /// Maximum number of parts.
    pub(crate) parts: u32,
    /// Maximum size of all parts in bytes.
    pub(crate) bytes: u64,
    /// Maximum size of a part in bytes.
    pub(crate) part_bytes: u64,
}

/// The reason for which no further entry is read.
enum Stop {
    /// The rest of the file cannot be read, or exceeds a bound.
    Refused(String),
    /// The output failed.
    Output(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn damaged(error: impl Display) -> Stop {
    Stop::Refused(format!("the file is damaged: {error}"))
}

/// Writes the parts of a mail or an archive.
pub(super) fn run(input: Vec<u8>, media_type: &str, limits: UnpackLimits, output: &mut Output) -> io::Result<()> {
    let mut parts = Parts { output: &mut *output, limits, entries: 0, count: 0, bytes: 0 };
    // A malformed file may panic the libraries. They run between the writes of parts.
    let ended = catch_unwind(AssertUnwindSafe(|| match media_type {
        EML => eml::read(&input, &mut parts),
        MSG => msg::read(input, &mut parts),
        ZIP => archive::zip(&input, &mut parts),
        TAR => archive::tar(input.as_slice(), &mut parts),
        GZIP => archive::tar_gz(&input, &mut parts),
        other => Err(Stop::Refused(format!("{other} files have no parts"))),
    }));
    match ended.unwrap_or_else(|_| Err(damaged("the reader of the format failed"))) {
        Ok(()) => {}
        Err(Stop::Refused(reason)) => output.refused(cut(&reason, REASON_CHARS))?,
        Err(Stop::Output(error)) => return Err(error),
    }
    output.line(&Line::End)
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// Writes parts within the bounds.
struct Parts<'a> {
    output: &'a mut Output,
    limits: UnpackLimits,
    /// Number of entries that were read.
    entries: usize,
    /// Number of written parts.
    count: u32,
    /// Size of the written parts in bytes.
    bytes: u64,
}

impl Parts<'_> {
    /// Counts an entry before it is read.
    fn count_entry(&mut self) -> Result<(), Stop> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(Stop::Refused(format!("the file has more than {ENTRIES_MAX} entries; the rest was not read")));
        }
        Ok(())
    }

    /// Returns the maximum size of the next part in bytes.
    fn bytes_left(&self) -> u64 {
        self.limits.part_bytes.min(self.limits.bytes.saturating_sub(self.bytes))
    }

    fn refuse(&mut self, path: &str, reason: impl Display) -> Result<(), Stop> {
        let (path, reason) = (cut(path, PATH_CHARS), cut(&reason.to_string(), REASON_CHARS));
        Ok(self.output.line(&Line::RefusedPart { path, reason })?)
    }

    /// Writes the part that `content` returns, or the reason for which it is refused. `compressed`: the compressed size of
    /// the entry; None: the entry is not compressed by itself.
    fn add(&mut self, path: &str, content: impl Read, compressed: Option<u64>) -> Result<(), Stop> {
        let UnpackLimits { parts, bytes: all, part_bytes } = self.limits;
        if self.count >= parts {
            return self.refuse(path, format_args!("at most {parts} documents are made of this file"));
        }
        let ratio_max = compressed.map_or(u64::MAX, |size| size.saturating_mul(RATIO_MAX).max(RATIO_FREE_BYTES));
        let max = self.bytes_left();
        let mut bytes = Vec::new();
        if let Err(error) = content.take(max.min(ratio_max).saturating_add(1)).read_to_end(&mut bytes) {
            return self.refuse(path, format_args!("it cannot be read: {error}"));
        }
        match bytes.len() as u64 {
            0 => self.refuse(path, "it is empty"),
            size if size > ratio_max => {
                self.refuse(path, format_args!("it has more than {RATIO_MAX} times its compressed size"))
            }
            size if size > part_bytes => self.refuse(path, format_args!("a document has at most {part_bytes} bytes")),
            size if size > max => {
                self.refuse(path, format_args!("the documents of this file have at most {all} bytes together"))
            }
            size => {
                self.output.line(&Line::Part { path: cut(path, PATH_CHARS), size })?;
                self.output.out.write_all(&bytes)?;
                self.count += 1;
                self.bytes += size;
                Ok(())
            }
        }
    }
}

/// Returns true for a file that an operating system added.
fn is_system_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    SYSTEM_FILES.contains(&name) || path.starts_with(SYSTEM_FOLDER)
}
