// The account of the visitor. A token of an organization has none.
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { useSession } from "./session_context.js";

export const ACCOUNT_KEY = ["account"] as const;
const FRESH_MS = 60_000;

/** Returns the user of the session. */
export function useAccount() {
  const api = useApi();
  const { session } = useSession();
  return useQuery({
    queryKey: ACCOUNT_KEY,
    queryFn: async ({ signal }) => (await api.service(v1.AccountService).getAccount({}, { signal })).user ?? null,
    enabled: session?.user !== undefined,
    staleTime: FRESH_MS,
  });
}

/** Returns true if the visitor may administer the platform, or if the page does not know it: the server decides then. */
export function useIsPlatform(): boolean {
  const { session } = useSession();
  const account = useAccount();
  return session?.user === undefined || account.data?.platform === true;
}
