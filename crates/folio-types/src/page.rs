//! Pages of lists.

use serde::{Deserialize, Serialize};

/// The part of a list that is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The largest number of items, 1 to [`crate::limits::PAGE_SIZE_MAX`]; 0: the default.
    pub size: u32,
    /// The end of the page before: opaque to clients, made and checked by the store.
    pub token: Option<String>,
    /// The number of items to skip first.
    pub skip: u32,
    /// The order of the list.
    pub order: Order,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { size: crate::limits::PAGE_SIZE_DEFAULT, token: None, skip: 0, order: Order::default() }
    }
}

/// The order of a list.
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

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in the requested order.
    pub items: Vec<T>,
    /// The token of the next page; none: this is the last page.
    pub next: Option<String>,
    /// The number of items of the whole list.
    pub total: u64,
}
