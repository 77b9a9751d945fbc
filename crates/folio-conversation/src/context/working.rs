//! The message after the history: the working state with the extraction at its end.

use folio_history::journal::WorkingState;

use super::text::{delimited, truncate_with_note};

/// Follows an extraction of the current turn. A small model otherwise makes the same extraction again.
pub(super) const COMPLETE: &str =
    "The extraction is complete. Tell the user its values, unless they must be corrected first.\n";

pub(super) fn write(out: &mut String, working: &WorkingState, has_new_extraction: bool, max: usize) {
    let or_none = |id: Option<String>| id.unwrap_or_else(|| "none".to_owned());
    out.push_str("# Working state\n\n");
    out.push_str(&format!("schema_revid: {}\n", or_none(working.schema_revid.as_ref().map(ToString::to_string))));
    out.push_str(&format!("prompt_revid: {}\n", or_none(working.prompt_revid.as_ref().map(ToString::to_string))));
    if let Some(state) = &working.profile_state {
        delimited(out, "state", &truncate_with_note(&state.to_string(), max, "State"));
    }
    match &working.extraction {
        None => out.push_str("extraction: none\n"),
        Some(extraction) => {
            out.push_str(&format!(
                "extraction: {} of {} by {}\n",
                extraction.id, extraction.document, extraction.prompt
            ));
            delimited(out, "extraction", &truncate_with_note(&extraction.data.to_string(), max, "Extraction"));
            if has_new_extraction {
                out.push_str(COMPLETE);
            }
        }
    }
}
