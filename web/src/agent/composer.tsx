import { Button, FileButton, Group, MultiSelect, Select, Stack, Switch, Textarea } from "@mantine/core";
import { v1 } from "folio-client";
import { useEffect, useRef, useState, type ClipboardEvent, type KeyboardEvent } from "react";
import { AttachmentList } from "./attachment_list.js";
import { IMAGE_TYPES } from "./images.js";
import { beginsMention, SEARCH_MAX, useMentions } from "./mentions.js";
import { useModels, useTools } from "./queries.js";
import { isDivisible, isReadOnly, type Subject } from "./subject.js";
import type { Attachments } from "./use_attachments.js";

/** Maximum size of a message in bytes. */
const TEXT_BYTES_MAX = 128 * 1024;
/** Maximum number of mentions of a message. */
const MENTIONS_MAX = 20;

export type ApprovalMode = "ask" | "all" | "tools";

/** The choices of the visitor for the next messages. */
export interface Draft {
  readonly text: string;
  /** Empty: the model of the thread or of the organization. */
  readonly model: string;
  readonly mode: ApprovalMode;
  readonly autoApprovedTools: readonly string[];
  /** Keys of mentioned resources. */
  readonly mentions: readonly string[];
  /** Number of messages to keep. Undefined: all. */
  readonly keep: number | undefined;
  /** True if a new conversation has the agent that divides a request into tasks. */
  readonly isDivided: boolean;
}

export const EMPTY_DRAFT: Draft = { text: "", model: "", mode: "ask", autoApprovedTools: [], mentions: [], keep: undefined, isDivided: false };

interface ComposerProps {
  readonly subject: Subject;
  readonly draft: Draft;
  readonly onDraft: (draft: Draft) => void;
  readonly attachments: Attachments;
  /** Empty: the conversation has not begun. */
  readonly threadId: string;
  /** True before the first message of a conversation. */
  readonly isNew: boolean;
  readonly isRunning: boolean;
  /** True if calls wait: sending replaces them. */
  readonly isWaiting: boolean;
  readonly onSend: () => void;
  readonly onStop: () => void;
}

/** Returns true if the draft can be sent. */
export function isSendable({ text }: Draft): boolean {
  return text.trim() !== "" && new TextEncoder().encode(text).length <= TEXT_BYTES_MAX;
}

/** Writes a message. Keys: Enter sends, Shift Enter starts a line, @ mentions a schema, a prompt or a tag. Images are chosen or pasted. */
export function Composer({ subject, draft, onDraft, attachments, threadId, isNew, isRunning, isWaiting, onSend, onStop }: ComposerProps) {
  const models = useModels();
  const tools = useTools(subject.profiles[0]);
  const [mentionText, setMentionText] = useState("");
  const mentions = useMentions(mentionText, draft.mentions);
  const input = useRef<HTMLTextAreaElement>(null);
  const mentionInput = useRef<HTMLInputElement>(null);
  const resetFiles = useRef<() => void>(null);
  const canSend = isSendable(draft) && attachments.isReady;
  const change = (changes: Partial<Draft>) => onDraft({ ...draft, ...changes });
  useEffect(() => {
    if (draft.keep !== undefined) input.current?.focus();
  }, [draft.keep]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === "@" && mentionInput.current !== null && beginsMention(draft.text, event.currentTarget.selectionStart)) {
      event.preventDefault();
      mentionInput.current.focus();
    }
    // Enter also ends the composition of CJK text.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    if (canSend && !isRunning && !isWaiting) onSend();
  };
  const onPaste = (event: ClipboardEvent<HTMLTextAreaElement>) => {
    const { files } = event.clipboardData;
    // Office programs copy a text also as an image.
    if (files.length === 0 || event.clipboardData.getData("text/plain") !== "") return;
    event.preventDefault();
    attachments.add([...files]);
  };
  const writing = tools.data?.filter(({ access }) => access === v1.ToolAccess.READ_WRITE) ?? [];
  const label = isWaiting ? "Supersede the waiting calls and send" : draft.keep === undefined ? "Send" : "Ask again";
  return (
    <Stack gap={6} component="section" aria-label="Message">
      <Textarea
        ref={input}
        aria-label="Message to the agent"
        placeholder={subject.placeholder}
        value={draft.text}
        onChange={(event) => change({ text: event.currentTarget.value })}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        autosize
        minRows={2}
        maxRows={10}
        dir="auto"
      />
      <AttachmentList attachments={attachments} threadId={threadId} />
      <MultiSelect
        ref={mentionInput}
        size="xs"
        aria-label="Mentions"
        placeholder={draft.mentions.length === 0 ? "@ mention a schema, a prompt or a tag" : ""}
        data={mentions}
        value={[...draft.mentions]}
        onChange={(mentions) => change({ mentions })}
        maxValues={MENTIONS_MAX}
        searchable
        searchValue={mentionText}
        onSearchChange={(text) => setMentionText(text.slice(0, SEARCH_MAX))}
        hidePickedOptions
        onKeyDown={(event) => event.key === "Escape" && input.current?.focus()}
      />
      <Group gap="xs" justify="space-between">
        <Group gap="xs">
          <Select
            size="xs"
            aria-label="Model"
            placeholder="Default model"
            data={models.data?.models.map(({ name }) => name) ?? []}
            value={draft.model || null}
            onChange={(model) => change({ model: model ?? "" })}
            clearable
            searchable
            w={170}
          />
          {!isReadOnly(subject) && (
            <Select
              size="xs"
              aria-label="Approval"
              data={[{ value: "ask", label: "Ask every time" }, { value: "all", label: "Approve all calls" }, { value: "tools", label: "Approve some tools" }]}
              value={draft.mode}
              onChange={(mode) => change({ mode: mode === "all" || mode === "tools" ? mode : "ask" })}
              allowDeselect={false}
              w={160}
            />
          )}
          <FileButton multiple accept={IMAGE_TYPES.join(",")} resetRef={resetFiles} onChange={(files) => { attachments.add(files); resetFiles.current?.(); }} inputProps={{ "aria-label": "Images" }}>
            {(props) => <Button {...props} size="xs" variant="default">Attach images</Button>}
          </FileButton>
          {isNew && isDivisible(subject) && <Switch size="xs" label="Divide into tasks" title="An agent divides the request into tasks, which other agents perform" checked={draft.isDivided} onChange={(event) => change({ isDivided: event.currentTarget.checked })} />}
        </Group>
        {isRunning ? <Button size="xs" color="red" variant="light" onClick={onStop}>Stop</Button> : <Button size="xs" onClick={onSend} disabled={!canSend}>{label}</Button>}
      </Group>
      {draft.mode === "tools" && (
        <MultiSelect size="xs" aria-label="Tools that run without approval" data={writing.map(({ name }) => name)} value={[...draft.autoApprovedTools]} onChange={(autoApprovedTools) => change({ autoApprovedTools })} searchable />
      )}
    </Stack>
  );
}
