import { Button, FileButton, Overlay, Text, Center } from "@mantine/core";
import { useEffect, useRef, useState, type DragEvent, type ReactNode } from "react";

interface DropAreaProps {
  readonly onFiles: (files: readonly File[]) => void;
  readonly disabled: boolean;
  /** Shown while files are dragged over the area. */
  readonly label?: string;
  readonly children: ReactNode;
}

/** A drag without files, such as one of selected text, is left to the browser. */
const hasFiles = (transfer: DataTransfer | null): boolean => transfer?.types.includes("Files") ?? false;

/** Accepts files that are dropped anywhere on its content. */
export function DropArea({ onFiles, disabled, label = "Drop the files to upload them", children }: DropAreaProps) {
  const depth = useRef(0);
  const [isOver, setOver] = useState(false);
  // The browser opens a file that is dropped next to the area, and leaves the page.
  useEffect(() => {
    const refuse = (event: globalThis.DragEvent) => {
      if (hasFiles(event.dataTransfer)) event.preventDefault();
    };
    window.addEventListener("dragover", refuse);
    window.addEventListener("drop", refuse);
    return () => {
      window.removeEventListener("dragover", refuse);
      window.removeEventListener("drop", refuse);
    };
  }, []);
  const enter = (change: number) => (event: DragEvent) => {
    if (disabled || !hasFiles(event.dataTransfer)) return;
    depth.current += change;
    setOver(depth.current > 0);
  };
  const drop = (event: DragEvent) => {
    if (!hasFiles(event.dataTransfer)) return;
    event.preventDefault();
    depth.current = 0;
    setOver(false);
    if (!disabled) onFiles([...event.dataTransfer.files]);
  };
  return (
    <div style={{ position: "relative" }} onDragEnter={enter(1)} onDragLeave={enter(-1)} onDrop={drop} data-testid="drop-area">
      {children}
      {isOver && (
        <Overlay backgroundOpacity={0.75} color="var(--mantine-color-body)" zIndex={20}>
          <Center h="100%"><Text size="xl" fw={600}>{label}</Text></Center>
        </Overlay>
      )}
    </div>
  );
}

/** Opens the file dialog: the way to upload by the keyboard. */
export function UploadButton({ onFiles, disabled }: { readonly onFiles: (files: readonly File[]) => void; readonly disabled: boolean }) {
  return (
    <FileButton multiple onChange={onFiles} disabled={disabled} inputProps={{ "aria-label": "Files" }}>
      {(props) => <Button {...props} disabled={disabled}>Upload</Button>}
    </FileButton>
  );
}
