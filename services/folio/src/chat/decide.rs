//! The decision on one call: shows the call, reads the reply of the user, and opens the pager or the editor if the reply needs it.

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;

use super::command::{self, InputLine, Reply};
use super::pending::Pending;
use super::screen::ChatScreen;
use super::{card, current, edit, pager};
use crate::client::{Client, answer};
use crate::input::{Entry, Input};
use crate::terminal::{DIM, NOTE};

/// The prompt for a decision.
const DECISION: &str = "decision> ";
/// The prompt for the reason of a rejection.
const REASON: &str = "reason (Enter: none)> ";
/// Page size of a list of tools. No profile has more tools.
const TOOLS: i32 = 1_000;

/// The result of a prompt for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decided {
    /// The reply was applied. Not every reply decides a call: one may only show it.
    Applied,
    /// The user entered a line that is no reply, such as a message or a command.
    Other(InputLine),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The input ended.
    End,
}

/// The components that a decision uses.
pub(crate) struct Desk<'a> {
    pub(crate) client: &'a Client,
    pub(crate) screen: &'a mut ChatScreen,
    pub(crate) input: &'a mut Input,
    /// Id of the document of the conversation.
    pub(crate) document: &'a str,
}

impl Desk<'_> {
    /// Shows the card of the next undecided call, reads a reply, and applies it.
    pub(crate) async fn decide(&mut self, pending: &mut Pending) -> Result<Decided> {
        let Some((call, number, count)) = pending.next() else { return Ok(Decided::Applied) };
        let call = call.clone();
        let current = current::of(self.client, &call, self.document, pending.extraction_json()).await;
        let (may_approve, may_approve_all) = (pending.may_approve(&call), pending.may_approve_all());
        let (current, width) = (current.as_ref(), self.screen.columns());
        let card = card::Card { call: &call, number, count, may_approve, may_approve_all, current, width };
        self.screen.show(card::waiting(&card));
        let line = match self.input.line(DECISION).await {
            Entry::Line(line) => line,
            Entry::Interrupted => return Ok(Decided::Interrupted),
            Entry::End => return Ok(Decided::End),
        };
        if !self.input.has_prompts() {
            self.screen.line(DIM, &format!("decision: {}", line.trim()));
        }
        match command::parse_reply(&line) {
            Reply::Approve | Reply::Edit if !may_approve => {
                bail!("you may not approve this call; {}", command::choices(false, false))
            }
            Reply::ApproveAll if !pending.may_approve_rest() => {
                bail!("you may not approve all of these calls; decide them one by one")
            }
            Reply::Leave if may_approve => bail!("the call waits for your decision"),
            Reply::Approve => pending.decide(Decision::Approved(v1::Approved {})),
            Reply::ApproveAll => pending.approve_all(),
            Reply::Leave => pending.leave(),
            Reply::Show => pager::show(self.screen, &card::json(&call), self.input.is_terminal()).await,
            Reply::Edit => self.edit(&call, pending).await?,
            Reply::Reject(reason) => return self.reject(reason, pending).await,
            Reply::Other(line) => return Ok(Decided::Other(line)),
        }
        Ok(Decided::Applied)
    }

    /// Rejects the call. If `reason` is None, prompts the user for the reason.
    async fn reject(&mut self, reason: Option<String>, pending: &mut Pending) -> Result<Decided> {
        let reason = match reason {
            Some(reason) => reason,
            None => match self.input.line(REASON).await {
                Entry::Line(line) => line.trim().to_owned(),
                Entry::Interrupted => return Ok(Decided::Interrupted),
                Entry::End => return Ok(Decided::End),
            },
        };
        pending.decide(Decision::Rejected(v1::Rejected { reason }));
        Ok(Decided::Applied)
    }

    /// Opens the arguments in an editor. Valid arguments decide the call; invalid ones are kept as a draft.
    async fn edit(&mut self, call: &v1::Call, pending: &mut Pending) -> Result<()> {
        let original = card::json(call);
        let before = pending.draft.clone().unwrap_or_else(|| original.clone());
        let edited = edit::in_editor(&before, self.input.is_terminal()).await?;
        if edited.trim() == original.trim() {
            self.screen.line(NOTE, "(no change; decide about the original arguments)");
            return Ok(());
        }
        match edit::check(&edited, &self.schema_of(&call.name).await?).await {
            Ok(arguments_json) => {
                pending.decide(Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json }));
                Ok(())
            }
            Err(problem) => {
                pending.draft = Some(edited);
                bail!("the edited arguments are not sent: {problem}\n[e]dit opens them again")
            }
        }
    }

    async fn schema_of(&self, tool: &str) -> Result<String> {
        let request = v1::ListToolsRequest { page_size: TOOLS, ..v1::ListToolsRequest::default() };
        let tools = answer(self.client.conversations().list_tools(request)).await?.tools;
        let found = tools.into_iter().find(|found| found.name == tool);
        Ok(found.map(|found| found.parameters_json).unwrap_or_default())
    }
}
