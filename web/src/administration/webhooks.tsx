import { Anchor, Badge, Button, Group, Modal, PasswordInput, Switch, TagsInput, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";

const URL_MAX = 2_000;
const SECRET_MAX = 1_000;
const TYPES_MAX = 20;
const REFRESH_MS = 5_000;

/** The endpoints that receive events, with their deliveries. */
export function Webhooks() {
  const api = useApi();
  const queries = useQueryClient();
  const [url, setUrl] = useState("");
  const [secret, setSecret] = useState("");
  const [eventTypes, setEventTypes] = useState<string[]>(["document.ready"]);
  const [shown, setShown] = useState<string>();
  const onSuccess = () => queries.invalidateQueries({ queryKey: ["webhooks"] });
  const create = useMutation({
    mutationFn: async () => void (await api.service(v1.WebhookEndpointService).createWebhookEndpoint({ webhookEndpoint: { url: url.trim(), eventTypes, secret, enabled: true } })),
    onSuccess: async () => {
      setUrl("");
      setSecret("");
      await onSuccess();
    },
  });
  const update = useMutation({
    mutationFn: async ({ webhookEndpointId, etag, enabled }: Pick<v1.WebhookEndpoint, "webhookEndpointId" | "etag" | "enabled">) =>
      void (await api.service(v1.WebhookEndpointService).updateWebhookEndpoint({ webhookEndpoint: { webhookEndpointId, etag, enabled }, updateMask: { paths: ["enabled"] } })),
    onSettled: onSuccess,
  });
  const remove = useMutation({ mutationFn: async (webhookEndpointId: string) => void (await api.service(v1.WebhookEndpointService).deleteWebhookEndpoint({ webhookEndpointId })), onSuccess });
  const error = create.error ?? update.error ?? remove.error;
  return (
    <>
      <form onSubmit={(event) => { event.preventDefault(); create.mutate(); }}>
        <Group align="flex-end" mb="sm">
          <TextInput size="xs" label="URL" type="url" value={url} onChange={(event) => setUrl(event.currentTarget.value)} maxLength={URL_MAX} required w={260} />
          <TagsInput size="xs" label="Events" value={eventTypes} onChange={setEventTypes} maxTags={TYPES_MAX} w={260} />
          <PasswordInput size="xs" label="Secret" autoComplete="off" value={secret} onChange={(event) => setSecret(event.currentTarget.value)} maxLength={SECRET_MAX} w={160} />
          <Button size="xs" type="submit" loading={create.isPending} disabled={url.trim() === "" || eventTypes.length === 0}>Add endpoint</Button>
        </Group>
      </form>
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.WebhookEndpoint>
        title="Webhooks"
        queryKey={["webhooks", "endpoints"]}
        load={async (pageToken, signal) => {
          const { webhookEndpoints, nextPageToken } = await api.service(v1.WebhookEndpointService).listWebhookEndpoints({ pageToken }, { signal });
          return { items: webhookEndpoints, nextPageToken };
        }}
        keyOf={({ webhookEndpointId }) => webhookEndpointId}
        emptyText="An endpoint receives events, such as a document whose text is ready."
        columns={[
          { label: "URL", cell: ({ webhookEndpointId, url }) => <Anchor component="button" type="button" size="sm" onClick={() => setShown(webhookEndpointId)}><bdi>{url}</bdi></Anchor> },
          { label: "Events", cell: ({ eventTypes }) => eventTypes.join(", ") },
          { label: "Signed", cell: ({ hasSecret }) => (hasSecret ? "yes" : "no") },
          { label: "State", cell: ({ failingSinceTime, disabledReason }) => disabledReason || (failingSinceTime === undefined ? "" : `fails since ${formatTime(failingSinceTime)}`) },
          { label: "On", cell: ({ webhookEndpointId, etag, enabled, url }) => <Switch size="xs" aria-label={`Send events to ${url}`} checked={enabled} onChange={(event) => update.mutate({ webhookEndpointId, etag, enabled: event.currentTarget.checked })} /> },
          { label: "", cell: ({ webhookEndpointId, url }) => <Button size="compact-xs" variant="subtle" color="red" aria-label={`Delete ${url}`} onClick={() => remove.mutate(webhookEndpointId)}>Delete</Button> },
        ]}
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title="Deliveries" size="xl">
        {shown !== undefined && <Deliveries webhookEndpointId={shown} />}
      </Modal>
    </>
  );
}

const STATES: Partial<Record<v1.WebhookDeliveryState, readonly [label: string, color: string]>> = {
  [v1.WebhookDeliveryState.PENDING]: ["pending", "blue"],
  [v1.WebhookDeliveryState.DELIVERED]: ["delivered", "green"],
  [v1.WebhookDeliveryState.FAILED]: ["failed", "red"],
};

function Deliveries({ webhookEndpointId }: { readonly webhookEndpointId: string }) {
  const api = useApi();
  const queries = useQueryClient();
  const onSuccess = () => queries.invalidateQueries({ queryKey: ["webhooks", "deliveries"] });
  const again = useMutation({ mutationFn: async (webhookDeliveryId: string) => void (await api.service(v1.WebhookEndpointService).redeliverWebhook({ webhookDeliveryId })), onSuccess });
  const test = useMutation({ mutationFn: async () => void (await api.service(v1.WebhookEndpointService).testWebhookEndpoint({ webhookEndpointId })), onSuccess });
  const error = again.error ?? test.error;
  return (
    <>
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.WebhookDelivery>
        title="Deliveries"
        queryKey={["webhooks", "deliveries", webhookEndpointId]}
        refetchInterval={REFRESH_MS}
        load={async (pageToken, signal) => {
          const { webhookDeliveries, nextPageToken } = await api.service(v1.WebhookEndpointService).listWebhookDeliveries({ webhookEndpointId, pageToken }, { signal });
          return { items: webhookDeliveries, nextPageToken };
        }}
        keyOf={({ webhookDeliveryId }) => webhookDeliveryId}
        emptyText="No event was delivered yet."
        columns={[
          { label: "Time", cell: ({ createTime }) => formatTime(createTime) },
          { label: "Event", cell: ({ eventType }) => eventType },
          { label: "State", cell: ({ state }) => <Badge size="sm" variant="light" color={STATES[state]?.[1] ?? "gray"}>{STATES[state]?.[0] ?? ""}</Badge> },
          { label: "Attempts", cell: ({ attempts }) => attempts },
          { label: "Error", cell: ({ error }) => <Text size="xs">{error?.message ?? ""}</Text> },
          { label: "", cell: ({ webhookDeliveryId, state }) => state !== v1.WebhookDeliveryState.PENDING && <Button size="compact-xs" variant="subtle" onClick={() => again.mutate(webhookDeliveryId)}>Deliver again</Button> },
        ]}
      >
        <Button size="xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>Send a test event</Button>
      </ListView>
    </>
  );
}
