//! Exports extractions to a file or to standard output, and writes outputs of other commands.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use tempfile::NamedTempFile;

use crate::client::{Client, answer, explain};
use crate::documents;
use crate::progress::Progress;
use crate::terminal::note;

/// The first bytes of a ZIP archive: several CSV files, or a workbook.
const ZIP: &[u8] = b"PK\x03\x04";
/// The error if an archive or a workbook would be written to a terminal.
const NO_TEXT: &str = "the export is a binary file: pass --to FILE, or redirect the output";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON document.
    Json,
    /// One JSON object in each line.
    Jsonl,
    /// A CSV file, or a ZIP archive with a file for each table.
    Csv,
    /// A workbook with a sheet for each table.
    Xlsx,
}

impl ExportFormat {
    /// Returns the format that the name of a file states. None: the name has no extension, or that of a text (`.txt`). Error: the
    /// extension belongs to no format.
    pub(super) fn of_file(path: &Path) -> Result<Option<Self>> {
        let Some(extension) = path.extension() else { return Ok(None) };
        match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "json" => Ok(Some(Self::Json)),
            "jsonl" => Ok(Some(Self::Jsonl)),
            "csv" | "zip" => Ok(Some(Self::Csv)),
            "xlsx" => Ok(Some(Self::Xlsx)),
            "txt" => Ok(None),
            _ => bail!(
                "{}: no format has this extension: use .json, .jsonl, .csv, .zip or .xlsx, or pass --output",
                path.display()
            ),
        }
    }
}

impl From<ExportFormat> for v1::ExportFormat {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Json => Self::Json,
            ExportFormat::Jsonl => Self::JsonLines,
            ExportFormat::Csv => Self::Csv,
            ExportFormat::Xlsx => Self::Xlsx,
        }
    }
}

/// The destination of an output: standard output, or a file that exists only after [`Destination::finish`].
pub(super) enum Destination {
    Stdout,
    File { file: NamedTempFile, path: PathBuf },
}

impl Destination {
    /// Opens a destination. `to`: the file. None: standard output.
    pub(super) fn open(to: Option<&Path>) -> Result<Self> {
        let Some(path) = to else { return Ok(Self::Stdout) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(folder.is_dir(), "{} cannot be written: {} is not a folder", path.display(), folder.display());
        let file = NamedTempFile::new_in(folder).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self::File { file, path: path.to_owned() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => Ok(std::io::stdout().write_all(bytes)?),
            Self::File { file, path } => {
                file.write_all(bytes).with_context(|| format!("{} cannot be written", path.display()))
            }
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Stdout => Ok(std::io::stdout().flush()?),
            Self::File { file, path } => {
                file.persist(&path).with_context(|| format!("{} cannot be written", path.display()))?;
                note(&format!("wrote {}", path.display()));
                Ok(())
            }
        }
    }
}

/// Fails if an output cannot be written, so that a command fails before its work. `format`: None is a text.
pub(super) fn check(format: Option<ExportFormat>, to: Option<&Path>) -> Result<()> {
    let is_terminal = to.is_none() && std::io::stdout().is_terminal();
    ensure!(format != Some(ExportFormat::Xlsx) || !is_terminal, NO_TEXT);
    drop(Destination::open(to)?);
    Ok(())
}

/// Writes an export to the file `to`. None: to standard output.
pub(super) async fn download(
    client: &Client,
    request: v1::DownloadExtractionsRequest,
    to: Option<&Path>,
) -> Result<()> {
    let progress = Progress::stderr();
    let progress = progress.line(&to.map_or_else(|| "export".to_owned(), documents::name_of));
    progress.step("exporting");
    let expects_text = expects_text(request.format(), to);
    let mut destination = Destination::open(to)?;
    let mut chunks = answer(client.extractions().download_extractions(request)).await?;
    let mut is_first = true;
    while let Some(part) = chunks.message().await.map_err(|status| explain(&status))? {
        let is_archive = std::mem::take(&mut is_first) && part.chunk.starts_with(ZIP);
        if is_archive && to.is_none() && std::io::stdout().is_terminal() {
            bail!(NO_TEXT);
        }
        if is_archive && expects_text {
            progress.note("the data has several tables, so the output is a ZIP archive with a CSV file for each table");
        }
        destination.write(&part.chunk)?;
    }
    drop(progress);
    destination.finish()
}

/// Returns true if the user expects a CSV file, although the export may be a ZIP archive: the format is CSV, and the destination
/// is standard output or a file whose name ends with `.csv`.
fn expects_text(format: v1::ExportFormat, to: Option<&Path>) -> bool {
    let is_named_csv = |path: &Path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    format == v1::ExportFormat::Csv && to.is_none_or(is_named_csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_export_as_csv_is_expected_to_be_a_text() {
        for (format, to, expected) in [
            (v1::ExportFormat::Csv, None, true),
            (v1::ExportFormat::Csv, Some("a.CSV"), true),
            (v1::ExportFormat::Csv, Some("a.zip"), false),
            (v1::ExportFormat::Xlsx, None, false),
            (v1::ExportFormat::Xlsx, Some("a.csv"), false),
        ] {
            assert_eq!(expects_text(format, to.map(Path::new)), expected, "{format:?}, {to:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_states_the_format() {
        for (name, format) in [
            ("a.json", Some(ExportFormat::Json)),
            ("a.jsonl", Some(ExportFormat::Jsonl)),
            ("a.CSV", Some(ExportFormat::Csv)),
            ("a.zip", Some(ExportFormat::Csv)),
            ("a.xlsx", Some(ExportFormat::Xlsx)),
            ("a.txt", None),
            ("csv", None),
        ] {
            assert_eq!(ExportFormat::of_file(Path::new(name)).unwrap(), format, "{name}");
        }
        let refused = ExportFormat::of_file(Path::new("a.xls")).unwrap_err().to_string();
        assert!(refused.starts_with("a.xls: no format has this extension"), "{refused}");
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "before").unwrap();
        let mut unfinished = Destination::open(Some(&path)).unwrap();
        unfinished.write(b"part").unwrap();
        drop(unfinished);
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        let mut complete = Destination::open(Some(&path)).unwrap();
        complete.write(b"after").unwrap();
        complete.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Destination::open(Some(&folder.path().join("missing/a.json"))).is_err());
    }
}
