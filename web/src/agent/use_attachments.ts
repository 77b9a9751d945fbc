// The images of the next message: a file is stored when it is chosen, and the message names the stored images.
import { useQueryClient } from "@tanstack/react-query";
import { randomId, v1 } from "folio-client";
import { useCallback, useRef, useState } from "react";
import { useApi } from "../api/api.js";
import { acceptedFiles, attached, type Attachment } from "./images.js";
import { imageKey } from "./queries.js";

export type Attachments = ReturnType<typeof useAttachments>;

/** `initial`: stored images. Returns the images, the problems of files that were not accepted, and the functions that change them. */
export function useAttachments(initial: readonly v1.MessageImage[]) {
  const api = useApi();
  const queries = useQueryClient();
  const [items, setItems] = useState<readonly Attachment[]>(() => attached(initial));
  const [problems, setProblems] = useState<readonly string[]>([]);
  // Files are sent one after another: the server bounds the memory for incomplete messages of a user.
  const sent = useRef<Promise<void>>(Promise.resolve());

  const change = (key: string, changes: Partial<Attachment>) => setItems((all) => all.map((item) => (item.key === key ? { ...item, ...changes } : item)));
  const send = async (key: string, file: File) => {
    try {
      const data = new Uint8Array(await file.arrayBuffer());
      const { image } = await api.service(v1.ConversationService).uploadImage({ data, requestId: key });
      if (image === undefined) throw new Error("the server returned no image");
      // The preview needs no download.
      queries.setQueryData<Blob>(imageKey(image.imageId), file);
      change(key, { image });
    } catch (error) {
      change(key, { error });
    }
  };
  const upload = (key: string, file: File) => {
    sent.current = sent.current.then(() => send(key, file));
  };
  const add = (files: readonly File[]) => {
    const { accepted, problems } = acceptedFiles(files, items.length);
    const added = accepted.map((file) => ({ key: randomId(), name: file.name, file, image: undefined, error: undefined }));
    setProblems(problems);
    setItems((all) => [...all, ...added]);
    for (const { key, file } of added) upload(key, file);
  };
  const retry = ({ key, file }: Attachment) => {
    if (file === undefined) return;
    change(key, { error: undefined });
    upload(key, file);
  };
  const remove = (key: string) => setItems((all) => all.filter((item) => item.key !== key));
  const clearProblems = () => setProblems([]);
  /** Replaces the images by stored ones. */
  const put = useCallback((images: readonly v1.MessageImage[]) => {
    setItems(attached(images));
    setProblems([]);
  }, []);
  /** Brings back the images of a message that was refused, unless others were chosen. */
  const restore = useCallback((images: readonly v1.MessageImage[]) => setItems((all) => (all.length > 0 ? all : attached(images))), []);

  const images = items.flatMap(({ image }) => (image === undefined ? [] : [image]));
  return { items, problems, images, isReady: images.length === items.length, add, retry, remove, clearProblems, put, restore };
}
