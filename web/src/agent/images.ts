// The images of messages. No I/O.
import type { v1 } from "folio-client";

/** Maximum number of images of a message. */
const IMAGES_MAX = 4;
/** Maximum size of a file with an image, in MiB. */
const FILE_MIB_MAX = 8;
/** Maximum number of problems that are shown at once. */
const PROBLEMS_MAX = 4;
/** The media types of files with an image. */
export const IMAGE_TYPES: readonly string[] = ["image/png", "image/jpeg", "image/webp"];

/** An image of the next message. */
export interface Attachment {
  /** Also the id of the request that stores the file, so that another attempt stores it once. */
  readonly key: string;
  readonly name: string;
  /** Undefined: the image was stored before. */
  readonly file: File | undefined;
  /** Undefined: the file is being sent, or was refused. */
  readonly image: v1.MessageImage | undefined;
  /** The reason for which the file was refused. Undefined: none. */
  readonly error: unknown;
}

/** Returns stored images as images of the next message. */
export function attached(images: readonly v1.MessageImage[]): Attachment[] {
  return images.map((image) => ({ key: image.imageId, name: "", file: undefined, image, error: undefined }));
}

/** Returns the files that a message with `count` images may contain in addition, and the problems of the other files, for people. */
export function acceptedFiles(files: readonly File[], count: number): { readonly accepted: readonly File[]; readonly problems: readonly string[] } {
  const free = Math.max(IMAGES_MAX - count, 0);
  const usable = files.filter((file) => problemOf(file) === undefined);
  const problems = files.map(problemOf).filter((problem) => problem !== undefined);
  const excess = usable.length > free ? [`A message has at most ${IMAGES_MAX} images.`] : [];
  return { accepted: usable.slice(0, free), problems: [...excess, ...new Set(problems)].slice(0, PROBLEMS_MAX) };
}

/** Returns the reason for which the server would refuse a file. Undefined: it may accept the file. */
function problemOf({ name, type, size }: File): string | undefined {
  if (!IMAGE_TYPES.includes(type)) return `${name} is not a PNG, JPEG or WebP image.`;
  return size > FILE_MIB_MAX * 1024 * 1024 ? `${name} has more than ${FILE_MIB_MAX} MiB.` : undefined;
}
