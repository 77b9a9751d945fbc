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
      create={(request) => api.tokens.createToken(request)}
      load={(pageToken, signal) => api.tokens.listTokens({ pageToken }, { signal })}
      revoke={(tokenId) => api.tokens.revokeToken({ tokenId })}
    />
  );
}
