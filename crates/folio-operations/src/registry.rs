//! The registry of all operations.

use crate::GROUPS;
use crate::declaration::Declaration;

pub fn operations() -> impl Iterator<Item = &'static Declaration> {
    GROUPS.iter().copied().flatten()
}

pub fn declaration(service: &str, name: &str) -> Option<&'static Declaration> {
    operations().find(|operation| operation.name == name && operation.service.name == service)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use folio_types::Role;
    use folio_types::access::Scope;

    use super::*;
    use crate::declaration::{Access, Audit, Class, Effect, Quota};

    /// Returns the row of an operation in `docs/operation-table.md`.
    fn row(operation: &Declaration) -> String {
        let role = match operation.access {
            Access::Public => "–",
            Access::Account => "account",
            _ if operation.platform => "platform",
            Access::Organization | Access::Installation => operation.role.as_str(),
        };
        let scope = operation.scope().map_or("–", |scope| scope.as_str());
        let is_repeatable = operation.effect == Effect::Change && operation.access != Access::Public;
        let request_id = if is_repeatable { "yes" } else { "–" };
        let audit = if operation.audit == Audit::Unrecorded { "–" } else { "yes" };
        let class = match operation.class {
            Class::Short => "short",
            Class::Long => "long",
        };
        let quota = match operation.quota {
            Quota::Requests => "–",
            Quota::Storage => "storage",
            Quota::ModelCalls => "model calls",
            Quota::Turns => "turns",
        };
        let name = operation.name;
        format!("| `{name}` | {role} | {scope} | {class} | {request_id} | {audit} | {quota} |")
    }

    #[test]
    fn the_table_of_the_docs_states_the_declarations() {
        let header = concat!(
            "# Operations\n\nThis table lists the operations of the API. \"platform\" is the administrator of the ",
            "installation, \"account\" a user with a session or an\naccount token; \"–\" requires no credential. The class ",
            "selects the [bounds](settings.md#the-public-api) on concurrent calls. Every operation\ncounts against ",
            "`requests_per_second`; the last column names the other quotas: an operation cannot reach the component that ",
            "counts a\nquota without declaring it. `FOLIO_WRITE_DOCS=1 cargo test -p folio-operations table` writes the ",
            "table from the declarations in\n`crates/folio-operations`.\n\n",
            "| operation | role | scope | class | `request_id` | audit entry | quota besides requests |\n",
            "|---|---|---|---|---|---|---|\n",
        );
        let rows: String = operations().map(|operation| row(operation) + "\n").collect();
        let table = format!("{header}{rows}");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operation-table.md");
        if std::env::var_os("FOLIO_WRITE_DOCS").is_some() {
            std::fs::write(path, &table).unwrap();
        }
        let remedy = "docs/operation-table.md differs from the declarations; run the test with FOLIO_WRITE_DOCS=1";
        assert_eq!(std::fs::read_to_string(path).unwrap(), table, "{remedy}");
    }

    #[test]
    fn names_are_unique() {
        let names: Vec<&str> = operations().map(|operation| operation.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn reads_need_a_viewer_and_changes_at_least_a_member() {
        for operation in operations().filter(|operation| operation.role < Role::Admin) {
            // A viewer may not decide, so lists and previews of items that wait for a decision require the role member.
            let is_of_decisions = operation.name.ends_with("PendingApprovals")
                || operation.name == "PreviewToolCall"
                || operation.service.name == "InboxService";
            // A viewer runs no extractions, so the estimate of their credit requires the role member.
            let is_estimate = operation.name == "GetExtractionEstimate";
            let is_read = operation.effect == Effect::Read && !is_of_decisions && !is_estimate;
            assert_eq!(operation.role == Role::Viewer, is_read, "{}", operation.name);
        }
    }

    #[test]
    fn a_name_states_the_effect() {
        for operation in operations() {
            let verbs = [
                "Get",
                "List",
                "Validate",
                "Watch",
                "Download",
                "Preview",
                "Export",
                "Propose",
                "Search",
                "AskTable",
                "DiscoverMcpTools",
                "TestPolicy",
            ];
            let reads = verbs.iter().any(|verb| operation.name.starts_with(verb));
            assert_eq!(operation.effect == Effect::Read, reads, "{}", operation.name);
        }
    }

    #[test]
    fn operations_of_admins_belong_to_administration_and_their_changes_are_recorded() {
        for operation in operations() {
            let name = operation.name;
            if operation.role == Role::Admin {
                assert_eq!(operation.scope(), Some(Scope::Administration), "{name}");
            }
            let is_recorded = operation.audit == Audit::Recorded;
            // Model calls change only the balance, which has its own records.
            let is_model_call = ["TestProvider", "CreateCompletion", "StreamCompletion"].contains(&name);
            let is_change = operation.effect == Effect::Change && !is_model_call;
            // A member decides on the work of an unattended run and on questions of ingestion, and starts and controls jobs.
            let decisions =
                ["AcceptProposal", "RejectProposal", "AnswerDictionaryQuestion", "DismissDictionaryQuestion"];
            let decides = decisions.contains(&name);
            let jobs =
                ["RunExtractions", "StartIngestion", "FillStack", "RetryJob", "CancelJob", "PauseJob", "ResumeJob"];
            let controls = jobs.contains(&name);
            let is_of_account = operation.access == Access::Account;
            let is_expected = decides || controls || (operation.role == Role::Admin || is_of_account) && is_change;
            assert_eq!(is_recorded, is_expected, "{name}");
        }
    }
}
