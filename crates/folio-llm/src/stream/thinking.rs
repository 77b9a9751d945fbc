//! Assembly of thinking: deltas of text, and signed blocks.

use folio_types::limits::MODEL_TEXT_BYTES;
use folio_types::message::ThinkingBlock;

use super::StreamError;

/// Maximum number of blocks of an answer.
const BLOCKS_MAX: usize = 64;

/// The partial thinking of an answer.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    blocks: Vec<ThinkingBlock>,
    /// Total size of texts, signatures and data, in bytes.
    bytes: usize,
}

impl Thinking {
    /// Appends text. Starts a new block after a signed one.
    pub(super) fn text(&mut self, delta: &str) -> Result<(), StreamError> {
        self.grow(delta)?;
        self.open_block()?.text.push_str(delta);
        Ok(())
    }

    /// Sets the signature of the open block. Without an open block, adds a block without text.
    pub(super) fn signature(&mut self, signature: &str) -> Result<(), StreamError> {
        self.grow(signature)?;
        self.open_block()?.signature = Some(signature.to_owned());
        Ok(())
    }

    /// Adds a block that contains only data of the provider.
    pub(super) fn data(&mut self, data: &str) -> Result<(), StreamError> {
        self.grow(data)?;
        self.add(ThinkingBlock { data: Some(data.to_owned()), ..ThinkingBlock::default() })
    }

    /// Returns true if the open block has exactly this text: an endpoint that streamed a block in deltas repeats the
    /// whole block with its signature.
    pub(super) fn open_text_is(&self, text: &str) -> bool {
        self.blocks.last().is_some_and(|block| !block.is_signed() && block.text == text)
    }

    pub(super) fn into_blocks(self) -> Vec<ThinkingBlock> {
        self.blocks
    }

    /// Returns the last block if it is not signed, otherwise a new one.
    fn open_block(&mut self) -> Result<&mut ThinkingBlock, StreamError> {
        if self.blocks.last().is_none_or(ThinkingBlock::is_signed) {
            self.add(ThinkingBlock::default())?;
        }
        self.blocks.last_mut().ok_or(StreamError::TooLarge("thinking blocks"))
    }

    fn add(&mut self, block: ThinkingBlock) -> Result<(), StreamError> {
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(StreamError::TooLarge("thinking blocks"));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn grow(&mut self, delta: &str) -> Result<(), StreamError> {
        self.bytes = self.bytes.saturating_add(delta.len());
        if self.bytes > MODEL_TEXT_BYTES { Err(StreamError::TooLarge("thinking")) } else { Ok(()) }
    }
}
