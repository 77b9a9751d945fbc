//! llm-sim
