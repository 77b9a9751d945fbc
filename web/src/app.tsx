import type { Transport } from "@connectrpc/connect";
import { MantineProvider } from "@mantine/core";
import { lazy, Suspense } from "react";
import { Route, Switch } from "wouter";
import { connector } from "./api/api.js";
import { DocumentsView } from "./documents/documents_view.js";
import { ErrorBoundary } from "./errors/error_boundary.js";
import { SessionProvider } from "./session/session_provider.js";
import { useSession } from "./session/session_context.js";
import { Shell } from "./shell/shell.js";
import { EmptyState, LoadingState } from "./states/states.js";
import { theme } from "./theme.js";

const Notifications = lazy(async () => ({ default: (await import("./notifications.js")).Notifications }));
const SignInView = lazy(async () => ({ default: (await import("./session/sign_in_view.js")).SignInView }));
const DocumentView = lazy(async () => ({ default: (await import("./document/document_view.js")).DocumentView }));

/** `transport`: replaces gRPC-Web in tests. */
export function App({ transport }: { readonly transport?: Transport }) {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto">
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
  return (
    <Shell session={session} waiting={undefined}>
      {/* Another organization has other data: a view starts again. */}
      <ErrorBoundary key={session.organizationId}>
        <Suspense fallback={<LoadingState />}>
          <Switch>
            <Route path="/"><DocumentsView /></Route>
            <Route path="/documents/:documentId">{({ documentId }) => <DocumentView key={documentId} documentId={documentId} />}</Route>
            <Route><EmptyState title="No such page" text="The address is wrong, or the view is not available." /></Route>
          </Switch>
        </Suspense>
      </ErrorBoundary>
    </Shell>
  );
}
