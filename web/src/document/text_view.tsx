import { Stack, Text, Title } from "@mantine/core";
import type { v1 } from "folio-client";
import { EmptyState, QueryView } from "../states/states.js";
import { useDocumentText } from "./queries.js";

/** The text of the document as the agents read it. */
export function TextView({ document }: { readonly document: v1.Document }) {
  const text = useDocumentText(document.documentId, document.textGeneration, true);
  if (document.textGeneration === "") return <EmptyState title="No text" text={document.stateReason || "The text is not available yet."} />;
  return (
    <QueryView query={text}>
      {(pages) => (
        <Stack>
          {pages.map(({ number, text }) => (
            <section key={number} aria-label={`Text of page ${number}`} style={{ contentVisibility: "auto" }}>
              <Title order={3} size="h6" c="dimmed">{`Page ${number}`}</Title>
              <Text component="pre" size="sm" className="foreign" m={0} ff="inherit">{text}</Text>
            </section>
          ))}
        </Stack>
      )}
    </QueryView>
  );
}
