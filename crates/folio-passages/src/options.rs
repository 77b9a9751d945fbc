//! Sizes of chunks.

use folio_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// Default tokens of the text of a chunk.
const WINDOW_DEFAULT: u32 = 200;
/// Minimum window. A single character is at most this number of tokens in the vocabularies in use.
const WINDOW_MIN: u32 = 32;
/// Maximum window.
const WINDOW_MAX: u32 = 8_192;
/// Default tokens that a chunk repeats from the chunk before it.
const OVERLAP_DEFAULT: u32 = 30;
/// Default tokens of the context that is added to a chunk.
const PADDING_DEFAULT: u32 = 120;
/// Maximum tokens of the context of a chunk.
const PADDING_MAX: u32 = 2_048;

/// The sizes of chunks, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChunkOptions {
    /// Maximum tokens of the text of a chunk, with its overlap: 32 to 8,192. Default: 200.
    pub window: u32,
    /// Maximum tokens at the start of a chunk that repeat the end of the chunk before it in the same section: less than
    /// a half of the window. 0: chunks do not overlap. Default: 30.
    pub overlap: u32,
    /// Maximum tokens of the context of a chunk: at most 2,048. 0: chunks have no context. Default: 120.
    pub padding: u32,
    /// Maximum input of the embedding model. Window and padding together do not exceed it. None: not checked.
    pub input_tokens_max: Option<u32>,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self { window: WINDOW_DEFAULT, overlap: OVERLAP_DEFAULT, padding: PADDING_DEFAULT, input_tokens_max: None }
    }
}

impl ChunkOptions {
    /// Checks the bounds.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the name of the option.
    pub fn validate(&self) -> Result<()> {
        let Self { window, overlap, padding, input_tokens_max } = *self;
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            let message = format!("is {window} tokens; the window is {WINDOW_MIN} to {WINDOW_MAX} tokens");
            return Err(Error::invalid_field("window", message));
        }
        if overlap >= window.div_ceil(2) {
            let message =
                format!("is {overlap} tokens; the overlap is less than a half of the window of {window} tokens");
            return Err(Error::invalid_field("overlap", message));
        }
        if padding > PADDING_MAX {
            let message = format!("is {padding} tokens; the padding is at most {PADDING_MAX} tokens");
            return Err(Error::invalid_field("padding", message));
        }
        let together = window.saturating_add(padding);
        if let Some(most) = input_tokens_max.filter(|most| *most < together) {
            let message = format!(
                "window and padding are {together} tokens, and the embedding model reads at most {most}; reduce one of both"
            );
            return Err(Error::invalid_field("window", message));
        }
        Ok(())
    }
}
