import { Button, Group, NumberInput, Select, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber } from "../format.js";
import { useIsPlatform } from "../session/account.js";
import { QueryView } from "../states/states.js";

const KEY = ["limits"];
const STORAGE_MAX = 1e15;
const DOCUMENTS_MAX = 1e9;
const COUNT_MAX = 2 ** 32 - 1;
const COUNTS = [
  { name: "requestsPerSecond", label: "Requests per second", max: COUNT_MAX },
  { name: "concurrentTurns", label: "Running turns", max: COUNT_MAX },
  { name: "concurrentModelCalls", label: "Model calls in progress", max: COUNT_MAX },
  { name: "documents", label: "Documents", max: DOCUMENTS_MAX },
] as const;

type Own = Partial<Record<(typeof COUNTS)[number]["name"], number>> & { storageBytes?: bigint; abandonedCalls?: v1.AbandonedCalls };

/** The limits of an organization: what it does and stores at once. `organizationId`: empty for the current one. */
export function Limits({ organizationId = "" }: { readonly organizationId?: string }) {
  const api = useApi();
  const limits = useQuery({ queryKey: [...KEY, organizationId], queryFn: ({ signal }) => api.service(v1.LimitService).getLimits({ organizationId }, { signal }), refetchOnWindowFocus: false });
  return <QueryView query={limits}>{(data) => <LimitsForm key={data.etag} organizationId={organizationId} stored={data} />}</QueryView>;
}

function LimitsForm({ organizationId, stored: { limits, own, etag } }: { readonly organizationId: string; readonly stored: v1.GetLimitsResponse }) {
  // Only the administrator of the platform changes limits.
  const readOnly = !useIsPlatform();
  const api = useApi();
  const queries = useQueryClient();
  const [values, setValues] = useState<Own>(() => ownOf(own));
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.LimitService).setLimits({ organizationId, own: values, etag })),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const set = (name: keyof Own, value: number | bigint | undefined) =>
    setValues(({ [name]: _, ...rest }) => (value === undefined ? rest : { ...rest, [name]: value }));
  const inEffect = (value: number | bigint | undefined) => (value === undefined ? "" : `In effect: ${formatNumber(value)}`);
  return (
    <Stack gap="sm" maw={420}>
      <Text size="sm" c="dimmed">{`An empty field uses the limit of the installation.${readOnly ? " The administrator of the platform changes limits." : ""}`}</Text>
      {COUNTS.map(({ name, label, max }) => (
        <NumberInput key={name} readOnly={readOnly} label={label} description={inEffect(limits?.[name])} value={values[name] ?? ""} onChange={(value) => set(name, value === "" ? undefined : Number(value))} min={0} max={max} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
      ))}
      <NumberInput readOnly={readOnly} label="Stored bytes" description={inEffect(limits?.storageBytes)} value={values.storageBytes === undefined ? "" : Number(values.storageBytes)} onChange={(value) => set("storageBytes", value === "" ? undefined : BigInt(Math.trunc(Number(value))))} min={0} max={STORAGE_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
      <Select
        label="Model calls of stopped turns"
        placeholder="As the installation"
        data={[{ value: String(v1.AbandonedCalls.ABORT), label: "Abort" }, { value: String(v1.AbandonedCalls.DRAIN), label: "Read to the end" }]}
        value={values.abandonedCalls === undefined ? null : String(values.abandonedCalls)}
        onChange={(value) => set("abandonedCalls", value === null ? undefined : Number(value))}
        clearable={!readOnly}
        readOnly={readOnly}
      />
      {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: () => void queries.invalidateQueries({ queryKey: KEY }) }} />}
      {!readOnly && <Group><Button size="xs" loading={save.isPending} onClick={() => save.mutate()}>Save the limits</Button></Group>}
    </Stack>
  );
}

/** Returns the limits that the organization has itself. */
function ownOf(own: v1.OrganizationLimits | undefined): Own {
  const { requestsPerSecond, concurrentTurns, concurrentModelCalls, documents, storageBytes, abandonedCalls } = own ?? {};
  const all = { requestsPerSecond, concurrentTurns, concurrentModelCalls, documents, storageBytes, abandonedCalls };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Own;
}
