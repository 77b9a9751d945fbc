import { Button, Group, Modal, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { CreditForm } from "./credit_form.js";
import { Limits } from "./limits.js";
import { SecretNotice } from "./secret_notice.js";
import { TypedConfirmation } from "./typed_confirmation.js";

const KEY = ["organizations"];
const NAME_MAX = 200;
const ID_MAX = 100;

type OpenForm = { readonly form: "credit" | "limits" | "delete"; readonly organization: v1.Organization };

/** All organizations of the platform, with their credit and limits. */
export function Organizations() {
  const api = useApi();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [adminName, setAdminName] = useState("");
  const [adminUserId, setAdminUserId] = useState("");
  const [shown, setShown] = useState<OpenForm>();
  const onChanged = () => queries.invalidateQueries({ queryKey: KEY });
  const create = useMutation({
    mutationFn: () => api.service(v1.OrganizationService).createOrganization({ organization: { name: name.trim() }, adminName: adminName.trim(), adminUserId: adminUserId.trim() }),
    // The token stays in memory for as long as it is shown.
    gcTime: 0,
    onSuccess: async () => {
      for (const clear of [setName, setAdminName, setAdminUserId]) clear("");
      await onChanged();
    },
  });
  const remove = useMutation({
    mutationFn: async (request: { organizationId: string; name: string }) => void (await api.service(v1.OrganizationService).deleteOrganization(request)),
    onSuccess: async () => {
      setShown(undefined);
      await onChanged();
    },
  });
  const show = (form: OpenForm["form"], organization: v1.Organization) => () => {
    remove.reset();
    setShown({ form, organization });
  };
  const filter = nameFilter(text);
  const token = create.data?.adminToken ?? "";
  return (
    <>
      <form onSubmit={(event) => { event.preventDefault(); create.mutate(); }}>
        <Group align="flex-end" mb="sm">
          <TextInput size="xs" label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} required />
          <TextInput size="xs" label="Name of the first admin" value={adminName} onChange={(event) => setAdminName(event.currentTarget.value)} maxLength={NAME_MAX} required />
          <TextInput size="xs" label="Id of an existing user" value={adminUserId} onChange={(event) => setAdminUserId(event.currentTarget.value)} maxLength={ID_MAX} />
          <Button size="xs" type="submit" loading={create.isPending} disabled={name.trim() === "" || adminName.trim() === ""}>Create organization</Button>
        </Group>
      </form>
      {token !== "" && <SecretNotice secret={token} onClose={create.reset} />}
      {create.error !== null && <ErrorNotice error={create.error} />}
      <ListView<v1.Organization>
        title="Organizations"
        queryKey={[...KEY, { filter }]}
        load={async (pageToken, signal) => {
          const { organizations, nextPageToken } = await api.service(v1.OrganizationService).listOrganizations({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: organizations, nextPageToken };
        }}
        keyOf={({ organizationId }) => organizationId}
        emptyText="No organization matches."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ name }) => name },
          { label: "Id", cell: ({ organizationId }) => organizationId },
          { label: "Created", cell: ({ createTime }) => formatTime(createTime) },
          {
            label: "",
            cell: (organization) => (
              <Group gap={4} wrap="nowrap">
                <Button size="compact-xs" variant="subtle" aria-label={`Credit of ${organization.name}`} onClick={show("credit", organization)}>Credit</Button>
                <Button size="compact-xs" variant="subtle" aria-label={`Limits of ${organization.name}`} onClick={show("limits", organization)}>Limits</Button>
                <Button size="compact-xs" variant="subtle" color="red" aria-label={`Delete ${organization.name}`} onClick={show("delete", organization)}>Delete</Button>
              </Group>
            ),
          },
        ]}
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title={<bdi>{shown?.organization.name}</bdi>} size="lg">
        {shown?.form === "credit" && <CreditForm organizationId={shown.organization.organizationId} />}
        {shown?.form === "limits" && <Limits organizationId={shown.organization.organizationId} />}
        {shown?.form === "delete" && (
          <TypedConfirmation
            text="All data of the organization is erased, and its tokens are refused. This cannot be undone."
            expected={shown.organization.name}
            label="Delete the organization"
            loading={remove.isPending}
            error={remove.error}
            onConfirm={(name) => remove.mutate({ organizationId: shown.organization.organizationId, name })}
          />
        )}
      </Modal>
    </>
  );
}
