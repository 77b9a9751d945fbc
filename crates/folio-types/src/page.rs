//! Pages of lists.

use serde::{Deserialize, Serialize};

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRequest {
    /// Maximum number of items, 1 to [`crate::limits::PAGE_SIZE_MAX`]. 0: the default.
    pub size: u32,
    /// `Page::next` of the previous page. The store creates and validates the token. None: the first page.
    pub token: Option<String>,
    /// Number of items to skip before the page.
    pub skip: u32,
    pub order: Order,
}

impl PageRequest {
    /// Returns the number of items of the page: the requested size within its bounds.
    pub fn effective_size(&self) -> usize {
        let size = if self.size == 0 { crate::limits::PAGE_SIZE_DEFAULT } else { self.size };
        size.min(crate::limits::PAGE_SIZE_MAX) as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Order {
    /// By creation, newest first.
    #[default]
    Newest,
    /// By creation, oldest first.
    Oldest,
    /// By name, A first, without regard to case.
    Name,
    /// By name, Z first, without regard to case.
    NameDescending,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in the requested order.
    pub items: Vec<T>,
    /// Token of the next page. None: this is the last page.
    pub next: Option<String>,
    /// Number of items of the complete list. A store may count exactly only up to a bound of at least 1,024.
    pub total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};

    #[test]
    fn the_size_of_a_page_has_a_default_and_a_maximum() {
        for (requested, size) in
            [(0, PAGE_SIZE_DEFAULT), (7, 7), (PAGE_SIZE_MAX, PAGE_SIZE_MAX), (PAGE_SIZE_MAX + 1, PAGE_SIZE_MAX)]
        {
            let request = PageRequest { size: requested, ..PageRequest::default() };
            assert_eq!(request.effective_size(), size as usize, "{requested}");
        }
    }
}
