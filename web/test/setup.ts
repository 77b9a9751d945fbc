// The parts of a browser that jsdom lacks and the components need.
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// The first use of a view loads its module, which takes long on a busy machine. Waits end with their condition.
configure({ asyncUtilTimeout: 100_000 });

class NoObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

globalThis.ResizeObserver ??= NoObserver as unknown as typeof ResizeObserver;
globalThis.IntersectionObserver ??= NoObserver as unknown as typeof IntersectionObserver;
window.matchMedia ??= (query: string) =>
  ({ matches: false, media: query, addEventListener: () => undefined, removeEventListener: () => undefined }) as unknown as MediaQueryList;
Blob.prototype.arrayBuffer ??= function (this: Blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as ArrayBuffer);
    reader.readAsArrayBuffer(this);
  });
};
// As in index.html.
document.documentElement.lang = "en";
document.title = "Folio";
HTMLCanvasElement.prototype.getContext = () => null;
window.scrollTo = () => undefined;
// New browsers return a promise.
Element.prototype.scrollIntoView = (() => Promise.resolve()) as never;
URL.createObjectURL ??= () => "blob:test";
URL.revokeObjectURL ??= () => undefined;
Object.defineProperty(document, "fonts", { value: { addEventListener: () => undefined, removeEventListener: () => undefined }, configurable: true });
// The size that the virtual list reads: jsdom has no layout.
Object.defineProperty(Element.prototype, "clientHeight", { get: () => 600, configurable: true });
Object.defineProperty(Element.prototype, "clientWidth", { get: () => 800, configurable: true });

Range.prototype.getClientRects ??= () => [] as unknown as DOMRectList;
Range.prototype.getBoundingClientRect ??= () => new DOMRect();
// jsdom has no layout, which the editor of JSON needs: a plain field has its name and its value. json_editor.test.tsx tests the editor.
vi.mock("../src/json/code_editor.js", () => import("./plain_editor.js"));

afterEach(() => {
  cleanup();
  sessionStorage.clear();
  localStorage.clear();
  window.history.replaceState(null, "", "/");
  vi.restoreAllMocks();
});
