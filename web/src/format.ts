// Texts of numbers, sizes and times in the language of the browser.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampDate } from "@bufbuild/protobuf/wkt";

const SIZES = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
const SPU_DIGITS = 3;

/** Returns a size such as `1.2 MB`. */
export function formatBytes(bytes: bigint | number): string {
  let value = Number(bytes);
  let unit = 0;
  for (; value >= 1_000 && unit < SIZES.length - 1; unit++) value /= 1_000;
  const options = { style: "unit", unit: SIZES[unit] ?? "byte", maximumFractionDigits: value < 10 ? 1 : 0 } as const;
  return new Intl.NumberFormat(undefined, options).format(value);
}

export function formatNumber(value: bigint | number): string {
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: SPU_DIGITS }).format(value);
}

/** Returns a number with its noun, such as `1 passage` or `2 passages`. */
export function formatCount(count: bigint | number, noun: string): string {
  return `${formatNumber(count)} ${noun}${Number(count) === 1 ? "" : "s"}`;
}

/** Returns a date with its time. Empty: no time. */
export function formatTime(time: Timestamp | undefined): string {
  return time === undefined ? "" : formatDate(timestampDate(time));
}

/** Returns a date with its time. */
export function formatDate(date: Date): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }).format(date);
}

/** Returns true if a text is a date such as `2026-05-01`. */
export function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** Returns the time left until a deadline, such as `2 h 5 min`. */
export function formatLeft(deadline: Date, now: Date): string {
  const minutes = Math.floor((deadline.getTime() - now.getTime()) / 60_000);
  if (minutes < 0) return "expired";
  if (minutes < 1) return "less than a minute left";
  if (minutes < 60) return `${minutes} min left`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min left`;
  return `${Math.floor(hours / 24)} days left`;
}

export function formatPercent(fraction: number): string {
  return new Intl.NumberFormat(undefined, { style: "percent" }).format(fraction);
}
