import { Stack, Tabs, Title } from "@mantine/core";
import { lazy, Suspense, type ReactNode } from "react";
import { useLocation } from "wouter";
import { useIsPlatform } from "../session/account.js";
import { LoadingState } from "../states/states.js";

const Members = lazy(async () => ({ default: (await import("./members.js")).Members }));
const Tokens = lazy(async () => ({ default: (await import("./tokens.js")).Tokens }));
const PolicyEditor = lazy(async () => ({ default: (await import("./policy_editor.js")).PolicyEditor }));
const Limits = lazy(async () => ({ default: (await import("./limits.js")).Limits }));
const OrganizationSettings = lazy(async () => ({ default: (await import("./organization_settings.js")).OrganizationSettings }));
const Providers = lazy(async () => ({ default: (await import("./providers.js")).Providers }));
const McpServers = lazy(async () => ({ default: (await import("./mcp_servers.js")).McpServers }));
const Organizations = lazy(async () => ({ default: (await import("./organizations.js")).Organizations }));
const Users = lazy(async () => ({ default: (await import("./users.js")).Users }));
const Webhooks = lazy(async () => ({ default: (await import("./webhooks.js")).Webhooks }));

interface Section {
  readonly name: string;
  readonly label: string;
  readonly section: ReactNode;
  /** True if only the administrator of the platform uses the section. */
  readonly isPlatform?: boolean;
}

const SECTIONS: readonly Section[] = [
  { name: "members", label: "Members", section: <Members /> },
  { name: "tokens", label: "Tokens", section: <Tokens /> },
  { name: "policy", label: "Policy", section: <PolicyEditor /> },
  { name: "limits", label: "Limits", section: <Limits /> },
  { name: "organization", label: "Organization", section: <OrganizationSettings /> },
  { name: "providers", label: "Providers", section: <Providers /> },
  { name: "mcp", label: "MCP servers", section: <McpServers /> },
  { name: "webhooks", label: "Webhooks", section: <Webhooks /> },
  { name: "organizations", label: "Organizations", section: <Organizations />, isPlatform: true },
  { name: "users", label: "Users", section: <Users />, isPlatform: true },
];

/** The administration of the organization, and of the platform by its administrator. The section is in the address. */
export function AdministrationView({ section }: { readonly section: string | undefined }) {
  const [, navigate] = useLocation();
  const current = SECTIONS.find(({ name }) => name === section) ?? SECTIONS[0];
  const isPlatform = useIsPlatform();
  // A link may lead to a section of the platform before the account is read.
  const sections = SECTIONS.filter((one) => one.isPlatform !== true || isPlatform || one === current);
  return (
    <Stack gap="sm">
      <Title order={1} size="h3">Administration</Title>
      <Tabs value={current?.name ?? null} keepMounted={false} onChange={(name) => navigate(`/administration/${name ?? ""}`)}>
        <Tabs.List mb="sm" aria-label="Section">{sections.map(({ name, label }) => <Tabs.Tab key={name} value={name}>{label}</Tabs.Tab>)}</Tabs.List>
        <Suspense fallback={<LoadingState />}>
          {sections.map(({ name, section }) => <Tabs.Panel key={name} value={name}>{section}</Tabs.Panel>)}
        </Suspense>
      </Tabs>
    </Stack>
  );
}
