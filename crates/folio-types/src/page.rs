//! Lists come in pages.

use serde::{Deserialize, Serialize};

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// How many items at most (1 to [`crate::limits::PAGE_SIZE_MAX`]).
    pub size: u32,
    /// Where the last page ended: opaque to clients, made by the store, checked by it.
    pub token: Option<String>,
    /// How many items to pass over first.
    pub skip: u32,
    /// The order.
    pub order: Order,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { size: crate::limits::PAGE_SIZE_DEFAULT, token: None, skip: 0, order: Order::default() }
    }
}

/// By what a list is ordered.
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
    /// The items.
    pub items: Vec<T>,
    /// What to ask the next page with; none: this was the last.
    pub next: Option<String>,
    /// How many items the whole list has.
    pub total: u64,
}
