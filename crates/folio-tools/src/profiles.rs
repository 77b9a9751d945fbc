//! The profiles. Each profile is an agent, and has a file of its own. The agents of the ingestion network share one.

mod assistant;
mod auto_create;
mod coordinator;
mod document;
mod extraction;
mod ingestion;
mod stack;
mod stack_row;

use folio_types::profile::Profile;

use crate::auto_create::Options;

pub(crate) fn all(options: &Options) -> Vec<Profile> {
    let others = [
        document::profile(),
        extraction::profile(),
        auto_create::profile(options),
        coordinator::profile(),
        assistant::profile(),
        stack::profile(),
        stack_row::profile(),
    ];
    others.into_iter().chain(ingestion::profiles()).collect()
}
