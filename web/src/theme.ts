import { createTheme } from "@mantine/core";

/** The theme of the page. The fonts are those of the system: the page loads nothing from other hosts. */
export const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 8 },
  defaultRadius: "md",
  fontFamily: "system-ui, sans-serif",
  fontFamilyMonospace: "ui-monospace, monospace",
  headings: { fontWeight: "600" },
  cursorType: "pointer",
  components: { Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } } },
});
