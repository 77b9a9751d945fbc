//! The profiles: one agent and one file each.

mod document;

use folio_types::profile::Profile;

pub(crate) fn all() -> Vec<Profile> {
    vec![document::profile()]
}
