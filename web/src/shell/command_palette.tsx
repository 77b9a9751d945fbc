import { Kbd, Modal, ScrollArea, Text, TextInput, UnstyledButton, Group } from "@mantine/core";
import { useState, type KeyboardEvent } from "react";
import classes from "./command_palette.module.css";

/** A command of the palette. */
export interface Command {
  readonly label: string;
  /** The shortcut, for people. Empty: none. */
  readonly keys: string;
  readonly run: () => void;
}

interface CommandPaletteProps {
  readonly commands: readonly Command[];
  readonly opened: boolean;
  readonly onClose: () => void;
}

/** Returns the commands whose label contains each word of the text, without regard to case. */
export function matching(commands: readonly Command[], text: string): Command[] {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return commands.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
}

/** Finds and runs a command by the keyboard. */
export function CommandPalette({ commands, opened, onClose }: CommandPaletteProps) {
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const found = matching(commands, text);
  const current = Math.min(selected, found.length - 1);

  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    setText("");
    setSelected(0);
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setSelected((current + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[current]);
    }
  };

  return (
    <Modal.Root opened={opened} onClose={onClose} padding={0} size="lg" yOffset="12vh">
      <Modal.Overlay />
      <Modal.Content aria-label="Commands">
      <TextInput
        value={text}
        onChange={(event) => { setText(event.currentTarget.value); setSelected(0); }}
        onKeyDown={onKeyDown}
        placeholder="Type a command"
        aria-label="Command"
        role="combobox"
        aria-expanded
        aria-controls="commands"
        aria-activedescendant={found.length > 0 ? `command-${current}` : undefined}
        size="md"
        variant="unstyled"
        px="md"
        data-autofocus
      />
      <ScrollArea.Autosize mah={360} id="commands" role="listbox" aria-label="Commands">
        {found.map((command, index) => (
          <UnstyledButton
            key={command.label}
            id={`command-${index}`}
            role="option"
            aria-selected={index === current}
            tabIndex={-1}
            className={classes["command"] ?? ""}
            onClick={() => run(command)}
          >
            <Group justify="space-between" wrap="nowrap">
              <span>{command.label}</span>
              {command.keys !== "" && <Kbd size="xs">{command.keys}</Kbd>}
            </Group>
          </UnstyledButton>
        ))}
        {found.length === 0 && <Text c="dimmed" p="md">No command contains this text.</Text>}
      </ScrollArea.Autosize>
      </Modal.Content>
    </Modal.Root>
  );
}
