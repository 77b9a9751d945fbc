//! The embedded store: what holds for it alone, and the suites that every adapter runs.

mod opening;
