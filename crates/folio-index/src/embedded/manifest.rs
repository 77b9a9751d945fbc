//! The version file of an organization's index, with its state.
//!
//! The file is written after everything that its state asserts, and replaced atomically.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use crate::answer::IndexState;

const FILE: &str = "index.json";
/// Version of the fields, the words and the stored vectors. A change of any of these increments it.
const FORMAT: u32 = 1;
/// Maximum size of the file, in bytes.
const FILE_BYTES: u64 = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Rebuilding,
    Ready,
    Torn,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// Version of the library that wrote the index.
    engine: String,
    state: StoredState,
    /// The number of the rebuild in the state `Rebuilding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild: Option<u64>,
}

/// Returns the state that the version file in a folder names.
pub(super) fn read(folder: &Path) -> Result<IndexState, Failure> {
    let path = folder.join(FILE);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(IndexState::Missing),
        Err(error) => return Err(error.into()),
        Ok(data) if data.len() > FILE_BYTES => return Ok(IndexState::Torn),
        Ok(_) => {}
    }
    // Another version may have written other states, so its version is read first.
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&fs::read(&path)?) else { return Ok(IndexState::Torn) };
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    let engine = value.get("engine").and_then(serde_json::Value::as_str);
    let (Some(format), Some(engine)) = (format, engine) else { return Ok(IndexState::Torn) };
    if format != u64::from(FORMAT) || engine != tantivy::version_string() {
        return Ok(IndexState::OtherVersion);
    }
    Ok(match serde_json::from_value::<Manifest>(value).map(|manifest| manifest.state) {
        Ok(StoredState::Ready) => IndexState::Ready,
        Ok(StoredState::Rebuilding) => IndexState::Rebuilding,
        Ok(StoredState::Torn) | Err(_) => IndexState::Torn,
    })
}

/// Returns the number of the rebuild that the version file in a folder names. None: no rebuild is in progress, or an older version
/// of Folio began it.
pub(super) fn rebuild(folder: &Path) -> Result<Option<u64>, Failure> {
    if read(folder)? != IndexState::Rebuilding {
        return Ok(None);
    }
    let manifest = serde_json::from_slice::<Manifest>(&fs::read(folder.join(FILE))?);
    Ok(manifest.ok().and_then(|manifest| manifest.rebuild))
}

/// Stores the beginning of a rebuild.
pub(super) fn write_rebuild(folder: &Path, rebuild: u64) -> Result<(), Failure> {
    store(folder, StoredState::Rebuilding, Some(rebuild))
}

/// Stores the state of an index. `Missing` and `OtherVersion` remove the file.
pub(super) fn write(folder: &Path, state: IndexState) -> Result<(), Failure> {
    let state = match state {
        IndexState::Ready => StoredState::Ready,
        IndexState::Rebuilding => StoredState::Rebuilding,
        IndexState::Torn => StoredState::Torn,
        IndexState::Missing | IndexState::OtherVersion => return remove(folder),
    };
    store(folder, state, None)
}

fn store(folder: &Path, state: StoredState, rebuild: Option<u64>) -> Result<(), Failure> {
    let manifest = Manifest { format: FORMAT, engine: tantivy::version_string().to_owned(), state, rebuild };
    let text = serde_json::to_vec(&manifest).map_err(io::Error::other)?;
    let temporary = folder.join("index.json.new");
    let mut file = File::create(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(FILE))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_file(folder.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_file_names_its_state_or_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let state = || read(path).unwrap();
        assert_eq!(state(), IndexState::Missing);
        for stored in [IndexState::Ready, IndexState::Rebuilding, IndexState::Torn] {
            write(path, stored).unwrap();
            assert_eq!(state(), stored);
        }
        write_rebuild(path, u64::MAX).unwrap();
        assert_eq!((state(), rebuild(path).unwrap()), (IndexState::Rebuilding, Some(u64::MAX)));
        write(path, IndexState::Ready).unwrap();
        assert_eq!((state(), rebuild(path).unwrap()), (IndexState::Ready, None));
        let version = tantivy::version_string();
        for (text, expected) in [
            (String::new(), IndexState::Torn),
            ("{".to_owned(), IndexState::Torn),
            ("{}".to_owned(), IndexState::Torn),
            (format!(r#"{{"format":1,"engine":{version:?},"state":"other"}}"#), IndexState::Torn),
            (format!(r#"{{"format":2,"engine":{version:?},"state":"other"}}"#), IndexState::OtherVersion),
            (r#"{"format":1,"engine":"tantivy v0.1","state":"ready"}"#.to_owned(), IndexState::OtherVersion),
            (" ".repeat(5_000), IndexState::Torn),
        ] {
            fs::write(path.join(FILE), &text).unwrap();
            assert_eq!(state(), expected, "{text}");
        }
        write(path, IndexState::Missing).unwrap();
        assert_eq!(state(), IndexState::Missing);
    }
}
