//! Orders, pages and tokens of every list.

use std::fmt::Debug;
use std::future::Future;

use folio_types::Result;
use folio_types::page::{Order, Page, PageRequest};

use super::{Outcome, check, refused, same};

const ORDERS: [Order; 4] = [Order::Oldest, Order::Newest, Order::Name, Order::NameDescending];

fn request(size: u32, order: Order) -> PageRequest {
    PageRequest { size, order, ..PageRequest::default() }
}

/// Reads a list of names. `created`: the names in the order of creation; no two differ in case only.
pub(crate) async fn orders<F, L>(created: &[&str], list: L) -> Outcome
where
    L: Fn(PageRequest) -> F,
    F: Future<Output = Result<Page<String>>>,
{
    let expected = |order| {
        let mut names: Vec<String> = created.iter().map(|name| (*name).to_owned()).collect();
        if matches!(order, Order::Name | Order::NameDescending) {
            names.sort_by_key(|name| name.to_lowercase());
        }
        if matches!(order, Order::Newest | Order::NameDescending) {
            names.reverse();
        }
        Ok(names)
    };
    walk(expected, list).await
}

/// Reads a list in every order and page size, and passes malformed tokens and tokens of other lists. `expected` returns
/// its items in an order.
pub(crate) async fn walk<T, F, L>(expected: impl Fn(Order) -> Result<Vec<T>>, list: L) -> Outcome
where
    T: Debug + PartialEq,
    L: Fn(PageRequest) -> F,
    F: Future<Output = Result<Page<T>>>,
{
    for order in ORDERS {
        let expected = expected(order)?;
        for size in [1, 2, 1000] {
            let mut seen = Vec::new();
            let mut page = request(size, order);
            loop {
                let part = list(page.clone()).await?;
                check!(part.items.len() <= size as usize, "a page of {size} contains {} items", part.items.len());
                same!(part.total, expected.len() as u64, "the total of a list");
                seen.extend(part.items);
                check!(
                    seen.len() <= expected.len(),
                    "a list by {order:?} in pages of {size} returns an item twice: {seen:?}"
                );
                match part.next {
                    Some(token) => page.token = Some(token),
                    None => break,
                }
            }
            same!(seen, expected, "a list by {order:?} in pages of {size}");
        }
        let skipped = list(PageRequest { skip: 1, ..request(1, order) }).await?;
        same!(skipped.items, expected.get(1..2).unwrap_or_default(), "the second item of a list by {order:?}");
        let beyond = list(PageRequest { skip: 1_000_000, ..request(1, order) }).await?;
        check!(beyond.items.is_empty() && beyond.next.is_none(), "a page after the end of a list contains an item");
    }
    tokens(&list, &expected(Order::Newest)?).await
}

async fn tokens<T, F, L>(list: &L, newest: &[T]) -> Outcome
where
    T: Debug + PartialEq,
    L: Fn(PageRequest) -> F,
    F: Future<Output = Result<Page<T>>>,
{
    let first = list(request(1, Order::Newest)).await?;
    let Some(token) = first.next else {
        return Ok(());
    };
    let skipped = PageRequest { token: Some(token.clone()), skip: 1, ..request(1, Order::Newest) };
    same!(list(skipped).await?.items, newest.get(2..3).unwrap_or_default(), "one item skipped after a token");
    let other_order = PageRequest { token: Some(token.clone()), ..request(1, Order::Name) };
    refused!(list(other_order).await, InvalidPageToken, "the token of another order");
    let mut damaged = token.clone();
    damaged.pop();
    for bad in ["", "x", "%%%", &damaged, &format!("{token}AAAA"), &"A".repeat(4096)] {
        let page = PageRequest { token: Some(bad.to_owned()), ..request(1, Order::Newest) };
        refused!(list(page).await, InvalidPageToken, "the token {bad:?}");
    }
    Ok(())
}
