import { createTheme } from "@mantine/core";

/** The theme of the page. The fonts are those of the system: the page loads nothing from other hosts. */
export const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 8 },
  // White text has less contrast than black text on colors above this luminance.
  autoContrast: true,
  luminanceThreshold: 0.179,
  defaultRadius: "md",
  fontFamily: "system-ui, sans-serif",
  fontFamilyMonospace: "ui-monospace, monospace",
  headings: { fontWeight: "600" },
  cursorType: "pointer",
  components: {
    // The header of a dialog is no landmark of the page.
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" }, attributes: { header: { role: "none" } } } },
  },
});
