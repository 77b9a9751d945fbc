//! Compiles the proto file of Qdrant, with protox instead of protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["proto/qdrant.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).btree_map(".").compile_fds(files)?;
    Ok(())
}
