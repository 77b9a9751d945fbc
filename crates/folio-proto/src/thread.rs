//! Parses the requests that change threads into the commands that the conversation runs, and encodes these commands for
//! another process.

use folio_history::command::{CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand, RenameThreadCommand};
use folio_resources::fields::check_name;
use folio_types::{Result, limits};

use crate::{fields, v1};

pub fn create(request: &v1::CreateThreadRequest) -> Result<CreateThreadCommand> {
    Ok(CreateThreadCommand {
        profile: fields::optional_word("profile", &request.profile)?,
        documents: fields::ids("document_ids", &request.document_ids, limits::DOCUMENTS_PER_THREAD)?,
        title: title(&request.title)?.unwrap_or_default(),
        model: fields::optional_word("model", &request.model)?,
        request_id: fields::request_id(&request.request_id)?,
    })
}

pub fn rename(request: &v1::RenameThreadRequest) -> Result<RenameThreadCommand> {
    Ok(RenameThreadCommand {
        thread: fields::id("thread_id", &request.thread_id)?,
        title: fields::required("title", title(&request.title)?)?,
        request_id: fields::request_id(&request.request_id)?,
    })
}

pub fn delete(request: &v1::DeleteThreadRequest) -> Result<DeleteThreadCommand> {
    Ok(DeleteThreadCommand {
        thread: fields::id("thread_id", &request.thread_id)?,
        request_id: fields::request_id(&request.request_id)?,
    })
}

pub fn fork(request: &v1::ForkThreadRequest) -> Result<ForkThreadCommand> {
    Ok(ForkThreadCommand {
        thread: fields::id("thread_id", &request.thread_id)?,
        message_count: request.message_count,
        title: title(&request.title)?,
        request_id: fields::request_id(&request.request_id)?,
    })
}

pub fn encode_create(command: &CreateThreadCommand) -> v1::CreateThreadRequest {
    v1::CreateThreadRequest {
        profile: fields::text_of(command.profile.as_ref()),
        document_ids: command.documents.iter().map(ToString::to_string).collect(),
        title: command.title.clone(),
        model: fields::text_of(command.model.as_ref()),
        request_id: fields::text_of(command.request_id.as_ref()),
    }
}

pub fn encode_rename(command: &RenameThreadCommand) -> v1::RenameThreadRequest {
    v1::RenameThreadRequest {
        thread_id: command.thread.to_string(),
        title: command.title.clone(),
        request_id: fields::text_of(command.request_id.as_ref()),
    }
}

pub fn encode_delete(command: &DeleteThreadCommand) -> v1::DeleteThreadRequest {
    v1::DeleteThreadRequest {
        thread_id: command.thread.to_string(),
        request_id: fields::text_of(command.request_id.as_ref()),
    }
}

pub fn encode_fork(command: &ForkThreadCommand) -> v1::ForkThreadRequest {
    v1::ForkThreadRequest {
        thread_id: command.thread.to_string(),
        message_count: command.message_count,
        title: fields::text_of(command.title.as_ref()),
        request_id: fields::text_of(command.request_id.as_ref()),
    }
}

/// Parses a title. Empty: None.
fn title(text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    check_name("title", text)?;
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::{DocumentId, ThreadId};

    #[test]
    fn commands_survive_encoding() {
        let (thread, request_id) = (ThreadId::derive(&["t"]), Some("r".parse().unwrap()));
        let create_command = CreateThreadCommand {
            profile: Some("document".into()),
            documents: vec![DocumentId::derive(&["d"])],
            title: "Bills".into(),
            model: Some("m".into()),
            request_id: request_id.clone(),
        };
        assert_eq!(create(&encode_create(&create_command)).unwrap(), create_command);
        let rename_command =
            RenameThreadCommand { thread: thread.clone(), title: "New".into(), request_id: request_id.clone() };
        assert_eq!(rename(&encode_rename(&rename_command)).unwrap(), rename_command);
        let delete_command = DeleteThreadCommand { thread: thread.clone(), request_id: None };
        assert_eq!(delete(&encode_delete(&delete_command)).unwrap(), delete_command);
        let fork_command = ForkThreadCommand { thread, message_count: Some(4), title: None, request_id };
        assert_eq!(fork(&encode_fork(&fork_command)).unwrap(), fork_command);
    }

    #[test]
    fn a_title_that_is_blank_or_too_long_is_refused() {
        let thread_id = ThreadId::derive(&["t"]).to_string();
        for title in ["", "  ", &"x".repeat(limits::NAME_CHARS + 1)] {
            let request =
                v1::RenameThreadRequest { thread_id: thread_id.clone(), title: title.into(), ..Default::default() };
            let error = rename(&request).expect_err(title);
            assert_eq!(error.violations[0].field, "title");
        }
    }
}
