import { Stack, Tabs, Title } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useLocation } from "wouter";
import { LoadingState } from "../states/states.js";

const Members = lazy(async () => ({ default: (await import("./members.js")).Members }));
const Tokens = lazy(async () => ({ default: (await import("./tokens.js")).Tokens }));
const PolicyEditor = lazy(async () => ({ default: (await import("./policy_editor.js")).PolicyEditor }));
const Limits = lazy(async () => ({ default: (await import("./limits.js")).Limits }));
const OrganizationSettings = lazy(async () => ({ default: (await import("./organization_settings.js")).OrganizationSettings }));
const Webhooks = lazy(async () => ({ default: (await import("./webhooks.js")).Webhooks }));

const SECTIONS = [
  { name: "members", label: "Members", section: <Members /> },
  { name: "tokens", label: "Tokens", section: <Tokens /> },
  { name: "policy", label: "Policy", section: <PolicyEditor /> },
  { name: "limits", label: "Limits", section: <Limits /> },
  { name: "organization", label: "Organization", section: <OrganizationSettings /> },
  { name: "webhooks", label: "Webhooks", section: <Webhooks /> },
];

/** The administration of the organization. The section is in the address. */
export function AdministrationView({ section }: { readonly section: string | undefined }) {
  const [, navigate] = useLocation();
  const current = SECTIONS.find(({ name }) => name === section) ?? SECTIONS[0];
  return (
    <Stack gap="sm">
      <Title order={1} size="h3">Administration</Title>
      <Tabs value={current?.name ?? null} keepMounted={false} onChange={(name) => navigate(`/administration/${name ?? ""}`)}>
        <Tabs.List mb="sm" aria-label="Section">{SECTIONS.map(({ name, label }) => <Tabs.Tab key={name} value={name}>{label}</Tabs.Tab>)}</Tabs.List>
        <Suspense fallback={<LoadingState />}>
          {SECTIONS.map(({ name, section }) => <Tabs.Panel key={name} value={name}>{section}</Tabs.Panel>)}
        </Suspense>
      </Tabs>
    </Stack>
  );
}
