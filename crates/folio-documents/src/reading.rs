//! Stored text for the system message and for tools.

use folio_storage::{DocumentStore, NewPage};
use folio_types::{DocumentId, OrgId, Result};

/// What an excerpt that was cut ends with.
pub const CUT_MARK: &str = "\n[… the document goes on; get_ocr_text reads the rest]";

/// Pages that are read at once.
const BATCH: u32 = 16;

/// The beginning of a document's text: at most `chars` characters, the mark [`CUT_MARK`] of a cut one counted. Pages after
/// the first begin with their number. Empty where there is no text (yet).
pub async fn excerpt(documents: &dyn DocumentStore, org: &OrgId, id: &DocumentId, chars: usize) -> Result<String> {
    let mut text = String::new();
    let mut from = 1;
    loop {
        let pages = documents.text(org, id, from, BATCH).await?;
        let Some(last) = pages.last().map(|page| page.number) else { break };
        for page in &pages {
            append(&mut text, page);
        }
        if text.chars().count() > chars {
            break;
        }
        from = last.saturating_add(1);
    }
    Ok(cut(text, chars))
}

fn append(text: &mut String, page: &NewPage) {
    if page.number > 1 {
        text.push_str(&format!("\n\n[Page {}]\n", page.number));
    }
    text.push_str(&page.text);
}

fn cut(text: String, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text;
    }
    let kept = chars.saturating_sub(CUT_MARK.chars().count());
    let head: String = text.chars().take(kept).collect();
    format!("{head}{CUT_MARK}").chars().take(chars).collect()
}

/// The text of one page (from 1), or none where the document has no such page (yet).
pub async fn page_text(
    documents: &dyn DocumentStore,
    org: &OrgId,
    id: &DocumentId,
    page: u32,
) -> Result<Option<String>> {
    let pages = documents.text(org, id, page.max(1), 1).await?;
    Ok(pages.into_iter().find(|found| found.number == page).map(|found| found.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_never_exceeds_its_bound() {
        assert_eq!(cut("short".into(), 5), "short");
        let long = cut("ä".repeat(9_000), 8_000);
        assert_eq!(long.chars().count(), 8_000);
        assert!(long.ends_with(CUT_MARK));
        assert_eq!(cut("long".into(), 3).chars().count(), 3);
    }
}
