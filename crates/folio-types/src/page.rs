//! Pages of lists.

use serde::{Deserialize, Serialize};

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Maximum number of items, 1 to [`crate::limits::PAGE_SIZE_MAX`]. 0: the default.
    pub size: u32,
    /// Token of the previous page, opaque to clients. The store creates and validates it.
    pub token: Option<String>,
    /// Number of items to skip first.
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

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in the requested order.
    pub items: Vec<T>,
    /// Token of the next page. None: this is the last page.
    pub next: Option<String>,
    /// Number of items of the complete list.
    pub total: u64,
}
