export function DocumentView({ documentId }: { readonly documentId: string }) { return <p>{documentId}</p>; }
