import { Button, Group, Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { ROLES, roleOfValue } from "./roles.js";

const NAME_MAX = 200;
const ID_MAX = 100;

/** The members of the organization with their roles. */
export function Members() {
  const api = useApi();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [userId, setUserId] = useState("");
  const [role, setRole] = useState<v1.Role>(v1.Role.MEMBER);
  const onSuccess = () => queries.invalidateQueries({ queryKey: ["members"] });
  const add = useMutation({
    mutationFn: async () => void (await api.service(v1.OrganizationService).addMember({ member: { name: name.trim(), userId: userId.trim(), role } })),
    onSuccess: async () => {
      setName("");
      setUserId("");
      await onSuccess();
    },
  });
  const update = useMutation({
    mutationFn: async (member: { userId: string; role: v1.Role }) => void (await api.service(v1.OrganizationService).updateMember({ member, updateMask: { paths: ["role"] } })),
    onSettled: onSuccess,
  });
  const remove = useMutation({ mutationFn: async (userId: string) => void (await api.service(v1.OrganizationService).removeMember({ userId })), onSuccess });
  const error = add.error ?? update.error ?? remove.error;
  const filter = nameFilter(text);
  return (
    <>
      <form onSubmit={(event) => { event.preventDefault(); add.mutate(); }}>
        <Group align="flex-end" mb="sm">
          <TextInput size="xs" label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} required />
          <TextInput size="xs" label="Id of an existing user" value={userId} onChange={(event) => setUserId(event.currentTarget.value)} maxLength={ID_MAX} />
          <Select size="xs" label="Role" data={ROLES} value={String(role)} onChange={(value) => setRole(roleOfValue(value))} allowDeselect={false} />
          <Button size="xs" type="submit" loading={add.isPending} disabled={name.trim() === ""}>Add member</Button>
        </Group>
      </form>
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.Member>
        title="Members"
        queryKey={["members", { filter }]}
        load={async (pageToken, signal) => {
          const { members, nextPageToken } = await api.service(v1.OrganizationService).listMembers({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: members, nextPageToken };
        }}
        keyOf={({ userId }) => userId}
        emptyText="No member matches."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ name }) => name },
          { label: "Id", cell: ({ userId }) => userId },
          { label: "Role", cell: (member) => <Select size="xs" aria-label={`Role of ${member.name}`} data={ROLES} value={String(member.role)} onChange={(value) => update.mutate({ userId: member.userId, role: roleOfValue(value) })} allowDeselect={false} /> },
          { label: "Added", cell: ({ createTime }) => formatTime(createTime) },
          { label: "", cell: ({ userId, name }) => <Button size="compact-xs" variant="subtle" color="red" aria-label={`Remove ${name}`} onClick={() => remove.mutate(userId)}>Remove</Button> },
        ]}
      />
    </>
  );
}
