import { Badge, Group, Text } from "@mantine/core";
import { intentOf, stepLabel, type Step } from "./steps.js";

/** The nodes of the agent's graph in the order of their start. `isRunning`: true while the turn runs. */
export function StepList({ steps, isRunning }: { readonly steps: readonly Step[]; readonly isRunning: boolean }) {
  return (
    <Group component="ol" gap="xs" m={0} p={0} aria-label="Steps" style={{ listStyle: "none" }}>
      {steps.map((step) => <StepItem key={`${step.round} ${step.name}`} step={step} isRunning={isRunning} />)}
    </Group>
  );
}

function StepItem({ step: { name, end }, isRunning }: { readonly step: Step; readonly isRunning: boolean }) {
  const { text, reasoning } = intentOf(end);
  const state = end === undefined ? (isRunning ? "in progress" : "not ended") : end.isDefault ? "default answer" : "done";
  return (
    <li>
      <Badge size="sm" variant="light" tt="none" color={end === undefined ? (isRunning ? "blue" : "gray") : end.isDefault ? "yellow" : "green"} {...(reasoning !== "" && { title: reasoning })}>
        <bdi>{stepLabel(name)}</bdi>
        {text !== "" && <>{": "}<bdi>{text}</bdi></>}
        <Text span inherit>{`, ${state}`}</Text>
      </Badge>
    </li>
  );
}
