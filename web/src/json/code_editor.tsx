// The editor of JSON. Only `json_editor.tsx` imports this module, on demand.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useLayoutEffect, useRef } from "react";
import type { JsonEditorProps } from "./json_editor.js";
import { diagnosticsOf } from "./problems.js";

// Colors with a contrast of at least 4.5 in both themes.
const COLORS = HighlightStyle.define([
  { tag: tags.propertyName, color: "light-dark(#0b4f9e, #8cc8ff)" },
  { tag: tags.string, color: "light-dark(#235c18, #a5d99b)" },
  { tag: tags.number, color: "light-dark(#8a3b00, #ffc078)" },
  { tag: [tags.bool, tags.null], color: "light-dark(#6b2fa0, #d0a9f5)" },
]);

const LOOK = EditorView.theme({
  "&": { border: "1px solid var(--mantine-color-default-border)", borderRadius: "var(--mantine-radius-default)", fontSize: "var(--mantine-font-size-sm)", backgroundColor: "var(--mantine-color-body)" },
  "&.cm-focused": { outline: "2px solid var(--mantine-primary-color-filled)" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", maxHeight: "60vh", overflow: "auto" },
  ".cm-content": { caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-tooltip": { backgroundColor: "var(--mantine-color-body)", color: "var(--mantine-color-text)", border: "1px solid var(--mantine-color-default-border)" },
});

/** The part of the extensions that follows the properties of the component. */
function variable({ label, isInvalid, readOnly, minRows }: Pick<JsonEditorProps, "label" | "isInvalid" | "readOnly" | "minRows">): Extension {
  return [
    EditorState.readOnly.of(readOnly === true),
    EditorView.contentAttributes.of({ "aria-label": label, "aria-invalid": String(isInvalid === true), "aria-readonly": String(readOnly === true) }),
    EditorView.theme({ ".cm-content": { minHeight: `${(minRows ?? 3) * 1.4}em` } }),
  ];
}

/** Edits JSON with highlighting, and marks problems at their place. The key Tab leaves the editor. */
export function CodeEditor(props: JsonEditorProps) {
  const { value, onChange, label, isInvalid, readOnly, minRows, maxLength, problems = [] } = props;
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const properties = useRef(new Compartment());
  const latest = useRef(onChange);
  latest.current = onChange;

  useEffect(() => {
    if (parent.current === null) return undefined;
    const created = new EditorView({
      parent: parent.current,
      doc: value,
      extensions: [
        json(), history(), bracketMatching(), indentOnInput(), syntaxHighlighting(COLORS), LOOK, EditorView.lineWrapping,
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        EditorState.changeFilter.of(({ newDoc, startState }) => maxLength === undefined || newDoc.length <= Math.max(maxLength, startState.doc.length)),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) latest.current(update.state.doc.toString());
        }),
        properties.current.of(variable({ label, isInvalid, readOnly, minRows })),
      ],
    });
    view.current = created;
    return () => {
      created.destroy();
      view.current = null;
    };
    // The effects below follow the other properties.
  }, [maxLength]);

  // Between a rendering and a later effect, the user could type a character that an older value would remove.
  useLayoutEffect(() => {
    const text = view.current?.state.doc.toString();
    if (text !== undefined && text !== value) view.current?.dispatch({ changes: { from: 0, to: text.length, insert: value } });
  }, [value]);

  useLayoutEffect(() => {
    view.current?.dispatch({ effects: properties.current.reconfigure(variable({ label, isInvalid, readOnly, minRows })) });
  }, [label, isInvalid, readOnly, minRows]);

  const marks = JSON.stringify(problems);
  useEffect(() => {
    const { current } = view;
    if (current !== null) current.dispatch(setDiagnostics(current.state, diagnosticsOf(current.state.doc.toString(), problems)));
  }, [value, marks]);

  return <div ref={parent} />;
}
