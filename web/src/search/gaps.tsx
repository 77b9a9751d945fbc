import { Alert, Text } from "@mantine/core";

/** The passages that a search did not consider, one sentence for each reason. */
export function Gaps({ gaps }: { readonly gaps: readonly string[] }) {
  if (gaps.length === 0) return null;
  return (
    <Alert color="yellow" title="The search was not complete" role="status" py="xs">
      {gaps.map((gap) => <Text key={gap} size="sm" className="foreign">{gap}</Text>)}
    </Alert>
  );
}
