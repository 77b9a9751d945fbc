// The uploads of a tab. Files are sent a few at a time, so that their connections do not block other calls.
import { useQueryClient } from "@tanstack/react-query";
import { randomId, type UploadOptions } from "folio-client";
import { useCallback, useRef, useState } from "react";
import { useApi } from "../api/api.js";

/** Number of files that are sent at once. */
const CONCURRENT = 2;
/** Maximum number of files of one drop. */
export const FILES_MAX = 100;
const NAME_MAX = 200;
/** Maximum number of credits that a visitor may enter; the server accepts as many. */
const BUDGET_MAX = 1_000_000_000_000n;

/** A file that is sent, or was sent. */
export interface Upload {
  readonly key: number;
  readonly name: string;
  /** The part that was sent, between 0 and 1. */
  readonly progress: number;
  readonly documentId: string | undefined;
  readonly error: unknown;
}

/** A file that waits, or that may be sent again. */
interface QueuedUpload {
  readonly key: number;
  readonly file: File;
  readonly options: UploadOptions;
}

/** Returns the name of a document for a file: the server refuses longer names, and white space at their ends. */
export function documentName(fileName: string): string {
  const name = [...fileName.trim()];
  if (name.length <= NAME_MAX) return name.join("") || "unnamed";
  const end = fileName.trim().match(/\.[^.\s]{1,16}$/)?.[0] ?? "";
  return name.slice(0, NAME_MAX - [...end].length).join("").trim() + end;
}

/** Returns the credits of a text. Undefined: the text is no number between 1 and the maximum, or is empty. */
export function budgetOf(text: string): bigint | undefined {
  if (!/^\d{1,13}$/.test(text)) return undefined;
  const credits = BigInt(text);
  return credits >= 1n && credits <= BUDGET_MAX ? credits : undefined;
}

/** `autoCreate`: whether an agent makes a proposal for each file; undefined: the organization decides. `creditBudget`: the credits that each of these agents may use; undefined: the server decides. Returns the uploads, the number of files of the last drop that exceeded the maximum, and the functions that add files, send a failed one again, and remove the ended uploads. */
export function useUploads(tagIds: readonly string[], autoCreate: boolean | undefined, creditBudget: bigint | undefined) {
  const api = useApi();
  const queries = useQueryClient();
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const [refused, setRefused] = useState(0);
  const waiting = useRef<QueuedUpload[]>([]);
  const failed = useRef(new Map<number, QueuedUpload>());
  const running = useRef(0);
  const nextKey = useRef(1);

  const work = useCallback(async () => {
    if (running.current >= CONCURRENT) return;
    running.current += 1;
    const change = (key: number, changes: Partial<Upload>) =>
      setUploads((all) => all.map((upload) => (upload.key === key ? { ...upload, ...changes } : upload)));
    for (let next = waiting.current.shift(); next !== undefined; next = waiting.current.shift()) {
      const { key, file, options } = next;
      const progress = (sent: number, size: number) => change(key, { progress: size === 0 ? 1 : sent / size });
      try {
        const { documentId } = await api.upload(file, { ...options, progress });
        change(key, { progress: 1, documentId });
      } catch (error) {
        failed.current.set(key, next);
        change(key, { error });
      }
      void queries.invalidateQueries({ queryKey: ["documents"] });
    }
    running.current -= 1;
  }, [api, queries]);

  const add = useCallback((files: readonly File[]) => {
    const added = files.slice(0, FILES_MAX).map((file) => {
      // A lost answer and another attempt create one document.
      const options = { requestId: randomId(), name: documentName(file.name), tagIds, ...(autoCreate !== undefined && { autoCreate }), ...(creditBudget !== undefined && { creditBudget }) };
      return { key: nextKey.current++, file, options };
    });
    setRefused(files.length - added.length);
    waiting.current.push(...added);
    setUploads((all) => [...all, ...added.map(({ key, file }) => ({ key, name: file.name, progress: 0, documentId: undefined, error: undefined }))]);
    for (let workers = 0; workers < CONCURRENT; workers++) void work();
  }, [work, tagIds, autoCreate, creditBudget]);

  const retry = useCallback((key: number) => {
    const upload = failed.current.get(key);
    if (upload === undefined) return;
    failed.current.delete(key);
    waiting.current.push(upload);
    setUploads((all) => all.map((one) => (one.key === key ? { ...one, progress: 0, error: undefined } : one)));
    void work();
  }, [work]);

  const clear = useCallback(() => {
    failed.current.clear();
    setRefused(0);
    setUploads((all) => all.filter(({ documentId, error }) => documentId === undefined && error === undefined));
  }, []);
  return { uploads, refused, add, retry, clear };
}
