export function AgentPanel({ documentId }: { readonly documentId: string }) { return <p>{documentId}</p>; }
