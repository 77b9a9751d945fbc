//! What holds for every list.

use std::future::Future;

use folio_types::Result;
use folio_types::page::{Order, PageRequest};

use super::{Outcome, check, refused, same};

/// A page as names, and what belongs to it.
pub(crate) struct Names {
    pub(crate) names: Vec<String>,
    pub(crate) next: Option<String>,
    pub(crate) total: u64,
}

fn request(size: u32, order: Order) -> PageRequest {
    PageRequest { size, order, ..PageRequest::default() }
}

/// Walks a list in every order and page size, and hands it bad and foreign tokens. `created`: the names in the order in
/// which they were made; none of them alike but for case.
pub(crate) async fn orders<F, L>(created: &[&str], list: L) -> Outcome
where
    L: Fn(PageRequest) -> F,
    F: Future<Output = Result<Names>>,
{
    let oldest: Vec<String> = created.iter().map(|name| (*name).to_owned()).collect();
    let mut newest = oldest.clone();
    newest.reverse();
    let mut by_name = oldest.clone();
    by_name.sort_by_key(|name| name.to_lowercase());
    let mut descending = by_name.clone();
    descending.reverse();
    let expected = [
        (Order::Oldest, oldest),
        (Order::Newest, newest.clone()),
        (Order::Name, by_name),
        (Order::NameDescending, descending),
    ];
    for (order, expected) in &expected {
        for size in [1, 2, 1000] {
            let mut seen = Vec::new();
            let mut page = request(size, *order);
            loop {
                let part = list(page.clone()).await?;
                check!(part.names.len() <= size as usize, "a page of {size} holds {}", part.names.len());
                same!(part.total, created.len() as u64, "the total of a list");
                seen.extend(part.names);
                check!(seen.len() <= created.len(), "a list by {order:?} in pages of {size} repeats itself: {seen:?}");
                match part.next {
                    Some(token) => page.token = Some(token),
                    None => break,
                }
            }
            same!(seen, *expected, "a list by {order:?} in pages of {size}");
        }
        let skipped = list(PageRequest { skip: 1, ..request(1, *order) }).await?;
        same!(skipped.names, expected.get(1..2).unwrap_or_default(), "the second of a list by {order:?}");
        let beyond = list(PageRequest { skip: 1_000_000, ..request(1, *order) }).await?;
        check!(beyond.names.is_empty() && beyond.next.is_none(), "there is something behind the end of a list");
    }
    tokens(&list, &newest).await
}

async fn tokens<F, L>(list: &L, newest: &[String]) -> Outcome
where
    L: Fn(PageRequest) -> F,
    F: Future<Output = Result<Names>>,
{
    let first = list(request(1, Order::Newest)).await?;
    let Some(token) = first.next else {
        return Ok(());
    };
    let skipped = PageRequest { token: Some(token.clone()), skip: 1, ..request(1, Order::Newest) };
    same!(list(skipped).await?.names, newest.get(2..3).unwrap_or_default(), "one item skipped behind a token");
    let other_order = PageRequest { token: Some(token.clone()), ..request(1, Order::Name) };
    refused!(list(other_order).await.map(|page| page.names), InvalidPageToken, "the token of another order");
    let mut spoilt = token.clone();
    spoilt.pop();
    for bad in ["", "x", "%%%", &spoilt, &format!("{token}AAAA"), &"A".repeat(4096)] {
        let page = PageRequest { token: Some(bad.to_owned()), ..request(1, Order::Newest) };
        refused!(list(page).await.map(|page| page.names), InvalidPageToken, "the token {bad:?}");
    }
    Ok(())
}
