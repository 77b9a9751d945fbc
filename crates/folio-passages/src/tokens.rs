//! Counts of tokens: exact with the vocabulary of a model, else estimated.

use std::fmt;

use folio_types::{Error, Result};
use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;

/// Maximum size in bytes of the file of a tokenizer.
const TOKENIZER_BYTES: usize = 64 * 1024 * 1024;

/// The meaning of the token counts of a chunking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// The counts are those of this tokenizer, without the special tokens that a model adds to each input.
    Exact { tokenizer: String },
    /// The counts are estimates.
    Estimated,
}

/// Counts the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// Returns the tokens of a text, without special tokens.
    ///
    /// # Errors
    /// `INTERNAL` if the tokenizer cannot encode the text.
    fn count(&self, text: &str) -> Result<u64>;

    /// Returns the meaning of the counts.
    fn counting(&self) -> Counting;
}

/// Estimates tokens by a function, such as that of the crate that calls models.
#[derive(Debug, Clone, Copy)]
pub struct Estimate(pub fn(&str) -> u64);

impl TokenCounter for Estimate {
    fn count(&self, text: &str) -> Result<u64> {
        Ok((self.0)(text))
    }

    fn counting(&self) -> Counting {
        Counting::Estimated
    }
}

/// The tokenizer of a model, from the file `tokenizer.json` that is published with the model. The operator provides the
/// file; nothing is downloaded.
pub struct FileTokenizer {
    name: String,
    tokenizer: Tokenizer,
}

impl fmt::Debug for FileTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTokenizer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FileTokenizer {
    /// Reads a tokenizer. `name` names it in results. Truncation and padding that the file declares do not apply.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the file exceeds 64 MiB or is malformed.
    pub fn parse(name: impl Into<String>, file: &[u8]) -> Result<Self> {
        let name = name.into();
        if file.len() > TOKENIZER_BYTES {
            let message =
                format!("the file of {name:?} has {} bytes, and at most {TOKENIZER_BYTES} are read", file.len());
            return Err(Error::invalid_field("tokenizer", message));
        }
        let malformed = |error: tokenizers::Error| {
            Error::invalid_field("tokenizer", format!("the file of {name:?} is not a valid tokenizer.json: {error}"))
        };
        let mut tokenizer = Tokenizer::from_bytes(file).map_err(malformed)?;
        tokenizer.with_truncation(None).map_err(malformed)?;
        tokenizer.with_padding(None);
        Ok(Self { name, tokenizer })
    }
}

impl TokenCounter for FileTokenizer {
    fn count(&self, text: &str) -> Result<u64> {
        let encoded = self.tokenizer.encode_fast(text, false);
        let encoded = encoded
            .map_err(|error| Error::internal(format!("the tokenizer {:?} cannot encode a text: {error}", self.name)))?;
        Ok(u64::try_from(encoded.len()).unwrap_or(u64::MAX))
    }

    fn counting(&self) -> Counting {
        Counting::Exact { tokenizer: self.name.clone() }
    }
}
