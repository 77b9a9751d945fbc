import { ActionIcon, Box, Button, Group, Select, Stack, TextInput } from "@mantine/core";
import { changed, KINDS, newProperty, propertiesOf, withProperties, type Kind, type Node, type Property } from "./properties.js";

const NAME_MAX = 64;
const DESCRIPTION_MAX = 1_000;

interface PropertiesEditorProps {
  readonly schema: Node;
  readonly onChange: (schema: Node) => void;
  readonly label: string;
}

/** Edits the properties of an object, and those below it. */
export function PropertiesEditor({ schema, onChange, label }: PropertiesEditorProps) {
  const properties = propertiesOf(schema);
  const replace = (index: number, next: Property | undefined) =>
    onChange(withProperties(schema, properties.flatMap((property, at) => (at === index ? (next === undefined ? [] : [next]) : [property]))));
  return (
    <Stack gap={6} role="group" aria-label={label}>
      {properties.map((property, index) => {
        const change = (changes: Parameters<typeof changed>[1]) => {
          const isTaken = changes.name !== undefined && properties.some(({ name }, at) => at !== index && name === changes.name);
          if (!isTaken) replace(index, changed(property, changes));
        };
        return (
          <Box key={index}>
            <Group gap={6} wrap="nowrap">
              <TextInput size="xs" aria-label={`Name of field ${index + 1}`} value={property.name} maxLength={NAME_MAX} onChange={(event) => change({ name: event.currentTarget.value })} flex={1} />
              <Select size="xs" aria-label={`Type of ${property.name}`} placeholder="other" data={[...KINDS]} value={property.kind ?? null} onChange={(kind) => kind !== null && change({ kind: kind as Kind })} allowDeselect={false} w={140} />
              <TextInput size="xs" aria-label={`Description of ${property.name}`} placeholder="Description for the model" value={property.description} maxLength={DESCRIPTION_MAX} onChange={(event) => change({ description: event.currentTarget.value })} flex={2} />
              <ActionIcon variant="subtle" color="red" aria-label={`Remove ${property.name}`} onClick={() => replace(index, undefined)}>✕</ActionIcon>
            </Group>
            {property.nested !== undefined && (
              <Box pl="lg" pt={6}><PropertiesEditor schema={property.nested} label={`Fields of ${property.name}`} onChange={(nested) => change({ nested })} /></Box>
            )}
          </Box>
        );
      })}
      <Group><Button size="compact-xs" variant="subtle" onClick={() => onChange(withProperties(schema, [...properties, newProperty(properties)]))}>Add a field</Button></Group>
    </Stack>
  );
}
