import { MantineProvider } from "@mantine/core";
import { EditorView } from "@codemirror/view";
import { forEachDiagnostic } from "@codemirror/lint";
import { render, screen } from "@testing-library/react";
import { describe, expect, test, vi } from "vitest";
import type { JsonEditorProps } from "../src/json/json_editor.js";
import { diagnosticsOf } from "../src/json/problems.js";

const { CodeEditor } = await vi.importActual<typeof import("../src/json/code_editor.js")>("../src/json/code_editor.js");

const TEXT = '{"items": [{"total": 5}, {"a/b": "x"}], "name": "n"}';
const marked = (text: string, path: string) => diagnosticsOf(text, [{ path, message: "m" }]).map(({ from, to }) => text.slice(from, to));

describe("a problem is marked at its place", () => {
  test.each([
    ["#/name", '"n"'],
    ["#/items/0/total", "5"],
    ["#/items/1/a~1b", '"x"'],
    ["#/items", "["],
    ["#", "{"],
  ])("%s", (path, expected) => expect(marked(TEXT, path)).toEqual([expected]));

  test("or at the nearest value, if the value is missing", () => {
    expect(marked(TEXT, "#/missing")).toEqual(["{"]);
    expect(marked(TEXT, "#/items/9/total")).toEqual(["["]);
    expect(marked(TEXT, "#/name/deeper")).toEqual(['"n"']);
    expect(diagnosticsOf("", [{ path: "#/a", message: "m" }]).every(({ from, to }) => from === 0 && to === 0)).toBe(true);
  });

  test("and so is text that is not JSON", () => {
    const [first] = diagnosticsOf('{"a": }', []);
    expect(first?.message).toBe("The text is not valid JSON here.");
    expect(first?.from).toBeGreaterThan(3);
    expect(diagnosticsOf(TEXT, [])).toEqual([]);
  });
});

/** Renders the editor, and returns it with the function that renders other properties. */
function editor(changes: Partial<JsonEditorProps> = {}) {
  const texts: string[] = [];
  const element = (more: Partial<JsonEditorProps>) => (
    <MantineProvider env="test"><CodeEditor label="Rules" value={TEXT} onChange={(text) => { texts.push(text); }} {...changes} {...more} /></MantineProvider>
  );
  const { rerender } = render(element({}));
  const content = screen.getByRole("textbox", { name: "Rules" });
  const view = EditorView.findFromDOM(content);
  if (view === null) throw new Error("the editor has no view");
  return { content, view, texts, show: (more: Partial<JsonEditorProps>) => rerender(element(more)) };
}

test("the editor has a name and states, publishes changes and follows its value", () => {
  const { content, view, texts, show } = editor();
  expect([content.getAttribute("aria-invalid"), content.getAttribute("aria-readonly")]).toEqual(["false", "false"]);
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: "[1]" } });
  expect(texts).toEqual(["[1]"]);
  show({ value: "[2]", isInvalid: true, readOnly: true });
  expect(view.state.doc.toString()).toBe("[2]");
  expect(view.state.readOnly).toBe(true);
  expect(screen.getByRole("textbox", { name: "Rules" }).getAttribute("aria-invalid")).toBe("true");
});

test("the editor refuses text beyond its maximum, and shows problems as text", () => {
  const { view, texts, show } = editor({ value: "[]", maxLength: 4 });
  view.dispatch({ changes: { from: 1, insert: "12345" } });
  expect([view.state.doc.toString(), texts]).toEqual(["[]", []]);
  show({ problems: [{ path: "#", message: "<img src=x onerror=alert(1)>" }] });
  const messages: string[] = [];
  forEachDiagnostic(view.state, ({ message }) => messages.push(message));
  expect(messages).toEqual(["<img src=x onerror=alert(1)>"]);
  expect(document.querySelector("img")).toBeNull();
});
