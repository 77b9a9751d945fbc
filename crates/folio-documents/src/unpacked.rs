//! The output of a child process that divides a file into parts: an index of the parts, whose bytes stay in a file.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use folio_types::{Error, Reason, Result};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncSeekExt as _, BufReader};

use crate::ingest::attempts::disk;
use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::reader::{TextReader, task};
use crate::sniff::SNIFF_BYTES;
use crate::upload::hexadecimal;
use crate::worker::unpack::{ENTRIES_MAX, UnpackLimits};
use crate::worker::{Job, Line, Task};

/// Maximum length of a line of the output, in bytes.
const LINE_BYTES: u64 = 32 * 1024;
/// Size of the parts in which a file is read.
const CHUNK_BYTES: usize = 256 * 1024;

/// The parts of a file.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The file with the bytes of all parts.
    pub(crate) file: PathBuf,
    /// The entries in the order of the file.
    pub(crate) entries: Vec<Entry>,
    /// The reason for which the rest of the file has no parts. None: the file was read to its end.
    pub(crate) rest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path in the file, as the file states it.
    pub(crate) path: String,
    /// The position of the bytes, or the reason for which the entry is no part.
    pub(crate) content: std::result::Result<Span, String>,
}

/// A range of bytes in the file of all parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) size: u64,
}

/// A digest of a part, and its first bytes.
pub(crate) struct Examined {
    /// Hexadecimal SHA-256.
    pub(crate) sha256: String,
    pub(crate) beginning: Vec<u8>,
}

impl TextReader {
    /// Divides a file into parts in a child process. `folder` receives the bytes of the parts; the caller removes it. A child that
    /// fails in the middle of the file leaves the parts before.
    ///
    /// # Errors
    /// The child process cannot be started, or the disk fails.
    pub(crate) async fn unpack(&self, job: Job, limits: UnpackLimits, file: &Path, folder: &Path) -> Result<Unpacked> {
        let output = folder.join("parts");
        let file_bytes = limits.bytes.saturating_add(LINE_BYTES * ENTRIES_MAX as u64);
        let task = Task { file_bytes, ..task(self.options(), job) };
        let children = ChildProcesses::new(self.options().worker.clone(), folder.to_owned());
        let files = Files { input: Some(file), output: Some(&output), password: None };
        let failure = match children.run(&task, files, self.options().child_timeout(), 0).await {
            Ok(_) => None,
            Err(error @ ChildError::Start(_)) => {
                return Err(Error::unavailable(Reason::Overloaded, error.to_string()));
            }
            Err(error) => Some(error.to_string()),
        };
        let mut unpacked = index(output, limits.parts).await.map_err(disk)?;
        unpacked.rest = failure.or(unpacked.rest);
        Ok(unpacked)
    }
}

/// Indexes the output of a child, which may be truncated and is not trusted.
async fn index(file: PathBuf, parts_max: u32) -> io::Result<Unpacked> {
    let mut output = BufReader::new(File::open(&file).await?);
    let length = output.get_ref().metadata().await?.len();
    let (mut entries, mut parts, mut at) = (Vec::new(), 0, 0_u64);
    let mut rest = None;
    loop {
        let mut line = Vec::new();
        at += (&mut output).take(LINE_BYTES).read_until(b'\n', &mut line).await? as u64;
        match serde_json::from_slice(&line) {
            Ok(Line::Part { path, size })
                if parts < parts_max && at.checked_add(size).is_some_and(|end| end <= length) =>
            {
                entries.push(Entry { path, content: Ok(Span { start: at, size }) });
                parts += 1;
                at += size;
                output.seek(SeekFrom::Start(at)).await?;
            }
            Ok(Line::RefusedPart { path, reason }) if entries.len() < ENTRIES_MAX => {
                entries.push(Entry { path, content: Err(reason) });
            }
            Ok(Line::Refused { reason }) => rest = Some(reason),
            Ok(Line::End) => break,
            _ => {
                rest = rest.or_else(|| Some("the reader stopped before the end of the file".to_owned()));
                break;
            }
        }
    }
    Ok(Unpacked { file, entries, rest })
}

/// Reads a part. Blocks the thread.
pub(crate) fn examine(file: &Path, span: Span) -> io::Result<Examined> {
    let mut file = std::fs::File::open(file)?;
    file.seek(SeekFrom::Start(span.start))?;
    let (mut hash, mut beginning, mut left) = (Sha256::new(), Vec::new(), span.size);
    while left > 0 {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if (&file).take(left.min(CHUNK_BYTES as u64)).read_to_end(&mut chunk)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= chunk.len() as u64;
        hash.update(&chunk);
        let missing = SNIFF_BYTES.saturating_sub(beginning.len());
        beginning.extend_from_slice(chunk.get(..missing).unwrap_or(&chunk));
    }
    Ok(Examined { sha256: hexadecimal(&hash.finalize()), beginning })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn indexed(output: &[u8], parts_max: u32) -> Unpacked {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("parts");
        std::fs::write(&file, output).unwrap();
        index(file, parts_max).await.unwrap()
    }

    #[tokio::test]
    async fn an_index_has_the_parts_before_the_end_of_a_truncated_output() {
        let output =
            b"{\"part\":{\"path\":\"a\",\"size\":3}}\nx\ny{\"refused_part\":{\"path\":\"b\",\"reason\":\"r\"}}\n\
            {\"part\":{\"path\":\"c\",\"size\":2}}\nzz\"end\"\n";
        let whole = indexed(output, 9).await;
        let paths: Vec<_> = whole.entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!((paths, whole.rest), (vec!["a", "b", "c"], None));
        let Ok(Span { start, size: 3 }) = whole.entries[0].content else { panic!("{:?}", whole.entries) };
        assert_eq!(output[usize::try_from(start).unwrap()..][..3], *b"x\ny");
        for cut in 0..output.len() - 2 {
            let part = indexed(&output[..cut], 9).await;
            assert!(part.rest.is_some() && whole.entries.starts_with(&part.entries), "{cut}");
        }
        let bounded = indexed(output, 1).await;
        assert!(bounded.entries.len() == 2 && bounded.rest.is_some(), "{bounded:?}");
        let lie = indexed(b"{\"part\":{\"path\":\"a\",\"size\":18446744073709551615}}\n\"end\"\n", 9).await;
        assert!(lie.entries.is_empty() && lie.rest.is_some(), "{lie:?}");
    }

    #[test]
    fn a_part_is_examined_with_its_digest_and_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("parts");
        std::fs::write(&file, [vec![b'#'; 10], vec![b'a'; 600_000]].concat()).unwrap();
        let examined = examine(&file, Span { start: 10, size: 600_000 }).unwrap();
        assert_eq!(examined.sha256, hexadecimal(&Sha256::digest(vec![b'a'; 600_000])));
        assert_eq!(examined.beginning, vec![b'a'; SNIFF_BYTES]);
        assert!(examine(&file, Span { start: 10, size: 600_001 }).is_err());
    }
}
