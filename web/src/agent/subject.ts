// The subjects of conversations: the threads that a panel or a view lists, and the start of a new one.

/** The agent of a document. */
export const DOCUMENT = "document";
/** The agent that divides a request into tasks, which other agents perform. */
export const COORDINATOR = "coordinator";
/** The agent that answers questions about all documents. Its tools only read. */
export const ASSISTANT = "assistant";
/** The agent of the table of a stack. */
export const STACK = "stack";

export interface Subject {
  /** Identifies the list of threads. */
  readonly key: string;
  /** The agents of the threads. A new thread has the first one, unless the visitor chooses another one. */
  readonly profiles: readonly [string, ...string[]];
  /** A condition on the threads in addition to their agents. Empty: none. */
  readonly filter: string;
  /** True: new threads have the same title, so that a list also shows the times of their creation. */
  readonly isListedByTime?: boolean;
  /** Creates the thread of a new conversation, once for each request id. Undefined: the first message creates it. */
  readonly createThread?: (requestId: string) => Promise<string>;
  /** The reason for which no conversation can begin, for people. Undefined: one can. */
  readonly refusal?: string;
  /** The documents of a new thread. */
  readonly documentIds: readonly string[];
  /** Keys of the resources that each message mentions. */
  readonly mentions: readonly string[];
  /** The texts before the first message. */
  readonly title: string;
  readonly text: string;
  readonly placeholder: string;
}

/** Returns the subject of the conversations about a document. Agents of jobs have threads about it, too, which it does not list. */
export function documentSubject(documentId: string): Subject {
  return {
    key: documentId,
    profiles: [DOCUMENT, COORDINATOR],
    filter: `document=${documentId}`,
    documentIds: [documentId],
    mentions: [],
    title: "Ask about this document",
    text: "The agent answers from the document, and can create schemas, prompts and extractions. It asks before it changes something.",
    placeholder: "Ask about the document, or what the agent should do",
  };
}

/** Returns the subject of the conversations about the table of a stack. A new thread has the name of the stack. */
export function stackSubject(stackId: string, createThread: (requestId: string) => Promise<string>): Subject {
  return {
    key: stackId,
    profiles: [STACK],
    filter: `stack=${stackId}`,
    isListedByTime: true,
    createThread,
    documentIds: [],
    mentions: [],
    title: "Work on the table with an agent",
    text: "The agent reads a sample of the documents and proposes columns, which you approve or edit.",
    placeholder: "Ask for columns, or what the agent should do",
  };
}

/** Returns the filter of the threads of one agent. */
export function threadFilter({ filter }: Subject, profile: string): string {
  return [filter, `profile=${profile}`].filter((condition) => condition !== "").join(" ");
}

/** Returns true if the tools of the agent only read, so that no call waits for a decision by default. */
export function isReadOnly({ profiles }: Subject): boolean {
  return profiles[0] === ASSISTANT;
}

/** Returns true if the visitor may choose another agent for a new thread. */
export function isDivisible({ profiles }: Subject): boolean {
  return profiles.includes(COORDINATOR);
}
