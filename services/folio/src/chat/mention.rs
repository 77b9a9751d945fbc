//! Mentions in a message: `@schema:NAME`, `@prompt:NAME` and `@tag:NAME`, with quotes around a name that contains
//! spaces or ends with punctuation.

use std::fmt;

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_types::limits;

use crate::client::{Client, answer};
use crate::names;

/// Maximum number of resources of each kind that are read, to complete names or to find a mentioned name.
const NAMES_MAX: i32 = 100;
/// Punctuation at the end of a name without quotes. It does not belong to the name.
const PUNCTUATION: [char; 8] = ['.', ',', ';', ':', '!', '?', ')', ']'];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Prompt,
    Tag,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Schema, Self::Prompt, Self::Tag];

    fn as_str(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Prompt => "prompt",
            Self::Tag => "tag",
        }
    }
}

/// The name of a mentioned resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    kind: Kind,
    name: String,
}

/// Formats the mention as in a message, so that [`find`] finds it.
impl fmt::Display for Mention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        match self.name.contains(char::is_whitespace) || self.name.ends_with(PUNCTUATION) {
            true => write!(f, "@{kind}:\"{}\"", self.name),
            false => write!(f, "@{kind}:{}", self.name),
        }
    }
}

/// Returns the mentions in a text, without duplicates. A mention is at the start of a word.
pub(super) fn find(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        let (before, after) = text.split_at(at);
        if before.chars().next_back().is_some_and(|c| !c.is_whitespace() && c != '(') {
            continue;
        }
        let mention = Kind::ALL.into_iter().find_map(|kind| {
            let rest = after.strip_prefix('@')?.strip_prefix(kind.as_str())?.strip_prefix(':')?;
            Some(Mention { kind, name: name_of(rest)? })
        });
        found.extend(mention.filter(|mention| !found.contains(mention)));
    }
    found
}

/// Returns the name at the start of a text. None: the text does not start with a name.
fn name_of(text: &str) -> Option<String> {
    let name = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => text.split(char::is_whitespace).next()?.trim_end_matches(PUNCTUATION),
    };
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Reads the ids of the mentioned resources. Fails if a text has too many mentions or a name does not exist.
pub(super) async fn resolve(client: &Client, text: &str) -> Result<Vec<v1::Mention>> {
    let mentions = find(text);
    if mentions.len() > limits::MENTIONS_MAX {
        bail!("the message has {} mentions; the maximum is {}", mentions.len(), limits::MENTIONS_MAX);
    }
    let mut resolved = Vec::new();
    for mention in mentions {
        let is_named = |(name, _): &(String, Target)| name.to_lowercase() == mention.name.to_lowercase();
        let mut found = None;
        // More names than one page may contain the name, so its own case is searched first.
        for filter in [names::exact_filter(&mention.name), names::filter(&mention.name)] {
            if found.is_none() {
                found = read(client, mention.kind, &filter).await?.into_iter().find(is_named);
            }
        }
        let Some((_, target)) = found else {
            bail!("no {} has the name {:?}: the message is not sent", mention.kind.as_str(), mention.name);
        };
        resolved.push(v1::Mention { target: Some(target) });
    }
    Ok(resolved)
}

/// Returns mentions of all resources, at most [`NAMES_MAX`] of each kind, as suggestions for completion.
pub(super) async fn all(client: &Client) -> Result<Vec<String>> {
    let mut mentions = Vec::new();
    for kind in Kind::ALL {
        for (name, _) in read(client, kind, "").await? {
            // A name with a quote cannot be written in quotes.
            if !name.contains('"') {
                mentions.push(Mention { kind, name }.to_string());
            }
        }
    }
    Ok(mentions)
}

type Target = v1::mention::Target;

async fn read(client: &Client, kind: Kind, filter: &str) -> Result<Vec<(String, Target)>> {
    let (page_size, filter) = (NAMES_MAX, filter.to_owned());
    Ok(match kind {
        Kind::Schema => {
            let request = v1::ListSchemasRequest { page_size, filter, ..v1::ListSchemasRequest::default() };
            let listed = answer(client.schemas().list_schemas(request)).await?.schemas;
            listed.into_iter().map(|found| (found.name, Target::SchemaRevid(found.schema_revid))).collect()
        }
        Kind::Prompt => {
            let request = v1::ListPromptsRequest { page_size, filter, ..v1::ListPromptsRequest::default() };
            let listed = answer(client.prompts().list_prompts(request)).await?.prompts;
            listed.into_iter().map(|found| (found.name, Target::PromptRevid(found.prompt_revid))).collect()
        }
        Kind::Tag => {
            let request = v1::ListTagsRequest { page_size, filter, ..v1::ListTagsRequest::default() };
            let listed = answer(client.tags().list_tags(request)).await?.tags;
            listed.into_iter().map(|found| (found.name, Target::TagId(found.tag_id))).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        find(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mentions_are_found_at_the_start_of_words() {
        assert_eq!(
            found("use @schema:Invoice, and @tag:\"very urgent\"."),
            ["@schema:Invoice", "@tag:\"very urgent\""]
        );
        assert_eq!(found("(@prompt:Extract) @prompt:Extract"), ["@prompt:Extract"]);
        for text in ["me@schema:x", "@schema:", "@other:x", "@tag:\"open", "@", "@tag:\"\""] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_name_is_written_in_the_form_that_is_found() {
        for name in ["Invoice", "Two words", "U.S.", "Größe"] {
            let mention = Mention { kind: Kind::Schema, name: name.to_owned() };
            assert_eq!(find(&format!("use {mention} now")), [mention]);
        }
    }
}
