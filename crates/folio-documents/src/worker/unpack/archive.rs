//! Reads the members of ZIP and TAR archives.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use zip::ZipArchive;

use super::{Parts, RATIO_FREE_BYTES, RATIO_MAX, Stop, damaged, is_system_file};

/// A member of a ZIP archive, as its header describes it.
enum Member {
    /// A folder, or a file of an operating system.
    Skipped,
    Refused {
        path: String,
        reason: String,
    },
    File {
        path: String,
        compressed: u64,
    },
}

pub(super) fn zip(input: &[u8], parts: &mut Parts<'_>) -> Result<(), Stop> {
    let mut archive = ZipArchive::new(Cursor::new(input)).map_err(damaged)?;
    for index in 0..archive.len() {
        parts.count_entry()?;
        match member(&mut archive, index) {
            Member::Skipped => {}
            Member::Refused { path, reason } => parts.refuse(&path, reason)?,
            Member::File { path, compressed } => match archive.by_index(index) {
                Ok(content) => parts.add(&path, content, Some(compressed))?,
                Err(error) => parts.refuse(&path, error)?,
            },
        }
    }
    Ok(())
}

fn member(archive: &mut ZipArchive<Cursor<&[u8]>>, index: usize) -> Member {
    let found = match archive.by_index_raw(index) {
        Ok(found) => found,
        Err(error) => return Member::Refused { path: format!("member {}", index + 1), reason: error.to_string() },
    };
    let path = match found.name() {
        Ok(name) => name.into_owned(),
        Err(_) => String::from_utf8_lossy(found.name_raw()).into_owned(),
    };
    if found.is_dir() || is_system_file(&path) {
        return Member::Skipped;
    }
    if found.encrypted() {
        return Member::Refused { path, reason: "it is encrypted".to_owned() };
    }
    if found.is_symlink() {
        return Member::Refused { path, reason: "links are not accepted".to_owned() };
    }
    Member::File { path, compressed: found.compressed_size() }
}

pub(super) fn tar_gz(input: &[u8], parts: &mut Parts<'_>) -> Result<(), Stop> {
    let bytes_left = (input.len() as u64).saturating_mul(RATIO_MAX).max(RATIO_FREE_BYTES);
    tar(Bounded { content: MultiGzDecoder::new(input), bytes_left }, parts)
}

pub(super) fn tar(content: impl Read, parts: &mut Parts<'_>) -> Result<(), Stop> {
    let mut archive = ::tar::Archive::new(content);
    for entry in archive.entries().map_err(damaged)? {
        parts.count_entry()?;
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if kind.is_dir() || kind.is_pax_global_extensions() || is_system_file(&path) {
            continue;
        }
        if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            parts.add(&path, &mut entry, None)?;
        } else {
            parts.refuse(&path, "links and devices are not accepted")?;
        }
    }
    Ok(())
}

/// Decompressed content. A read fails if the content has more than `bytes_left` bytes.
struct Bounded<R> {
    content: R,
    bytes_left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other(format!("it has more than {RATIO_MAX} times its compressed size")))?;
        Ok(read)
    }
}
