//! llm-sim
fn main() {}
