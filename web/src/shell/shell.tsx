import { ActionIcon, AppShell, Badge, Burger, Group, Kbd, Menu, NavLink, Text, UnstyledButton, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { lazy, Suspense, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useApi } from "../api/api.js";
import { coversAny, permits, roleOf, type Session } from "../session/session.js";
import { useSession } from "../session/session_context.js";
import { OfflineBanner } from "../states/states.js";
import type { Command } from "./command_palette.js";
import { isIn, VIEWS } from "./navigation.js";
import { useGoTo } from "./use_shortcuts.js";

const CommandPalette = lazy(async () => ({ default: (await import("./command_palette.js")).CommandPalette }));

interface ShellProps {
  readonly session: Session;
  /** Number of items that wait for the visitor. Undefined: unknown. */
  readonly waiting: number | undefined;
  readonly children: ReactNode;
}

/** The frame of all views: navigation, organization, theme and commands. */
export function Shell({ session, waiting, children }: ShellProps) {
  const [path, navigate] = useLocation();
  const [isMenuOpen, menu] = useDisclosure();
  const [isPaletteOpen, palette] = useDisclosure();
  const { toggleColorScheme } = useMantineColorScheme();
  const colorScheme = useComputedColorScheme("light");
  const signOut = useSignOut(session);
  const { switchTo } = useSession();
  useGoTo();
  // Ctrl K writes no text, so that it opens the commands also from an input and from the editor of JSON.
  useHotkeys([["mod+K", palette.toggle]], [], true);
  useHotkeys([["?", palette.open]]);

  const views = VIEWS.filter(({ role, scopes }) => permits(roleOf(session), role) && coversAny(session.scopes, scopes));
  const commands: Command[] = [
    ...views.map(({ label, path, key }) => ({ label: `Open ${label}`, keys: `g ${key}`, run: () => navigate(path) })),
    ...(session.user === undefined ? [] : [{ label: "Open Account", keys: "", run: () => navigate("/account") }]),
    { label: "Switch between dark and light", keys: "", run: toggleColorScheme },
    ...session.memberships
      .filter(({ organizationId }) => organizationId !== session.organizationId)
      .map(({ organizationId, name }) => ({ label: `Switch to ${name}`, keys: "", run: () => switchTo(organizationId) })),
    { label: "Sign out", keys: "", run: signOut },
  ];
  const organization = session.memberships.find(({ organizationId }) => organizationId === session.organizationId);

  return (
    <AppShell header={{ height: 52 }} navbar={{ width: 220, breakpoint: "sm", collapsed: { mobile: !isMenuOpen } }} padding="md">
      <a className="skip" href="#content">Skip to the content</a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isMenuOpen} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
            <Text fw={700}>Folio</Text>
            <OrganizationMenu session={session} name={organization?.name ?? ""} onSwitch={switchTo} />
          </Group>
          <Group gap="xs" wrap="nowrap">
            <UnstyledButton onClick={palette.open} visibleFrom="sm">
              <Text size="sm" c="dimmed">Commands <Kbd size="xs">Ctrl K</Kbd></Text>
            </UnstyledButton>
            <ActionIcon variant="subtle" color="gray" onClick={toggleColorScheme} aria-label={colorScheme === "dark" ? "Light theme" : "Dark theme"}>
              {colorScheme === "dark" ? "☀" : "☾"}
            </ActionIcon>
            <Menu position="bottom-end">
              <Menu.Target>
                <UnstyledButton aria-label={`Account: ${session.user?.name ?? "Token"}`}><Text size="sm" className="foreign" truncate maw={160}>{session.user?.name ?? "Token"}</Text></UnstyledButton>
              </Menu.Target>
              <Menu.Dropdown>
                {session.user !== undefined && <Menu.Item onClick={() => navigate("/account")}>Account</Menu.Item>}
                <Menu.Item onClick={signOut}>Sign out</Menu.Item>
              </Menu.Dropdown>
            </Menu>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label="Views">
        {views.map((view) => (
          <NavLink
            key={view.path}
            component={Link}
            href={view.path}
            label={view.label}
            active={isIn(view, path)}
            aria-current={isIn(view, path) ? "page" : undefined}
            onClick={menu.close}
            rightSection={view.path === "/inbox" && waiting !== undefined && waiting > 0 && <Badge size="sm" aria-label={`${waiting} waiting`}>{waiting}</Badge>}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <OfflineBanner />
        {children}
      </AppShell.Main>
      <Suspense>{isPaletteOpen && <CommandPalette commands={commands} opened onClose={palette.close} />}</Suspense>
    </AppShell>
  );
}

interface OrganizationMenuProps {
  readonly session: Session;
  readonly name: string;
  readonly onSwitch: (organizationId: string) => void;
}

function OrganizationMenu({ session, name, onSwitch }: OrganizationMenuProps) {
  if (session.memberships.length < 2) return <Text size="sm" c="dimmed" className="foreign" truncate maw={200}>{name}</Text>;
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <UnstyledButton aria-label="Organization"><Text size="sm" className="foreign" truncate maw={200}>{name} ▾</Text></UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown mah={400} style={{ overflowY: "auto" }}>
        {session.memberships.map(({ organizationId, name }) => (
          <Menu.Item key={organizationId} onClick={() => onSwitch(organizationId)} disabled={organizationId === session.organizationId}>
            <span className="foreign">{name}</span>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Returns the sign-out: it ends the session on the server if the visitor signed in with a password. */
function useSignOut(session: Session): () => void {
  const api = useApi();
  const { end } = useSession();
  const [, navigate] = useLocation();
  return () => {
    // The tab forgets the token also if the server is not reachable; the session then ends after its time.
    if (session.isPassword) void import("../session/sign_in.js").then(({ signOut }) => signOut(api)).catch(() => undefined);
    end();
    navigate("/");
  };
}
