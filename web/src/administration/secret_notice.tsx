import { Alert, Button, Code, CopyButton, Group } from "@mantine/core";

/** A new secret, which is shown once. */
export function SecretNotice({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  return (
    <Alert color="green" title="Copy the token now: it is shown once" withCloseButton closeButtonLabel="Close" onClose={onClose} mb="sm">
      <Group><Code className="foreign">{secret}</Code><CopyButton value={secret}>{({ copied, copy }) => <Button size="compact-xs" onClick={copy}>{copied ? "Copied" : "Copy"}</Button>}</CopyButton></Group>
    </Alert>
  );
}
