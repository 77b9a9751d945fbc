import type { Transport } from "@connectrpc/connect";
import { MantineProvider } from "@mantine/core";
import { v1 } from "folio-client";
import { lazy, Suspense, useState } from "react";
import { Route, Switch } from "wouter";
import { connector } from "./api/api.js";
import { DocumentsView } from "./documents/documents_view.js";
import { ErrorBoundary } from "./errors/error_boundary.js";
import { SessionProvider } from "./session/session_provider.js";
import type { Session } from "./session/session.js";
import { useCoversAny, usePermits, useSession } from "./session/session_context.js";
import { INBOX_SCOPES } from "./shell/navigation.js";
import { Shell } from "./shell/shell.js";
import { EmptyState, LoadingState } from "./states/states.js";
import { theme } from "./theme.js";

const Notifications = lazy(async () => ({ default: (await import("./notifications.js")).Notifications }));
const SignInView = lazy(async () => ({ default: (await import("./session/sign_in_view.js")).SignInView }));
const DocumentView = lazy(async () => ({ default: (await import("./document/document_view.js")).DocumentView }));
const InboxCount = lazy(async () => ({ default: (await import("./inbox/inbox_count.js")).InboxCount }));
const InboxView = lazy(async () => ({ default: (await import("./inbox/inbox_view.js")).InboxView }));
const AssistantView = lazy(async () => ({ default: (await import("./assistant/assistant_view.js")).AssistantView }));
const CollectionsView = lazy(async () => ({ default: (await import("./collections/collections_view.js")).CollectionsView }));
const StacksView = lazy(async () => ({ default: (await import("./stacks/stacks_view.js")).StacksView }));
const StackView = lazy(async () => ({ default: (await import("./stacks/stack_view.js")).StackView }));
const DictionaryView = lazy(async () => ({ default: (await import("./dictionary/dictionary_view.js")).DictionaryView }));
const SearchView = lazy(async () => ({ default: (await import("./search/search_view.js")).SearchView }));
const MissingLinksView = lazy(async () => ({ default: (await import("./links/missing_links_view.js")).MissingLinksView }));
const TagsView = lazy(async () => ({ default: (await import("./tags/tags_view.js")).TagsView }));
const BatchesView = lazy(async () => ({ default: (await import("./batches/batches_view.js")).BatchesView }));
const SchemasView = lazy(async () => ({ default: (await import("./schemas/schemas_view.js")).SchemasView }));
const SchemaView = lazy(async () => ({ default: (await import("./schemas/schema_view.js")).SchemaView }));
const PromptsView = lazy(async () => ({ default: (await import("./prompts/prompts_view.js")).PromptsView }));
const AdministrationView = lazy(async () => ({ default: (await import("./administration/administration_view.js")).AdministrationView }));
const AccountView = lazy(async () => ({ default: (await import("./account/account_view.js")).AccountView }));
const UsageView = lazy(async () => ({ default: (await import("./usage/usage_view.js")).UsageView }));
const AuditView = lazy(async () => ({ default: (await import("./audit/audit_view.js")).AuditView }));

/** `transport`: replaces gRPC-Web in tests, in which elements that open have no transition and are not hidden by their position. */
export function App({ transport }: { readonly transport?: Transport }) {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" env={transport === undefined ? "default" : "test"}>
      <Suspense><Notifications position="bottom-right" /></Suspense>
      <SessionProvider {...(transport && { transport })}>
        <Views {...(transport && { transport })} />
      </SessionProvider>
    </MantineProvider>
  );
}

function Views({ transport }: { readonly transport?: Transport }) {
  const { session } = useSession();
  if (session === undefined) {
    return (
      <Suspense fallback={<LoadingState />}>
        <SignInView connect={connector(location.origin, transport)} />
      </Suspense>
    );
  }
  return <SignedIn key={session.organizationId} session={session} />;
}

function SignedIn({ session }: { readonly session: Session }) {
  const mayDecide = usePermits(v1.Role.MEMBER);
  const hasInbox = useCoversAny(...INBOX_SCOPES) && mayDecide;
  const [waiting, setWaiting] = useState<number>();
  return (
    <Shell session={session} waiting={waiting}>
      <ErrorBoundary>
        <Suspense>{hasInbox && <InboxCount onCount={setWaiting} />}</Suspense>
        <Suspense fallback={<LoadingState />}>
          <Switch>
            <Route path="/"><DocumentsView /></Route>
            <Route path="/documents/:documentId">{({ documentId }) => <DocumentView key={documentId} documentId={documentId} />}</Route>
            <Route path="/inbox"><InboxView /></Route>
            <Route path="/schemas"><SchemasView /></Route>
            <Route path="/schemas/:schemaId">{({ schemaId }) => <SchemaView key={schemaId} schemaId={schemaId} />}</Route>
            <Route path="/prompts"><PromptsView /></Route>
            <Route path="/administration/:section?">{({ section }) => <AdministrationView section={section} />}</Route>
            <Route path="/account"><AccountView /></Route>
            <Route path="/search"><SearchView /></Route>
            <Route path="/assistant"><AssistantView /></Route>
            <Route path="/collections"><CollectionsView /></Route>
            <Route path="/stacks"><StacksView /></Route>
            <Route path="/stacks/:stackId">{({ stackId }) => <StackView key={stackId} stackId={stackId} />}</Route>
            <Route path="/dictionary"><DictionaryView /></Route>
            <Route path="/links"><MissingLinksView /></Route>
            <Route path="/tags"><TagsView /></Route>
            <Route path="/batches"><BatchesView /></Route>
            <Route path="/usage"><UsageView /></Route>
            <Route path="/audit"><AuditView /></Route>
            <Route><EmptyState title="No such page" text="The address is wrong, or the view is not available." /></Route>
          </Switch>
        </Suspense>
      </ErrorBoundary>
    </Shell>
  );
}
