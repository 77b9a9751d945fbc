//! Lists the scenarios of the tests, so that each is a test of its own, and embeds the files of the web page.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

const SCENARIOS: &str = "tests/api/scenarios";
/// The output of `npm run build` in `web`. The build works without it: the page then explains how to build it.
const PAGE: &str = "../../web/dist";
/// Types whose files are compressed. The other ones are compressed by their format.
const COMPRESSED: &[&str] = &["html", "js", "mjs", "css", "svg", "json", "txt", "wasm", "webmanifest", "ttf", "map"];

fn main() -> Result<(), Box<dyn Error>> {
    let output = PathBuf::from(std::env::var("OUT_DIR")?);
    list_scenarios(&output)?;
    embed_page(&output)
}

fn list_scenarios(output: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SCENARIOS}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(SCENARIOS)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(path)?;
            // A scenario starts with its name at the start of a line. The other lines of a file are indented.
            let keys = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
            names.extend(keys.filter_map(|line| line.strip_suffix(':').map(str::to_owned)));
        }
    }
    names.retain(|name| name != "samples");
    Ok(std::fs::write(output.join("scenarios.rs"), format!("scenarios! {{ {} }}", names.join(" ")))?)
}

/// Writes a table of the files of the page. A file may have a compressed form of the same name with `.br` or `.gz`; a
/// missing `.gz` is made here.
fn embed_page(output: &Path) -> Result<(), Box<dyn Error>> {
    // Cargo repeats the build each time if a path does not exist. A missing output appears in the folder above it.
    let watched = [PAGE, "../../web"].into_iter().find(|path| Path::new(path).exists());
    println!("cargo:rerun-if-changed={}", watched.unwrap_or("build.rs"));
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if Path::new(PAGE).is_dir() {
        collect(Path::new(PAGE), &mut files)?;
    }
    if files.is_empty() {
        println!(
            "cargo:warning=this build contains no web page; `npm --prefix clients/typescript ci && npm --prefix web ci && \
             npm --prefix web run build` builds the page for the next build"
        );
    }
    files.sort();
    let mut table = "&[\n".to_owned();
    for (number, file) in files.iter().enumerate() {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if matches!(extension, "br" | "gz") {
            continue;
        }
        let path = file.strip_prefix(PAGE)?.to_str().ok_or("a file of the page has no UTF-8 name")?;
        let content_type = mime_guess::from_path(file).first_or_octet_stream();
        let charset = if content_type.type_() == "text" { "; charset=utf-8" } else { "" };
        let suffixed = |suffix: &str| file.with_file_name(format!("{}.{suffix}", name(file)));
        let brotli = Some(suffixed("br")).filter(|path| path.is_file());
        let mut gzip = Some(suffixed("gz")).filter(|path| path.is_file());
        if gzip.is_none() && COMPRESSED.contains(&extension) {
            let path = output.join(format!("page-{number}.gz"));
            let mut encoder = GzEncoder::new(std::fs::File::create(&path)?, Compression::best());
            encoder.write_all(&std::fs::read(file)?)?;
            encoder.finish()?;
            gzip = Some(path);
        }
        write!(table, "File {{ path: {:?}, content_type: \"{content_type}{charset}\", ", format!("/{path}"))?;
        writeln!(table, "whole: {}, gzip: {}, brotli: {} }},", bytes(file)?, form(gzip)?, form(brotli)?)?;
    }
    table.push(']');
    Ok(std::fs::write(output.join("page_files.rs"), table)?)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns an expression with the content of a file.
fn bytes(file: &Path) -> Result<String, Box<dyn Error>> {
    Ok(format!("include_bytes!({:?}).as_slice()", file.canonicalize()?))
}

fn form(file: Option<PathBuf>) -> Result<String, Box<dyn Error>> {
    file.map_or(Ok("None".to_owned()), |file| Ok(format!("Some({})", bytes(&file)?)))
}
