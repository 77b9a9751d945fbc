//! Reads and cuts the text of a document.

use std::ops::ControlFlow;

use folio_llm::count_tokens;
use folio_resources::{Document, TextState};
use folio_storage::Stores;
use folio_storage::value::PageText;
use folio_types::{DocumentId, Error, OrgId, Reason, Result};

/// Pages per read of the store.
const PAGES_AT_ONCE: u32 = 20;

const CUT: &str = "\n[… cut]";

pub(crate) struct Text {
    /// Text of the pages. Each page has a heading if several were requested.
    pub(crate) text: String,
    /// Position of the cut. None if the text is complete.
    pub(crate) cut: Option<Cut>,
}

pub(crate) struct Cut {
    /// First page that is incomplete.
    pub(crate) page: u32,
}

/// Checks that the text of a document is available. Fails with `NO_TEXT` and the reason.
pub fn check_ready(document: &Document) -> Result<()> {
    let message = match &document.state {
        TextState::Ready => return Ok(()),
        TextState::Uploaded | TextState::Processing => {
            "The text of the document is still being extracted. Call the tool again later.".to_owned()
        }
        TextState::NoText(reason) => format!("The document has no text: {reason}"),
        TextState::Failed(reason) => format!("The text of the document could not be extracted: {reason}"),
    };
    Err(Error::precondition(Reason::NoText, message))
}

/// Reads the pages `from..from + count`, at most `bytes` bytes.
pub(crate) async fn read(
    stores: &Stores,
    org: &OrgId,
    id: &DocumentId,
    from: u32,
    count: u32,
    bytes: usize,
) -> Result<Text> {
    let (mut text, mut cut) = (String::new(), None);
    let add = |page: PageText| {
        add_page(&mut text, (count > 1).then_some(page.number), &page.text);
        if text.len() <= bytes {
            return ControlFlow::Continue(());
        }
        text.truncate(text.floor_char_boundary(bytes));
        text.push_str(CUT);
        cut = Some(Cut { page: page.number });
        ControlFlow::Break(())
    };
    for_each_page(stores, org, id, (from, count), add).await?;
    Ok(Text { text, cut })
}

/// Appends a page, or a part of it, with a line end. `heading`: number in the heading of the page. None: no heading.
pub(crate) fn add_page(text: &mut String, heading: Option<u32>, page: &str) {
    if let Some(number) = heading {
        text.push_str(&format!("--- page {number} ---\n"));
    }
    text.push_str(page);
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Reads the pages `from..from + count` in order, a few at once, until `each` breaks.
pub(crate) async fn for_each_page(
    stores: &Stores,
    org: &OrgId,
    id: &DocumentId,
    (from, count): (u32, u32),
    mut each: impl FnMut(PageText) -> ControlFlow<()>,
) -> Result<()> {
    let end = from.saturating_add(count);
    let mut next = from;
    while next < end {
        let batch = PAGES_AT_ONCE.min(end - next);
        for page in stores.texts.text(org, id.as_str(), next, batch).await? {
            if each(page).is_break() {
                return Ok(());
            }
        }
        next += batch;
    }
    Ok(())
}

/// Returns the length in bytes of a beginning of a text that has at most `tokens` tokens.
pub(crate) fn fitting(text: &str, tokens: u64) -> usize {
    let mut kept = text;
    loop {
        let count = count_tokens(kept);
        if count <= tokens {
            return kept.len();
        }
        // Each iteration removes at least 2 %.
        let share = (kept.len() as u64).saturating_mul(tokens) / count;
        let end = usize::try_from(share - share / 50).unwrap_or(0).min(kept.len().saturating_sub(1));
        kept = kept.get(..kept.floor_char_boundary(end)).unwrap_or_default();
    }
}

/// Cuts a text to at most `tokens` tokens and appends a marker if it was cut.
pub(crate) fn fit(mut text: String, tokens: u64) -> String {
    let kept = fitting(&text, tokens);
    if kept < text.len() {
        text.truncate(kept);
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_tokens_in_any_script() {
        assert_eq!(fit("short".to_owned(), 100), "short");
        for text in ["word ".repeat(5_000), "請求書".repeat(5_000), "1,2;3".repeat(5_000), "ä".repeat(5_000)] {
            let kept = fit(text.clone(), 500);
            let kept = kept.strip_suffix(CUT).unwrap();
            assert!(text.starts_with(kept) && (400..=500).contains(&count_tokens(kept)), "{}", count_tokens(kept));
        }
        assert_eq!(fit("long text".to_owned(), 0), CUT);
    }
}
