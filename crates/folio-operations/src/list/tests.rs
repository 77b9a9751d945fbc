//! Tests of list requests and pages.

use super::*;

fn request(token: &str) -> ListRequest {
    ListRequest { page_size: 2, page_token: token.to_owned(), ..ListRequest::default() }
}

fn listing(request: &ListRequest, scope: &[&str]) -> Result<Listing> {
    Listing::new(request, scope, SortKeys::CreateTimeAndName, Order::Newest, 1_000)
}

#[test]
fn pages_of_a_list_in_memory_join_without_gaps() {
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = listing(&request(&token), &["list"]).unwrap().slice((0..5).collect()).unwrap();
        assert_eq!(page.total_size, 5);
        seen.extend(page.items);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn a_token_is_valid_only_for_its_list_filter_and_order() {
    let filtered = |token: &str, filter: &str| ListRequest { filter: filter.to_owned(), ..request(token) };
    let first = listing(&filtered("", "name:a"), &["tags", "org"]).unwrap();
    let token = first.page_token(Some("7".into()));
    let same = listing(&filtered(&token, "name:a"), &["tags", "org"]).unwrap();
    assert_eq!(same.page.token.as_deref(), Some("7"));
    let reordered = ListRequest { order_by: "name".to_owned(), ..filtered(&token, "name:a") };
    let refused = [
        listing(&filtered(&token, "name:b"), &["tags", "org"]),
        listing(&filtered(&token, "name:a"), &["tags", "other"]),
        listing(&reordered, &["tags", "org"]),
        listing(&filtered("nonsense", "name:a"), &["tags", "org"]),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().reason, Reason::InvalidPageToken);
    }
}

#[tokio::test]
async fn a_page_of_large_items_is_read_again_with_fewer() {
    let items: Vec<String> = (0..40).map(|n: i32| n.to_string().repeat(150_000)).collect();
    let mut token = String::new();
    let mut seen = 0;
    loop {
        let large = ListRequest { page_size: 1_000, page_token: token, ..ListRequest::default() };
        let page = listing(&large, &["list"]).unwrap().fetch(async |page| slice(page, items.clone())).await.unwrap();
        let bytes: usize = page.items.iter().map(String::len).sum();
        assert!(bytes <= PAGE_BYTES, "{bytes}");
        seen += page.items.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 40);
}

fn slice(page: PageRequest, items: Vec<String>) -> Result<Page<String>> {
    let page = Listing { page, scope_digest: String::new(), has_filter: false }.slice(items)?;
    let next = Some(page.next_page_token).filter(|token| !token.is_empty());
    Ok(Page { items: page.items, next, total: page.total_size })
}

/// Reads all pages of a list by position. The list has `entries` numbers, of which those divisible by `divisor`
/// match. Returns the pages, their totals and the number of reads.
async fn scanned(entries: u32, divisor: u32, page_size: i32, skip: i32) -> (Vec<Vec<u32>>, Vec<u64>, usize) {
    let reads = std::sync::atomic::AtomicUsize::new(0);
    let (mut pages, mut totals, mut page_token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let skip = if pages.is_empty() { skip } else { 0 };
        let request = ListRequest { page_size, skip, page_token, ..ListRequest::default() };
        let read = |scan: ScanRead<u32>| {
            reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let from = scan.after.map_or(0, |after| after + 1);
            let read = (from..entries).take(scan.limit);
            let read: Vec<_> = read.map(|n| (n, (n % divisor == 0).then_some(n))).collect();
            async move { Ok(read) }
        };
        let page = listing(&request, &["scan"]).unwrap().scan(100, None, read).await.unwrap();
        totals.push(page.total_size);
        pages.push(page.items);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return (pages, totals, reads.into_inner());
        }
    }
}

