//! The binary `folio`.

use std::process::ExitCode;

/// A turn consists of many small allocations on several threads. mimalloc needs less processor time for them than the
/// system's allocator, and returns the memory of bursts (`cargo xtask bench turn`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    folio::main(|stores| stores)
}
