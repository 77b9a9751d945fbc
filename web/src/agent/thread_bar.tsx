import { ActionIcon, Button, Group, Menu, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { v1 } from "folio-client";
import { useState } from "react";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { usePermits } from "../session/session_context.js";
import { useDeleteThread, useRenameThread, useThreads } from "./queries.js";
import type { Subject } from "./subject.js";

const TITLE_MAX = 200;

interface ThreadBarProps {
  readonly subject: Subject;
  readonly threadId: string;
  /** Empty: a new thread. */
  readonly onSelect: (threadId: string) => void;
}

/** The threads of a subject: new, load, rename, delete. */
export function ThreadBar({ subject, threadId, onSelect }: ThreadBarProps) {
  const threads = useThreads(subject);
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.CONVERSATIONS);
  const rename = useRenameThread(subject);
  const remove = useDeleteThread(subject);
  const [isRenaming, renaming] = useDisclosure();
  const [isDeleting, deleting] = useDisclosure();
  const current = threads.data?.find((thread) => thread.threadId === threadId);
  const [title, setTitle] = useState("");
  const options = (threads.data ?? []).map(({ threadId, title, createTime }) => ({ value: threadId, label: [title || "Untitled", ...(subject.isListedByTime === true ? [formatTime(createTime)] : [])].join(" · ") }));
  return (
    <Stack gap={4}>
      <Group gap="xs" wrap="nowrap">
        <Select size="xs" aria-label="Conversation" placeholder="New conversation" data={options} value={threadId || null} onChange={(id) => onSelect(id ?? "")} flex={1} searchable nothingFoundMessage="No conversation" />
        {canWrite && <Button size="xs" variant="default" onClick={() => onSelect("")}>New</Button>}
        {canWrite && current !== undefined && (
          <Menu position="bottom-end">
            <Menu.Target><ActionIcon variant="default" aria-label="Actions of the conversation">⋯</ActionIcon></Menu.Target>
            <Menu.Dropdown>
              <Menu.Item onClick={() => { setTitle(current.title); renaming.open(); }}>Rename</Menu.Item>
              <Menu.Item color="red" onClick={deleting.open}>Delete</Menu.Item>
            </Menu.Dropdown>
          </Menu>
        )}
      </Group>
      {threads.error !== null && <ErrorNotice error={threads.error} actions={{ retry: () => void threads.refetch() }} />}
      <Modal opened={isRenaming} onClose={renaming.close} title="Rename the conversation">
        <form onSubmit={(event) => { event.preventDefault(); rename.mutate({ threadId, title: title.trim() }, { onSuccess: renaming.close }); }}>
          <Stack>
            <TextInput label="Title" value={title} onChange={(event) => setTitle(event.currentTarget.value)} maxLength={TITLE_MAX} required data-autofocus />
            {rename.error !== null && <ErrorNotice error={rename.error} />}
            <Button type="submit" loading={rename.isPending} disabled={title.trim() === ""}>Rename</Button>
          </Stack>
        </form>
      </Modal>
      <Modal opened={isDeleting} onClose={deleting.close} title="Delete the conversation">
        <Stack>
          <Text size="sm">Its messages are deleted permanently. Schemas, prompts and extractions that it created are kept.</Text>
          {remove.error !== null && <ErrorNotice error={remove.error} />}
          <Button color="red" loading={remove.isPending} onClick={() => remove.mutate(threadId, { onSuccess: () => { deleting.close(); onSelect(""); } })}>Delete</Button>
        </Stack>
      </Modal>
    </Stack>
  );
}
