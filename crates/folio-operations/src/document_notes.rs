//! Facts about documents that a page for people shows with their fields.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::{DocumentId, Result, UserId};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::documents::ListDocuments;
use crate::operation::Operation;

/// Returns which of the documents have an extraction, and the names of users. It is a part of [`ListDocuments`], and has its
/// declaration. Cost: one read for each document, 16 at a time, and one for all users.
#[derive(Debug, Clone, Serialize)]
pub struct GetDocumentNotes {
    /// Documents of a page. A document that does not exist has no extraction.
    pub documents: Vec<DocumentId>,
    pub users: BTreeSet<UserId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentNotes {
    /// The ids of the documents that have an extraction.
    pub extracted: BTreeSet<String>,
    /// The names of the users that are or were members of the organization.
    pub names: BTreeMap<UserId, String>,
}

impl Operation for GetDocumentNotes {
    const DECLARATION: Declaration = ListDocuments::DECLARATION;
    type Output = DocumentNotes;

    async fn run(self, context: &Context) -> Result<DocumentNotes> {
        let users: Vec<UserId> = self.users.into_iter().collect();
        let access = context.stores().access();
        let members = access.members_of(&context.principal().org, &users);
        let (extracted, members) = futures::try_join!(context.extracted(self.documents), members)?;
        let names = members.into_iter().flatten().map(|member| (member.user, member.name)).collect();
        Ok(DocumentNotes { extracted, names })
    }
}
