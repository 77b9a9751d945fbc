//! Lists the scenarios of the tests, so that each is a test of its own.

use std::error::Error;
use std::path::PathBuf;

const FOLDER: &str = "tests/api/scenarios";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={FOLDER}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(FOLDER)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(path)?;
            // A scenario starts with its name at the start of a line. The other lines of a file are indented.
            let keys = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
            names.extend(keys.filter_map(|line| line.strip_suffix(':').map(str::to_owned)));
        }
    }
    names.retain(|name| name != "samples");
    let list = PathBuf::from(std::env::var("OUT_DIR")?).join("scenarios.rs");
    Ok(std::fs::write(list, format!("scenarios! {{ {} }}", names.join(" ")))?)
}
