// Divides a Markdown text that grows, such as a streamed answer, into blocks. No I/O.

const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/**
 * Splits a text at blank lines outside of fenced code. If the text grows, only its last block changes, so that the page renders
 * the other blocks once.
 */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  const end = () => {
    if (lines.length > 0) blocks.push(lines.join("\n"));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (mark !== undefined && fence === undefined) fence = mark;
    else if (mark !== undefined && fence !== undefined && mark.startsWith(fence)) fence = undefined;
    // An indented line continues a list item after a blank line.
    const isNewBlock = fence === undefined && mark === undefined && line.trim() === "";
    if (isNewBlock) end();
    else if (lines.length === 0 && blocks.length > 0 && /^\s{2,}\S/.test(line)) lines = [blocks.pop() ?? "", "", line];
    else lines.push(line);
  }
  end();
  return blocks;
}
