//! The profiles: one agent and one file each.

mod auto_create;
mod document;
mod extraction;

use folio_types::profile::Profile;

use crate::auto_create::Options;

pub(crate) fn all(options: &Options) -> Vec<Profile> {
    vec![document::profile(), extraction::profile(), auto_create::profile(options)]
}
