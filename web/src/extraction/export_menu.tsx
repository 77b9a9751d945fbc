import { Button, Menu } from "@mantine/core";
import { ErrorNotice } from "../errors/error_notice.js";
import { EXPORTS, useExport, type ExportSelection } from "./queries.js";

/** Exports extractions in a format that is chosen from a menu. */
export function ExportMenu({ selection, fileName }: { readonly selection: ExportSelection; readonly fileName: string }) {
  const file = useExport(selection, fileName);
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target><Button size="xs" variant="default" loading={file.isPending}>Export</Button></Menu.Target>
        <Menu.Dropdown>
          {EXPORTS.map((choice) => <Menu.Item key={choice.label} onClick={() => file.mutate(choice)}>{choice.label}</Menu.Item>)}
        </Menu.Dropdown>
      </Menu>
      {file.error !== null && <ErrorNotice error={file.error} onClose={file.reset} />}
    </>
  );
}
