//! Finds the pages whose text contains the values of an answer. Pure.
//!
//! Values in arrays are not searched, because arrays are concatenated regardless of the text.

use std::collections::BTreeMap;

use folio_resources::member_path;
use serde_json::Value;

use super::page_index::PageIndex;

/// The pages of the values of an answer by their paths. Values that no page contains are missing. `pages`: numbers and
/// texts, in order.
pub(super) fn pages_of(data: &Value, pages: &[(u32, String)]) -> BTreeMap<String, u32> {
    let pages: Vec<(u32, PageIndex)> = pages.iter().map(|(number, text)| (*number, PageIndex::new(text))).collect();
    let mut found = BTreeMap::new();
    find("", data, &pages, &mut found);
    found
}

fn find(path: &str, value: &Value, pages: &[(u32, PageIndex)], found: &mut BTreeMap<String, u32>) {
    if let Value::Object(members) = value {
        for (name, member) in members {
            find(&member_path(path, name), member, pages, found);
        }
    } else if let Some((number, _)) = pages.iter().find(|(_, page)| page.contains(value)) {
        found.insert(path.to_owned(), *number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_page_with_a_value_counts() {
        let pages = [(4, "ACME GmbH, Hamburg".to_owned()), (5, "Total 5,00 for ACME GmbH".to_owned())];
        let data =
            json!({"total": 5, "seller": {"name": "Acme GmbH"}, "other": 7, "items": ["ACME GmbH"], "none": null});
        let expected = [("seller.name", 4), ("total", 5)].map(|(path, page)| (path.to_owned(), page));
        assert_eq!(pages_of(&data, &pages), BTreeMap::from(expected));
        assert_eq!(pages_of(&json!(5), &pages), BTreeMap::from([(String::new(), 5)]));
        assert_eq!(pages_of(&json!(5), &[]), BTreeMap::new());
    }
}
