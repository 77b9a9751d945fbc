import { Button, Group, Menu, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useLocation } from "wouter";
import { useApi } from "../api/api.js";
import { adviceFor } from "../errors/advice.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatCount } from "../format.js";
import { usePermits } from "../session/session_context.js";
import type { NewStackState } from "../stacks/stacks_view.js";
import { each, type Outcome } from "./each.js";
import { BUILT_IN, PromptSelect } from "./prompt_select.js";

interface BulkActionsProps {
  readonly documents: readonly v1.Document[];
  readonly tags: readonly v1.Tag[];
  readonly onDone: () => void;
}

/** The actions on the selected documents: tag, extract, new stack, delete. */
export function BulkActions({ documents, tags, onDone }: BulkActionsProps) {
  const api = useApi();
  const queries = useQueryClient();
  const mayExtract = usePermits(v1.Role.MEMBER, v1.Scope.EXTRACTIONS);
  const [, navigate] = useLocation();
  const stack = () => navigate("/stacks", { state: { stackDocuments: documents.map(({ documentId, name }) => [documentId, name]) } satisfies NewStackState });
  const [isExtractOpen, extract] = useDisclosure();
  const [isDeleteOpen, remove] = useDisclosure();

  const report = (verb: string, { done, failed }: Outcome<v1.Document>) => {
    void queries.invalidateQueries({ queryKey: ["documents"] });
    const first = failed[0];
    notifications.show({
      color: first === undefined ? "green" : "red",
      title: `${done.length} of ${done.length + failed.length} documents ${verb}`,
      message: first === undefined ? "" : adviceFor(first.error).text,
    });
    if (first === undefined) onDone();
  };
  const tagged = useMutation({
    mutationFn: ({ tagId, isAdded }: { tagId: string; isAdded: boolean }) =>
      each(documents, ({ documentId, tagIds, etag }) => {
        const rest = tagIds.filter((id) => id !== tagId);
        const document = { documentId, etag, tagIds: isAdded ? [...rest, tagId] : rest };
        return api.service(v1.DocumentService).updateDocument({ document, updateMask: { paths: ["tag_ids"] } });
      }),
    onSuccess: (outcome) => report("tagged", outcome),
  });
  const deleted = useMutation({
    mutationFn: () => each(documents, ({ documentId }) => api.service(v1.DocumentService).deleteDocument({ documentId })),
    onSuccess: (outcome) => { remove.close(); report("deleted", outcome); },
  });

  const item = (tag: v1.Tag) => {
    const isAdded = !documents.every(({ tagIds }) => tagIds.includes(tag.tagId));
    return (
      <Menu.Item key={tag.tagId} onClick={() => tagged.mutate({ tagId: tag.tagId, isAdded })}>
        <bdi>{tag.name}</bdi>{isAdded ? "" : " (remove)"}
      </Menu.Item>
    );
  };
  return (
    <Group gap="xs" role="toolbar" aria-label="Selected documents">
      <Text size="sm">{`${documents.length} selected`}</Text>
      <Menu>
        <Menu.Target><Button size="xs" variant="default" loading={tagged.isPending} disabled={tags.length === 0}>Tag</Button></Menu.Target>
        <Menu.Dropdown mah={320} style={{ overflowY: "auto" }}>{tags.map(item)}</Menu.Dropdown>
      </Menu>
      {mayExtract && <Button size="xs" variant="default" onClick={extract.open}>Extract</Button>}
      {mayExtract && <Button size="xs" variant="default" onClick={stack}>New stack</Button>}
      <Button size="xs" variant="default" color="red" c="red" onClick={remove.open}>Delete</Button>
      <Modal opened={isExtractOpen} onClose={extract.close} title="Extract data">
        <ExtractForm documents={documents} onDone={() => { extract.close(); onDone(); }} />
      </Modal>
      <Modal opened={isDeleteOpen} onClose={remove.close} title="Delete documents">
        <Stack>
          <Text size="sm">{`${documents.length} documents with their text and extractions are deleted permanently.`}</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={remove.close}>Keep</Button>
            <Button color="red" onClick={() => deleted.mutate()} loading={deleted.isPending}>Delete</Button>
          </Group>
        </Stack>
      </Modal>
    </Group>
  );
}

/** Starts a job that runs a prompt on the documents. */
function ExtractForm({ documents, onDone }: { readonly documents: readonly v1.Document[]; readonly onDone: () => void }) {
  const api = useApi();
  const [promptId, setPromptId] = useState(BUILT_IN);
  const run = useMutation({
    mutationFn: () => api.batch(promptId, { documentIds: documents.map(({ documentId }) => documentId) }),
    onSuccess: () => {
      notifications.show({ color: "green", title: "Batch started", message: `A job extracts ${formatCount(documents.length, "document")}.` });
      onDone();
    },
  });
  return (
    <Stack>
      <PromptSelect value={promptId} onChange={setPromptId} />
      {run.error !== null && <ErrorNotice error={run.error} actions={{ retry: () => run.mutate() }} />}
      <Button onClick={() => run.mutate()} loading={run.isPending}>{`Extract ${formatCount(documents.length, "document")}`}</Button>
    </Stack>
  );
}
