//! Documents: what survives a kill, what a large file does, and what health says when the disk fails.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use folio_proto::v1;
use v1::DocumentState;

use crate::client::{Client, decide_nothing};
use crate::sandbox::{Sandbox, Setup};
use crate::{LIMIT, within};
