import { Alert, Anchor, Button, Stack, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { formatNumber } from "../format.js";
import { DiffView } from "../schemas/diff_view.js";
import { QueryView } from "../states/states.js";
import { affectedSentence, effectSentence, linesOfValue } from "./effect.js";
import { usePreview } from "./queries.js";

/** Number of differences that are shown at first. */
const SHOWN = 10;

interface EffectPreviewProps {
  readonly turnId: string;
  readonly callId: string;
  /** Edited arguments. Empty: those of the call. */
  readonly argumentsJson: string;
}

/** The effect that a waiting call would have now: its differences from the current revision, and what they affect. */
export function EffectPreview({ turnId, callId, argumentsJson }: EffectPreviewProps) {
  const preview = usePreview(turnId, callId, argumentsJson);
  return (
    <Stack gap={4} component="section" aria-label="Effect" aria-busy={preview.isFetching}>
      <QueryView query={preview}>{(effect) => <Effect effect={effect} />}</QueryView>
    </Stack>
  );
}

function Effect({ effect }: { readonly effect: v1.PreviewToolCallResponse }) {
  const [hasAll, setHasAll] = useState(false);
  const { changes, changeCount, prompts, documents, problem } = effect;
  const shown = hasAll ? changes : changes.slice(0, SHOWN);
  return (
    <>
      <Text size="sm" className="foreign">{effectSentence(effect)}</Text>
      {problem !== "" && <Alert color="yellow" title="The call would fail now" p="xs"><Text size="sm" className="foreign">{problem}</Text></Alert>}
      {shown.map(({ path, oldJson, newJson }) => (
        <div key={path}>
          <Text size="xs" c="dimmed" className="foreign">{path || "/"}</Text>
          <DiffView before={linesOfValue(oldJson)} after={linesOfValue(newJson)} />
        </div>
      ))}
      {shown.length < changes.length && <Button size="compact-xs" variant="subtle" onClick={() => setHasAll(true)}>{`Show all ${formatNumber(changes.length)} differences`}</Button>}
      {changes.length < changeCount && <Text size="xs" c="dimmed">{`The preview contains ${formatNumber(changes.length)} of ${formatNumber(changeCount)} differences.`}</Text>}
      <Affected affected={prompts} kind="prompt" path="/prompts?prompt=" />
      <Affected affected={documents} kind="document" path="/documents/" />
    </>
  );
}

interface AffectedProps {
  readonly affected: v1.AffectedResources | undefined;
  readonly kind: string;
  /** The address of a resource without its id. */
  readonly path: string;
}

function Affected({ affected, kind, path }: AffectedProps) {
  const sentence = affectedSentence(affected, kind);
  if (sentence === "") return null;
  return (
    <details>
      <summary><Text span size="sm">{sentence}</Text></summary>
      <ul style={{ margin: 0 }}>
        {(affected?.items ?? []).map(({ id, name }) => <li key={id}><Anchor component={Link} href={`${path}${encodeURIComponent(id)}`} size="sm"><bdi>{name || id}</bdi></Anchor></li>)}
      </ul>
    </details>
  );
}
