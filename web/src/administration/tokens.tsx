import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { TokenList } from "./token_list.js";

/** The access tokens of the organization. */
export function Tokens() {
  const api = useApi();
  return (
    <TokenList
      title="Tokens"
      queryKey={["tokens"]}
      emptyText="The organization has no token."
      create={(request) => api.service(v1.TokenService).createToken(request)}
      load={(pageToken, signal) => api.service(v1.TokenService).listTokens({ pageToken }, { signal })}
      revoke={(tokenId) => api.service(v1.TokenService).revokeToken({ tokenId })}
    />
  );
}
