import { NumberInput, SegmentedControl, Text, TextInput } from "@mantine/core";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { randomId, v1 } from "folio-client";
import { useRef, useState } from "react";
import { useApi } from "../api/api.js";
import { formatNumber } from "../format.js";
import { SaveForm } from "./save_form.js";

const CREDITS_MAX = 1e12;
const PRIORITY_MAX = 255;
const NOTE_MAX = 200;

/** Grants credit to an organization, or withdraws it. */
export function CreditForm({ organizationId }: { readonly organizationId: string }) {
  const api = useApi();
  const queries = useQueryClient();
  const [kind, setKind] = useState("grant");
  const [credits, setCredits] = useState<number | "">("");
  const [expires, setExpires] = useState("");
  const [priority, setPriority] = useState(0);
  const [note, setNote] = useState("");
  // A press that is repeated after a lost answer grants no second amount.
  const request = useRef({ content: "", id: "" });
  const send = useMutation({
    mutationFn: async () => {
      const content = JSON.stringify([kind, credits, expires, priority, note]);
      if (request.current.content !== content) request.current = { content, id: randomId() };
      const common = { organizationId, credits: BigInt(credits || 0), note: note.trim(), requestId: request.current.id };
      if (kind === "withdraw") await api.service(v1.CreditService).withdrawCredit(common);
      else await api.service(v1.CreditService).grantCredit({ ...common, priority, ...(expires !== "" && { expireTime: timestampFromDate(new Date(`${expires}T23:59:59`)) }) });
      request.current = { content: "", id: "" };
      return `${formatNumber(credits || 0)} credits ${kind === "withdraw" ? "withdrawn" : "granted"}.`;
    },
    onSuccess: () => {
      setCredits("");
      return queries.invalidateQueries({ queryKey: ["balance"] });
    },
  });
  return (
    <SaveForm onSubmit={() => send.mutate()} isPending={send.isPending} error={send.error} isValid={credits !== "" && credits >= 1} label={kind === "withdraw" ? "Withdraw the credits" : "Grant the credits"}>
      <SegmentedControl aria-label="Kind" data={[{ value: "grant", label: "Grant" }, { value: "withdraw", label: "Withdraw" }]} value={kind} onChange={setKind} />
      <NumberInput label="Credits" value={credits} onChange={(value) => setCredits(value === "" ? "" : Math.trunc(Number(value)))} min={1} max={CREDITS_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" required data-autofocus />
      {kind === "grant" && (
        <>
          <TextInput label="Last day" description="Empty: the credits never expire." type="date" value={expires} onChange={(event) => setExpires(event.currentTarget.value)} />
          <NumberInput label="Priority" description="Grants with a lower value are used first." value={priority} onChange={(value) => setPriority(Number(value) || 0)} min={0} max={PRIORITY_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
        </>
      )}
      <TextInput label="Purpose" value={note} onChange={(event) => setNote(event.currentTarget.value)} maxLength={NOTE_MAX} />
      {send.data !== undefined && <Text size="sm" c="green" role="status">{send.data}</Text>}
    </SaveForm>
  );
}
