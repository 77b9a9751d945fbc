//! The profiles: one agent and one file each.

mod document;
mod extraction;

use folio_types::profile::Profile;

pub(crate) fn all() -> Vec<Profile> {
    vec![document::profile(), extraction::profile()]
}
