import { Anchor } from "@mantine/core";
import { Link } from "wouter";
import { useDocument } from "../document/queries.js";

/** A link to a document, with its name as soon as it is read. */
export function DocumentLink({ documentId }: { readonly documentId: string }) {
  const document = useDocument(documentId);
  const name = document.data?.name ?? (document.error === null ? "a document" : "a deleted document");
  return <Anchor component={Link} href={`/documents/${documentId}`} size="sm"><bdi>{name}</bdi></Anchor>;
}
