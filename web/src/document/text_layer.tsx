import type { v1 } from "folio-client";
import { memo } from "react";
import type { Box } from "./focus.js";
import classes from "./page.module.css";

interface TextLayerProps {
  readonly words: readonly v1.PageWord[];
  /** Size of the page in the unit of the layer. */
  readonly width: number;
  readonly height: number;
  /** Indexes of the words that a search found. */
  readonly found: ReadonlySet<number>;
}

/** The words of a page at their boxes: transparent text over the image, which can be selected and copied. */
export const TextLayer = memo(function TextLayer({ words, width, height, found }: TextLayerProps) {
  return (
    <svg viewBox={`0 0 ${width} ${height}`} className={classes["layer"]} aria-hidden={false} role="document" aria-label="Text of the page">
      {words.map(({ text, boundingBox }, index) => {
        if (boundingBox === undefined) return null;
        const { left, top, right, bottom } = boundingBox;
        const [x, y, w, h] = [left * width, top * height, (right - left) * width, (bottom - top) * height];
        if (w <= 0 || h <= 0) return null;
        return (
          <g key={index}>
            {found.has(index) && <rect x={x} y={y} width={w} height={h} className={classes["found"]} />}
            <text x={x} y={y + h * 0.8} fontSize={h} textLength={w} lengthAdjust="spacingAndGlyphs" className={classes["word"]}>{`${text} `}</text>
          </g>
        );
      })}
    </svg>
  );
});

/** The highlighted boxes of a page. */
export function HighlightLayer({ boxes }: { readonly boxes: readonly Box[] }) {
  return (
    <svg viewBox="0 0 1 1" preserveAspectRatio="none" className={classes["layer"]} aria-hidden data-testid="highlight">
      {boxes.map(({ left, top, right, bottom }, index) => (
        <rect key={index} x={left} y={top} width={Math.max(right - left, 0)} height={Math.max(bottom - top, 0)} className={classes["highlight"]} />
      ))}
    </svg>
  );
}
