//! The text of a document, as far as it fits.

use folio_storage::Stores;
use folio_types::document::{Document, TextState};
use folio_types::{DocumentId, Error, OrgId, Reason, Result};

/// Pages that are read from the store at once.
const PAGES_AT_ONCE: u32 = 20;

/// Text that was read.
pub(crate) struct Text {
    /// The pages, each under a heading where there are several.
    pub(crate) text: String,
    /// Where it was cut, if it was; the text ends with a mark then.
    pub(crate) cut: Option<Cut>,
}

/// Where a text was cut.
pub(crate) struct Cut {
    /// The page that is not there whole.
    pub(crate) page: u32,
}

/// Whether the text is there; else why not.
pub(crate) fn check_ready(document: &Document) -> Result<()> {
    let message = match &document.state {
        TextState::Ready => return Ok(()),
        TextState::Uploaded | TextState::Processing => "The document's text is still being read; ask again.".to_owned(),
        TextState::NoText(reason) => format!("The document has no text: {reason}"),
        TextState::Failed(reason) => format!("The document's text could not be read: {reason}"),
    };
    Err(Error::precondition(Reason::NoText, message))
}

/// Reads the pages `from..from + count` until `bytes` are reached.
pub(crate) async fn read(
    stores: &Stores,
    org: &OrgId,
    id: &DocumentId,
    from: u32,
    count: u32,
    bytes: usize,
) -> Result<Text> {
    let mut text = String::new();
    let end = from.saturating_add(count);
    let mut next = from;
    while next < end {
        let some = PAGES_AT_ONCE.min(end - next);
        for page in stores.documents.text(org, id, next, some).await? {
            if count > 1 {
                text.push_str(&format!("--- page {} ---\n", page.number));
            }
            text.push_str(&page.text);
            if text.len() > bytes {
                text.truncate(text.floor_char_boundary(bytes));
                text.push_str("\n[… cut]");
                return Ok(Text { text, cut: Some(Cut { page: page.number }) });
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        next += some;
    }
    Ok(Text { text, cut: None })
}
