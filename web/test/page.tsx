// The page with a fake server: an in-memory transport whose methods a test implements.
import { createRouterTransport, Code, ConnectError, type ConnectRouter, type ServiceImpl } from "@connectrpc/connect";
import type { DescService } from "@bufbuild/protobuf";
import { MantineProvider } from "@mantine/core";
import { render, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { v1 } from "folio-client";
import type { ReactNode } from "react";
import { App } from "../src/app.js";
import { storeSession, type Session } from "../src/session/session.js";
import { SessionProvider } from "../src/session/session_provider.js";

export type Implementation<S extends DescService> = Partial<ServiceImpl<S>>;

/** The services of a fake server by their names. */
export interface Services {
  readonly account?: Implementation<typeof v1.AccountService>;
  readonly audit?: Implementation<typeof v1.AuditService>;
  readonly collection?: Implementation<typeof v1.CollectionService>;
  readonly conversation?: Implementation<typeof v1.ConversationService>;
  readonly credit?: Implementation<typeof v1.CreditService>;
  readonly dictionary?: Implementation<typeof v1.DictionaryService>;
  readonly document?: Implementation<typeof v1.DocumentService>;
  readonly extraction?: Implementation<typeof v1.ExtractionService>;
  readonly inbox?: Implementation<typeof v1.InboxService>;
  readonly job?: Implementation<typeof v1.JobService>;
  readonly limit?: Implementation<typeof v1.LimitService>;
  readonly link?: Implementation<typeof v1.LinkService>;
  readonly mcpServer?: Implementation<typeof v1.McpServerService>;
  readonly model?: Implementation<typeof v1.ModelService>;
  readonly organization?: Implementation<typeof v1.OrganizationService>;
  readonly policy?: Implementation<typeof v1.PolicyService>;
  readonly prompt?: Implementation<typeof v1.PromptService>;
  readonly proposal?: Implementation<typeof v1.ProposalService>;
  readonly provider?: Implementation<typeof v1.ProviderService>;
  readonly retrieval?: Implementation<typeof v1.RetrievalService>;
  readonly schema?: Implementation<typeof v1.SchemaService>;
  readonly stack?: Implementation<typeof v1.StackService>;
  readonly tag?: Implementation<typeof v1.TagService>;
  readonly thread?: Implementation<typeof v1.ThreadService>;
  readonly token?: Implementation<typeof v1.TokenService>;
  readonly webhookEndpoint?: Implementation<typeof v1.WebhookEndpointService>;
  readonly usage?: Implementation<typeof v1.UsageService>;
  readonly user?: Implementation<typeof v1.UserService>;
}

/** Returns a transport to a fake server. A method without an implementation is refused with UNIMPLEMENTED. */
export function fakeServer(services: Services) {
  return createRouterTransport((router: ConnectRouter) => {
    for (const [name, implementation] of Object.entries(services)) {
      const service = `${name.charAt(0).toUpperCase()}${name.slice(1)}Service` as "TagService";
      router.service(v1[service], implementation as Implementation<typeof v1.TagService>);
    }
  });
}

/** Returns the error that a server sends with a reason. */
export function refusal(code: Code, reason: string, text = "refused"): ConnectError {
  const bytes = encodeErrorInfo(reason);
  const error = new ConnectError(text, code);
  error.details.push({ type: "google.rpc.ErrorInfo", value: bytes } as never);
  return error;
}

/** The message google.rpc.ErrorInfo on the wire: field 1 is the reason, field 2 the domain. */
function encodeErrorInfo(reason: string): Uint8Array {
  const field = (number: number, text: string) => {
    const bytes = new TextEncoder().encode(text);
    return [(number << 3) | 2, bytes.length, ...bytes];
  };
  return new Uint8Array([...field(1, reason), ...field(2, "folio")]);
}

export const SESSION: Session = {
  token: "folio_session_test",
  organizationId: "org_1",
  memberships: [
    { organizationId: "org_1", name: "Alpha", role: v1.Role.ADMIN },
    { organizationId: "org_2", name: "Beta", role: v1.Role.VIEWER },
  ],
  user: { userId: "usr_1", name: "Ada" },
  isPassword: true,
};

/** Renders the whole page at a path, signed in unless `session` is null. */
export function renderPage(services: Services, path = "/", session: Session | null = SESSION) {
  window.history.replaceState(null, "", path);
  if (session !== null) storeSession(sessionStorage, session);
  const user = userEvent.setup();
  return { user, ...render(<App transport={fakeServer(services)} />) };
}

/** Renders one component with a session and a fake server. */
export function renderPart(services: Services, part: ReactNode, session: Session = SESSION) {
  storeSession(sessionStorage, session);
  const user = userEvent.setup();
  const page = render(
    <MantineProvider env="test">
      <SessionProvider transport={fakeServer(services)}>{part}</SessionProvider>
    </MantineProvider>,
  );
  return { user, ...page };
}

/** Chooses an option of a select. jsdom ends no transition, so that the list of options stays hidden for it. */
export async function choose(user: ReturnType<typeof userEvent.setup>, select: HTMLElement, option: string): Promise<void> {
  await user.click(select);
  const list = await waitFor(() => {
    const found = document.getElementById(select.getAttribute("aria-controls") ?? "");
    if (found === null) throw new Error("the select has no list of options");
    return found;
  });
  await user.click(within(list).getByRole("option", { name: option, hidden: true }));
}
