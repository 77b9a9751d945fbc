//! Names of request fields on the command line. The server names the fields of the proto files, which a user of the
//! terminal does not know.

use folio_types::Error;

/// Fields of the proto files, each with the flag or the argument that sets it.
const NAMES: [(&str, &str); 96] = [
    ("add_document_ids", "DOCUMENT"),
    ("admin_name", "--admin-name"),
    ("aggregates", "FUNCTION:COLUMN"),
    ("chunk", "FILE"),
    ("collection.description", "--description"),
    ("collection.metadata", "--metadata"),
    ("collection.name", "NAME"),
    ("collection.tag_ids", "--tag"),
    ("content", "FILE"),
    ("credit_budget", "--budget"),
    ("credits", "CREDITS"),
    ("description", "FILE"),
    ("description.metadata", "--metadata"),
    ("description.name", "the name of the file"),
    ("description.password", "--password"),
    ("description.tag_ids", "--tag"),
    ("dictionary_entry.confidence", "--confidence"),
    ("dictionary_entry.disambiguation", "--disambiguation"),
    ("dictionary_entry.expansion", "EXPANSION"),
    ("dictionary_entry.provenance", "--confidence"),
    ("dictionary_entry.source_document_ids", "--source"),
    ("dictionary_entry.tags", "--tag"),
    ("dictionary_entry.term", "TERM"),
    ("document.tag_ids", "the tags of the document"),
    ("document_filter", "the selection of documents"),
    ("document_id", "DOCUMENT"),
    ("document_ids", "DOCUMENT"),
    ("email", "EMAIL"),
    ("end_time", "--until"),
    ("expire_time", "--expires-at"),
    ("extraction_id", "ID"),
    ("filter", "the filter"),
    ("folio-organization", "--org"),
    ("group_by", "--by"),
    ("key_columns", "--key"),
    ("limit", "--limit"),
    ("mcp_server.name", "NAME"),
    ("mcp_server.url", "URL"),
    ("member.name", "NAME"),
    ("member.user_id", "--user"),
    ("mentions", "the mentions of the message"),
    ("model", "--model"),
    ("note", "--note"),
    ("mode", "--mode"),
    ("organization.ingestion", "--ingestion"),
    ("organization.name", "--name"),
    ("organization.tag_batch_documents", "--tag-batch-documents"),
    ("organization.thread_retention_days", "--thread-retention-days"),
    ("organization_id", "--organization"),
    ("parts", "--part"),
    ("passage_filter.collection_ids", "--collection"),
    ("passage_filter.document_ids", "--document"),
    ("passage_filter.end_time", "--until"),
    ("passage_filter.languages", "--language"),
    ("passage_filter.metadata", "--metadata"),
    ("passage_filter.start_time", "--from"),
    ("passage_filter.tag_ids", "--tag"),
    ("passages", "--limit"),
    ("priority", "--priority"),
    ("prompt.content", "FILE"),
    ("prompt.model", "--model"),
    ("prompt.name", "NAME"),
    ("prompt.schema_revid", "--schema"),
    ("prompt.tag_ids", "--tag"),
    ("prompt_revid", "PROMPT"),
    ("proposal_id", "ID"),
    ("query", "QUERY"),
    ("question", "QUERY"),
    ("request_id", "--request-id"),
    ("schema.name", "NAME"),
    ("schema.response_format_json", "FILE"),
    ("schema.review_rule.checks", "--check"),
    ("schema.review_rule.min_confidence", "--min-confidence"),
    ("section_id", "SECTION ID"),
    ("stack.document_ids", "--document"),
    ("stack.name", "NAME"),
    ("stack.review_rule.min_confidence", "--approve-from"),
    ("stack.rule.metadata", "--metadata"),
    ("stack.rule.tag_ids", "--tag"),
    ("start_time", "--from"),
    ("tag.color", "--color"),
    ("tag.description", "--description"),
    ("tag.name", "NAME"),
    ("tag_name", "--tag"),
    ("text", "the message"),
    ("token.name", "NAME"),
    ("token.scopes", "--scope"),
    ("token.user_id", "--user"),
    ("token_id", "TOKEN_ID"),
    ("ttl_seconds", "--expires-in"),
    ("user.email", "EMAIL"),
    ("user.name", "--name"),
    ("user_id", "USER"),
    ("value_json", "VALUE"),
    ("webhook_endpoint.event_types", "--event"),
    ("webhook_endpoint.url", "URL"),
];

/// Returns the message of an error. The field at its start, with an index or a part, is replaced by the flag or the
/// argument that sets it.
pub(crate) fn message_of(error: &Error) -> String {
    let renamed = error.violations.first().and_then(|violation| {
        let problem = error.message.strip_prefix(violation.field.as_str())?;
        Some(format!("{}{problem}", argument_of(&violation.field)?))
    });
    renamed.unwrap_or_else(|| error.message.clone())
}

/// Returns the flag or the argument that sets a field. None: no argument sets it.
fn argument_of(field: &str) -> Option<&'static str> {
    let contains =
        |path: &str| field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let (_, argument) = NAMES.iter().filter(|(path, _)| contains(path)).max_by_key(|(path, _)| path.len())?;
    Some(*argument)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};
    use folio_types::Reason;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn a_field_is_replaced_by_the_argument_that_sets_it() {
        let shown = |field: &str| message_of(&Error::invalid_field(field, "is missing"));
        assert_eq!(shown("prompt.schema_revid"), "--schema: is missing");
        assert_eq!(shown("prompt.tag_ids[2]"), "--tag: is missing");
        assert_eq!(shown("description.metadata[year]"), "--metadata: is missing");
        assert_eq!(shown("description.size_bytes"), "FILE: is missing");
        assert_eq!(shown("decisions[0].digest"), "decisions[0].digest: is missing", "no argument sets the field");
        assert_eq!(shown("models"), "models: is missing", "another field starts with the same letters");
    }

    #[test]
    fn another_message_remains() {
        let error = Error::invalid(Reason::InvalidSchema, "the schema is invalid");
        assert_eq!(message_of(&error), "the schema is invalid");
    }

    fn has_flag(command: &Command, flag: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == Some(flag))
            || command.get_subcommands().any(|command| has_flag(command, flag))
    }

    #[test]
    fn every_flag_exists() {
        let mut line = Arguments::command();
        line.build();
        for flag in NAMES.iter().filter_map(|(_, argument)| argument.strip_prefix("--")) {
            assert!(has_flag(&line, flag), "--{flag}");
        }
    }
}
