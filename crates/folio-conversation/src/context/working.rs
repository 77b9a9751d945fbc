//! The message after the history: the working state with the extraction at its end.

use folio_history::journal::WorkingState;

use super::text::{delimited, truncate_with_note};

/// Returns the line at the end of the state, which a small model needs to continue: it otherwise repeats the last call, or
/// describes the next one. `start`: the working state at the start of the turn. Empty if the turn created nothing.
fn next_call(start: &WorkingState, working: &WorkingState) -> String {
    if working.extraction.is_some() && working.extraction != start.extraction {
        return "The extraction is complete. Tell the user its values, unless they must be corrected first.\n"
            .to_owned();
    }
    if working.prompt_revid.is_some() && working.prompt_revid != start.prompt_revid {
        return "Next call, unless the user wants only a prompt: run_extraction.\n".to_owned();
    }
    match &working.schema_revid {
        // Models pass the schema_revid as the schema_id, if the state does not contain the id.
        Some(schema) if working.schema_revid != start.schema_revid => {
            format!("Next call, unless the user wants only a schema: create_prompt with the schema_id {}.\n", schema.of)
        }
        _ => String::new(),
    }
}

/// `start`: as in [`next_call`]. `max`: maximum characters of each part of variable length.
pub(super) fn write(out: &mut String, start: &WorkingState, working: &WorkingState, max: usize) {
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
        }
    }
    out.push_str(&next_call(start, working));
}
