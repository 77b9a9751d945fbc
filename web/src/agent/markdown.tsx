import { Anchor, Code, Table, Typography } from "@mantine/core";
import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import rehypeSanitize from "rehype-sanitize";
import remarkGfm from "remark-gfm";
import { blocksOf } from "./blocks.js";

/** Links leave the page without a referrer; images would request other hosts, and are shown as their texts. */
const COMPONENTS: Components = {
  a: ({ href, children }) => <Anchor href={href ?? ""} target="_blank" rel="noopener noreferrer nofollow" inherit>{children}</Anchor>,
  img: ({ alt }) => <span>{alt ?? ""}</span>,
  code: ({ children, className }) => (className === undefined ? <Code>{children}</Code> : <code>{children}</code>),
  pre: ({ children }) => <Code block>{children}</Code>,
  table: ({ children }) => <Table withTableBorder>{children}</Table>,
  // A task list is text: the page has no control that does nothing.
  input: ({ checked }) => <span>{checked === true ? "☑ " : "☐ "}</span>,
};

const Block = memo(function Block({ text }: { readonly text: string }) {
  return (
    <ReactMarkdown remarkPlugins={[remarkGfm]} rehypePlugins={[rehypeSanitize]} components={COMPONENTS} skipHtml>
      {text}
    </ReactMarkdown>
  );
});

/** The Markdown of a model, without HTML. */
export const Markdown = memo(function Markdown({ text }: { readonly text: string }) {
  return (
    <Typography fz="sm" dir="auto" style={{ overflowWrap: "anywhere" }}>
      {blocksOf(text).map((block, index) => <Block key={index} text={block} />)}
    </Typography>
  );
});
