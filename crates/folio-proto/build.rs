//! Compiles the public API. No protoc is needed: protox is one in Rust.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("../../proto");
    let folder = root.join("folio/v1");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "proto"))
        .collect();
    files.sort();
    let descriptors = protox::compile(&files, [root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("folio.v1.bin"), descriptors.encode_to_vec())?;
    // Ordered maps: the encoding of a request is what its digest is of.
    tonic_prost_build::configure().btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
