// The zoom of the pages and the resolution of their images. No I/O.

export const ZOOMS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3] as const;
/** Resolutions that the server renders. */
const RESOLUTIONS = [50, 100, 150, 200] as const;
/** Maximum width of a page at zoom 1, in CSS pixels. */
export const PAGE_PX = 720;
/** Width of a usual page in inches. */
const PAGE_INCHES = 8.27;
/** Height of a page whose size is unknown, as a part of its width: DIN A4. */
export const RATIO = Math.SQRT2;

/** Returns the next zoom in a direction. The first and the last one are their own next one. */
export function nextZoom(zoom: number, direction: 1 | -1): number {
  const ordered = direction === 1 ? ZOOMS : [...ZOOMS].reverse();
  return ordered.find((candidate) => (direction === 1 ? candidate > zoom : candidate < zoom)) ?? zoom;
}

/** Returns the lowest resolution that is sharp for a width in pixels of the screen, or the highest one. */
export function resolutionFor(width: number, pixelRatio: number): number {
  const needed = (width * pixelRatio) / PAGE_INCHES;
  return RESOLUTIONS.find((resolution) => resolution >= needed * 0.9) ?? RESOLUTIONS[RESOLUTIONS.length - 1] ?? 100;
}
