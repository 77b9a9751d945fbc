// The organization in which the visitor acts.
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";

export const ORGANIZATION_KEY = ["organization"] as const;

/** Returns the current organization. Null: it was deleted. */
export function useOrganization() {
  const api = useApi();
  return useQuery({
    queryKey: ORGANIZATION_KEY,
    queryFn: async ({ signal }) => (await api.service(v1.OrganizationService).getOrganization({}, { signal })).organization ?? null,
    refetchOnWindowFocus: false,
  });
}
