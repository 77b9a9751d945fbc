import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { fireEvent, screen, waitFor } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { refusal, renderPage, type Services } from "./page.js";

const image = (imageId: string) => ({ imageId, mediaType: "image/jpeg", width: 600, height: 400, sizeBytes: 3n });
const file = (name: string, type = "image/png", size = 4) => new File([new Uint8Array(size)], name, { type });

/** A conversation in memory. The id of an image is the size of its file. */
class FakeConversation {
  readonly uploads: v1.UploadImageRequest[] = [];
  readonly reads: v1.GetImageRequest[] = [];
  readonly chats: v1.ChatRequest[] = [];
  messages: MessageInitShape<typeof v1.MessageSchema>[] = [];
  refuseUpload: (() => never) | undefined;
  refuseChat: (() => never) | undefined;

  services(): Services {
    const { chats } = this;
    const refuseChat = () => this.refuseChat?.();
    return {
      document: {
        getDocument: () => ({ document: { documentId: "doc_1", name: "a.txt", mediaType: "text/plain", state: v1.DocumentState.READY } }),
        watchDocument: async function* () {
          yield { change: { case: "caughtUp" as const, value: {} } };
          await new Promise(() => undefined);
        },
      },
      thread: {
        listThreads: ({ filter }) => ({ threads: this.messages.length > 0 && filter.endsWith("profile=document") ? [{ threadId: "thr_1", title: "A conversation" }] : [] }),
        getThread: () => ({ thread: { threadId: "thr_1" }, messages: [...this.messages] }),
      },
      model: { listModels: () => ({}) },
      prompt: { listPrompts: () => ({}) },
      schema: { listSchemas: () => ({}) },
      tag: { listTags: () => ({}) },
      conversation: {
        listTools: () => ({}),
        getTurn: ({ turnId }) => ({ turn: { turnId, usage: { modelCalls: 1 } } }),
        uploadImage: (request) => {
          this.uploads.push(request);
          this.refuseUpload?.();
          return { image: image(`img_${request.data.length}`) };
        },
        getImage: (request) => {
          this.reads.push(request);
          return { image: image(request.imageId), data: new Uint8Array([255, 216, 255]) };
        },
        chat: async function* (request: v1.ChatRequest) {
          chats.push(request);
          refuseChat();
          yield { event: { turnId: "trn_1", number: 1n, kind: { case: "turnStarted" as const, value: { threadId: "thr_1", model: "m1" } } } };
          yield { event: { turnId: "trn_1", number: 2n, kind: { case: "completed" as const, value: { text: "One image." } } } };
        },
      },
    };
  }

  open() {
    return renderPage(this.services(), "/documents/doc_1?panel=agent");
  }
}

const message = () => screen.findByLabelText<HTMLTextAreaElement>("Message to the agent");
const drop = (...files: File[]) => fireEvent.drop(screen.getByTestId("drop-area"), { dataTransfer: { files, types: ["Files"] } });
const paste = (input: HTMLElement, text: string, ...files: File[]) => fireEvent.paste(input, { clipboardData: { files, getData: () => text } });

test("a chosen image is stored, and sent and shown with its message", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  const input = await message();
  await user.upload(screen.getByLabelText("Images"), file("a.png"));
  expect((await screen.findByRole("img", { name: "Image 1" })).getAttribute("src")).toMatch(/^blob:/);
  expect(fake.uploads.map(({ data, requestId }) => [data.length, requestId !== ""])).toEqual([[4, true]]);
  await user.type(input, "What is this?{Enter}");
  await waitFor(() => expect(fake.chats.map(({ text, imageIds }) => [text, imageIds])).toEqual([["What is this?", ["img_4"]]]));
  expect(await screen.findByRole("img", { name: "Image 1 of the message" })).toBeTruthy();
  expect(await screen.findByText("One image.")).toBeTruthy();
  expect(screen.queryByRole("list", { name: "Images of the message" })).toBeNull();
});

test("images are pasted and dropped, and unusable files are refused", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  const input = await message();
  // An office program copies a text also as an image.
  paste(input, "a text", file("text.png"));
  paste(input, "", file("pasted.png", "image/png", 1));
  expect(await screen.findByRole("img", { name: "Image 1" })).toBeTruthy();
  expect(fake.uploads).toHaveLength(1);
  drop(file("notes.txt", "text/plain"), file("large.png", "image/png", 8 * 1024 * 1024 + 1));
  expect(await screen.findByText("notes.txt is not a PNG, JPEG or WebP image.")).toBeTruthy();
  expect(screen.getByText("large.png has more than 8 MiB.")).toBeTruthy();
  drop(file("b.webp", "image/webp", 2), file("c.jpg", "image/jpeg", 3), file("d.png"), file("e.png"));
  expect(await screen.findByText("A message has at most 4 images.")).toBeTruthy();
  expect(screen.queryByText(/^notes.txt/)).toBeNull();
  expect(await screen.findByRole("img", { name: "Image 4" })).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Remove image 2" }));
  await user.type(input, "look{Enter}");
  await waitFor(() => expect(fake.chats[0]?.imageIds).toEqual(["img_1", "img_3", "img_4"]));
});

test("a file that the server refuses stops the message until it is removed", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  const input = await message();
  fake.refuseUpload = () => { throw refusal(Code.InvalidArgument, "INVALID_FIELD", "the image cannot be read"); };
  await user.upload(screen.getByLabelText("Images"), file("torn.png"));
  expect(await screen.findByText("torn.png")).toBeTruthy();
  await user.type(input, "look{Enter}");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Send" }).disabled).toBe(true);
  expect(fake.chats).toHaveLength(0);
  await user.click(screen.getByRole("button", { name: "Close" }));
  await user.click(screen.getByRole("button", { name: "Send" }));
  await waitFor(() => expect(fake.chats[0]).toMatchObject({ text: "look", imageIds: [] }));
});

test("a message that the server refuses keeps its text and its images", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  const input = await message();
  fake.refuseChat = () => { throw refusal(Code.FailedPrecondition, "MODEL_NOT_AVAILABLE", "m1 is not available for messages with images"); };
  await user.upload(screen.getByLabelText("Images"), file("a.png"));
  await screen.findByRole("img", { name: "Image 1" });
  await user.type(input, "look{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  expect(await screen.findByRole("img", { name: "Image 1" })).toBeTruthy();
  expect(input.value).toBe("look");
});

test("a stored message shows its images, and is repeated with them", async () => {
  const fake = new FakeConversation();
  fake.messages = [
    { count: 2, turnId: "trn_0", kind: { case: "assistant", value: { text: "Two pixels." } } },
    { count: 1, turnId: "trn_0", kind: { case: "user", value: { text: "What is this?", images: [image("img_7")] } } },
  ];
  const { user } = fake.open();
  expect(await screen.findByRole("img", { name: "Image 1 of the message" })).toBeTruthy();
  expect(fake.reads).toMatchObject([{ imageId: "img_7", threadId: "thr_1" }]);
  await user.click(screen.getByRole("button", { name: "Ask again from here" }));
  expect(await screen.findByRole("img", { name: "Image 1" })).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Ask again" }));
  await waitFor(() => expect(fake.chats[0]).toMatchObject({ text: "What is this?", imageIds: ["img_7"], truncateToMessageCount: 0 }));
});
