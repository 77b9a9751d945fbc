//! Assembling thinking: pieces of text, and blocks with signatures.

use folio_types::limits::MODEL_TEXT_BYTES;
use folio_types::message::ThinkingBlock;

use super::StreamError;

/// Blocks of one answer.
const BLOCKS_MAX: usize = 64;

/// The thinking of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    blocks: Vec<ThinkingBlock>,
    /// Bytes of texts, signatures and data together.
    bytes: usize,
}

impl Thinking {
    /// More of the text; a signed block before it is closed.
    pub(super) fn text(&mut self, piece: &str) -> Result<(), StreamError> {
        self.grow(piece)?;
        match self.blocks.last_mut().filter(|block| !block.is_signed()) {
            Some(open) => open.text.push_str(piece),
            None => self.open(ThinkingBlock { text: piece.to_owned(), ..ThinkingBlock::default() })?,
        }
        Ok(())
    }

    /// The signature over the open block; one that has no text opens and closes a block of its own.
    pub(super) fn signature(&mut self, signature: &str) -> Result<(), StreamError> {
        self.grow(signature)?;
        match self.blocks.last_mut().filter(|block| !block.is_signed()) {
            Some(open) => open.signature = Some(signature.to_owned()),
            None => {
                self.open(ThinkingBlock { signature: Some(signature.to_owned()), ..ThinkingBlock::default() })?;
            }
        }
        Ok(())
    }

    /// A block that holds only the provider's data.
    pub(super) fn data(&mut self, data: &str) -> Result<(), StreamError> {
        self.grow(data)?;
        self.open(ThinkingBlock { data: Some(data.to_owned()), ..ThinkingBlock::default() })
    }

    /// Whether the open block already holds exactly this text: an endpoint that streamed a block in pieces and now gives
    /// it again whole, with its signature.
    pub(super) fn open_text_is(&self, text: &str) -> bool {
        self.blocks.last().is_some_and(|block| !block.is_signed() && block.text == text)
    }

    pub(super) fn into_blocks(self) -> Vec<ThinkingBlock> {
        self.blocks
    }

    fn open(&mut self, block: ThinkingBlock) -> Result<(), StreamError> {
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(StreamError::TooLarge("thinking blocks"));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn grow(&mut self, piece: &str) -> Result<(), StreamError> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > MODEL_TEXT_BYTES { Err(StreamError::TooLarge("thinking")) } else { Ok(()) }
    }
}