#[tokio::test]
async fn pages_by_position_are_contiguous_and_numbered() {
    let (pages, totals, _) = scanned(10, 2, 2, 0).await;
    assert_eq!((pages, totals), (vec![vec![0, 2], vec![4, 6], vec![8]], vec![5; 3]));
    let (pages, totals, _) = scanned(10, 2, 2, 1).await;
    assert_eq!((pages, totals), (vec![vec![2, 4], vec![6, 8]], vec![5; 2]), "skipped items count");
    assert_eq!(scanned(4, 1, 2, 0).await.0.len(), 2, "no empty page follows a complete last one");
    assert_eq!(scanned(0, 1, 2, 0).await, (vec![vec![]], vec![0], 1));
    let (pages, totals, _) = scanned(1_100, 1, 1_000, 0).await;
    assert_eq!((pages.concat().len(), totals), (1_100, vec![COUNT_MAX + 1; 2]));
    // The number of reads of a page is bounded: a page without a match is empty, and another page follows.
    let (pages, totals, reads) = scanned(5_000, 4_999, 2, 0).await;
    assert_eq!((pages.concat(), totals[0], reads <= 4 * READS_MAX), (vec![0, 4_999], COUNT_MAX + 1, true));
}

#[tokio::test]
async fn a_page_by_position_is_bounded_in_bytes() {
    let read = |scan: ScanRead<usize>| async move {
        let from = scan.after.map_or(0, |after| after + 1);
        Ok((from..5).take(scan.limit).map(|n| (n, Some("x".repeat(PAGE_BYTES / 2)))).collect())
    };
    let page = listing(&request(""), &["scan"]).unwrap().scan(100, None, read).await.unwrap();
    assert_eq!((page.items.len(), page.total_size, page.next_page_token.is_empty()), (1, 5, false));
}

#[test]
fn an_order_by_the_last_update_is_recognized() {
    assert_eq!(is_by_update("update_time"), Some(false));
    assert_eq!(is_by_update(" update_time  desc "), Some(true));
    assert_eq!(["", "create_time", "update_time down", "update_time desc x"].map(is_by_update), [None; 4]);
    let request = ListRequest { order_by: "size".to_owned(), ..ListRequest::default() };
    let refused = Listing::new(&request, &[], SortKeys::CreateTimeAndTitle, Order::Newest, 1).unwrap_err();
    assert!(refused.message.contains("create_time and title and update_time"), "{}", refused.message);
}

#[test]
fn a_request_has_a_grid_or_an_order() {
    let grid = Grid { any: true, ..Grid::default() };
    let with = |order: &str, grid: Option<&Grid>| {
        ListRequest { order_by: order.to_owned(), grid: grid.cloned(), ..ListRequest::default() }.grid_or_order()
    };
    assert_eq!(with("", Some(&grid)).unwrap(), grid);
    assert_eq!(with("", None).unwrap(), Grid::default());
    let by_name = with("name desc", None).unwrap();
    assert_eq!((by_name.sort[0].field.as_str(), by_name.sort[0].descending), ("name", true));
    assert_eq!(with("name", Some(&grid)).unwrap_err().violations[0].field, "order_by");
}

#[test]
fn sizes_are_reduced_and_invalid_requests_refused() {
    let with = |page_size, skip, order_by: &str| {
        let order_by = order_by.to_owned();
        listing(&ListRequest { page_size, skip, order_by, ..ListRequest::default() }, &[])
    };
    assert_eq!(with(0, 0, "").unwrap().page.size, limits::PAGE_SIZE_DEFAULT);
    assert_eq!(with(5_000, 0, "").unwrap().page.size, 1_000);
    assert_eq!(with(0, 3, "name desc").unwrap().page.order, Order::NameDescending);
    for (size, skip, order) in [(-1, 0, ""), (0, -1, ""), (0, 0, "color"), (0, 0, "name down"), (0, 0, "name asc x")] {
        assert!(with(size, skip, order).is_err(), "{size} {skip} {order}");
    }
}
