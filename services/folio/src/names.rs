//! Names of documents, schemas, prompts and tags on a command line.

use anyhow::{Result, bail};
use folio_proto::v1;

use crate::terminal::printable;

/// Maximum number of listed items if a name is ambiguous.
pub(crate) const CANDIDATES: i32 = 10;

/// An item that a user names by its id or its name.
pub(crate) trait Named {
    fn id(&self) -> &str;
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($item:ident: $id:ident),+ $(,)?) => {
        $(impl Named for v1::$item {
            fn id(&self) -> &str {
                &self.$id
            }

            fn name(&self) -> &str {
                &self.name
            }
        })+
    };
}

named! {
    Document: document_id,
    Schema: schema_id,
    Prompt: prompt_id,
    Tag: tag_id,
}

/// Returns the filter of a list for the items whose name contains a text.
pub(crate) fn filter(name: &str) -> String {
    format!("name:\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the newest item with exactly this name, otherwise the only item whose name contains it. Ignores case.
pub(crate) fn choose<T: Named>(kind: &str, name: &str, found: Vec<T>) -> Result<T> {
    let is_exact = |item: &T| item.name().to_lowercase() == name.to_lowercase();
    let labels: Vec<String> = found.iter().map(|item| format!("  {}  {}", item.id(), printable(item.name()))).collect();
    let exact = found.iter().position(is_exact);
    let chosen = exact.or_else(|| (found.len() == 1).then_some(0));
    match chosen.and_then(|at| found.into_iter().nth(at)) {
        Some(item) => Ok(item),
        None if labels.is_empty() => bail!("no {kind} matches {name:?}"),
        None => bail!("the names of several {kind}s contain {name:?}; use an id:\n{}", labels.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str) -> v1::Document {
        v1::Document { name: name.to_owned(), document_id: format!("id of {name}"), ..v1::Document::default() }
    }

    #[test]
    fn an_exact_name_wins_and_several_parts_are_listed() {
        let found = || vec![document("my invoice.pdf"), document("Invoice.pdf")];
        assert_eq!(choose("document", "invoice.pdf", found()).unwrap().name, "Invoice.pdf");
        assert_eq!(choose("document", "my", vec![document("my invoice.pdf")]).unwrap().name, "my invoice.pdf");
        let refused = choose("document", "invoice", found()).unwrap_err().to_string();
        assert!(refused.contains("id of Invoice.pdf") && refused.contains("id of my invoice.pdf"), "{refused}");
        let missing = choose("document", "x", Vec::<v1::Document>::new()).unwrap_err().to_string();
        assert_eq!(missing, "no document matches \"x\"");
    }

    #[test]
    fn a_name_is_quoted_in_a_filter() {
        assert_eq!(filter("a \"b\" \\"), "name:\"a \\\"b\\\" \\\\\"");
    }
}
