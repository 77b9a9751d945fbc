import { Anchor, Button, Group } from "@mantine/core";
import { v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";

/** The schemas of the organization. */
export function SchemasView() {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const [text, setText] = useState("");
  const filter = nameFilter(text);
  return (
    <ListView<v1.Schema>
      title="Schemas"
      queryKey={["schemas", "list", { filter }]}
      load={async (pageToken, signal) => {
        const { schemas, nextPageToken } = await api.service(v1.SchemaService).listSchemas({ filter, pageToken, orderBy: "name" }, { signal });
        return { items: schemas, nextPageToken };
      }}
      keyOf={({ schemaId }) => schemaId}
      emptyText="A schema states the fields that an extraction has."
      onSearch={setText}
      columns={[
        { label: "Name", cell: ({ schemaId, name }) => <Anchor component={Link} href={`/schemas/${schemaId}`} size="sm"><bdi>{name}</bdi></Anchor> },
        { label: "Revision", cell: ({ revision }) => revision },
        { label: "Changed", cell: ({ revisionCreateTime }) => formatTime(revisionCreateTime) },
        { label: "", cell: ({ pendingProposalId }) => pendingProposalId !== "" && "proposed by an agent" },
      ]}
    >
      {canWrite && <Group><Button size="xs" component={Link} href="/schemas/new">New schema</Button></Group>}
    </ListView>
  );
}
