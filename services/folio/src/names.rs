//! Names of documents, schemas, prompts, tags, collections, stacks and members on a command line.

use anyhow::{Result, bail};
use folio_operations::filter::quote;
use folio_proto::v1;

use crate::terminal::printable;

/// Maximum number of items among which a name is searched: a page of a list.
pub(crate) const CANDIDATES: i32 = 100;
/// Maximum number of items that an error message lists, for example if a name is ambiguous.
const LISTED: usize = 10;

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
    Collection: collection_id,
    Stack: stack_id,
    Member: user_id,
}

/// Returns the filter of a list for the items whose name contains a text.
pub(crate) fn filter(name: &str) -> String {
    format!("name:{}", quote(name))
}

/// Returns the filter of a list for the items with a name, including case.
pub(crate) fn exact_filter(name: &str) -> String {
    format!("name={}", quote(name))
}

/// Chooses an item by its name. Arguments: the kind, the name, and the items whose names contain this name, newest
/// first.
pub(crate) type Choice<T> = fn(&str, &str, Vec<T>) -> Result<T>;

/// Returns the item that a name chooses, given the kind, the name, a [`Choice`], and the call of a list with the name of its items.
macro_rules! chosen {
    ($kind:literal, $what:ident, $choose:ident, $client:ident.$service:ident().$list:ident($Request:ident) => $items:ident) => {{
        let (page_size, filter) = ($crate::names::CANDIDATES, $crate::names::filter($what));
        let request = folio_proto::v1::$Request { page_size, filter, ..Default::default() };
        $choose($kind, $what, $crate::client::answer($client.$service().$list(request)).await?.$items)
    }};
}
pub(crate) use chosen;

/// Returns the newest item with exactly this name, otherwise the only item whose name contains it. Ignores case.
pub(crate) fn choose<T: Named>(kind: &str, name: &str, found: Vec<T>) -> Result<T> {
    let labels = labels(&found);
    let exact = found.iter().position(|item| is_exact(name, item));
    let chosen = exact.or_else(|| (found.len() == 1).then_some(0));
    match chosen.and_then(|at| found.into_iter().nth(at)) {
        Some(item) => Ok(item),
        None if labels.is_empty() => bail!("no {kind} matches {name:?}"),
        None => bail!("the names of several {kind}s contain {name:?}; use an id:\n{labels}"),
    }
}

/// Like [`choose`], for an argument that may name a file. The caller found no file.
pub(crate) fn choose_without_file<T: Named>(kind: &str, name: &str, found: Vec<T>) -> Result<T> {
    if found.is_empty() {
        bail!("no file and no {kind} matches {name:?}");
    }
    choose(kind, name, found)
}

/// Returns the only item with exactly this name, for example for a deletion. Ignores case.
pub(crate) fn choose_only<T: Named>(kind: &str, name: &str, found: Vec<T>) -> Result<T> {
    let is_complete = i32::try_from(found.len()).is_ok_and(|count| count < CANDIDATES);
    let (mut exact, others): (Vec<T>, Vec<T>) = found.into_iter().partition(|item| is_exact(name, item));
    match exact.len() {
        1 if is_complete => Ok(exact.remove(0)),
        0 if others.is_empty() => bail!("no {kind} has the name {name:?}"),
        0 => bail!("no {kind} has exactly the name {name:?}; similar names:\n{}", labels(&others)),
        _ => bail!("several {kind}s may have the name {name:?}; use an id:\n{}", labels(&exact)),
    }
}

fn is_exact(name: &str, item: &impl Named) -> bool {
    item.name().to_lowercase() == name.to_lowercase()
}

fn labels<T: Named>(items: &[T]) -> String {
    let label = |item: &T| format!("  {}  {}", item.id(), printable(item.name()));
    let mut labels: Vec<String> = items.iter().take(LISTED).map(label).collect();
    if items.len() > LISTED {
        labels.push(format!("  and {} more", items.len() - LISTED));
    }
    labels.join("\n")
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
        let missing = choose_without_file("document", "x", Vec::<v1::Document>::new()).unwrap_err().to_string();
        assert_eq!(missing, "no file and no document matches \"x\"");
        assert_eq!(choose_without_file("document", "invoice.pdf", found()).unwrap().name, "Invoice.pdf");
    }

    #[test]
    fn only_a_unique_exact_name_is_deleted() {
        let found = || vec![document("my invoice.pdf"), document("Invoice.pdf")];
        assert_eq!(choose_only("document", "invoice.pdf", found()).unwrap().name, "Invoice.pdf");
        let similar = choose_only("document", "my", vec![document("my invoice.pdf")]).unwrap_err().to_string();
        assert!(similar.contains("exactly") && similar.contains("id of my invoice.pdf"), "{similar}");
        let several = vec![document("Invoice.pdf"), document("invoice.pdf")];
        let several = choose_only("document", "invoice.pdf", several).unwrap_err().to_string();
        assert!(several.contains("id of Invoice.pdf") && several.contains("id of invoice.pdf"), "{several}");
        assert!(choose_only("document", "x", Vec::<v1::Document>::new()).is_err());
        // Another page of the list may contain a second item with this name.
        let page = (0..CANDIDATES).map(|number| document(&format!("{number}"))).collect();
        assert!(choose_only("document", "7", page).is_err());
        let many = choose("document", "y", vec![document("xyz"); 12]).unwrap_err().to_string();
        assert!(many.ends_with("and 2 more"), "{many}");
    }

    #[test]
    fn a_name_is_quoted_in_a_filter() {
        assert_eq!(filter("a \"b\" \\"), "name:\"a \\\"b\\\" \\\\\"");
    }
}
