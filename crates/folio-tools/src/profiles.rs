//! The profiles. Each profile is an agent, and has a file of its own.

mod auto_create;
mod coordinator;
mod document;
mod extraction;
mod stack;
mod stack_row;

use folio_types::profile::Profile;

use crate::auto_create::Options;

pub(crate) fn all(options: &Options) -> Vec<Profile> {
    vec![
        document::profile(),
        extraction::profile(),
        auto_create::profile(options),
        coordinator::profile(),
        stack::profile(),
        stack_row::profile(),
    ]
}
