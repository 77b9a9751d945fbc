//! Compiles the proto files of the public API and of the internal cluster services, with protox instead of protoc.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let public = files("folio/v1")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Reflection describes the public API only, without the cluster services.
    std::fs::write(out.join("folio.v1.bin"), protox::compile(&public, [ROOT])?.encode_to_vec())?;
    let all = [public, files("folio/cluster/v1")?].concat();
    // Maps are ordered, so that the encoding of a request, and therefore its digest, is deterministic.
    tonic_prost_build::configure().btree_map(".").compile_fds(protox::compile(&all, [ROOT])?)?;
    Ok(())
}

fn files(package: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(package))?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    Ok(files)
}
