// Comparison of two images, decoded by the browser.
import type { Browser } from "playwright-core";

/** Maximum difference of a color channel that counts as equal. */
const CHANNEL_MAX = 32;

/** Returns the share of pixels that differ, between 0 and 1. Images of different sizes differ completely. */
export async function differingPixels(browser: Browser, before: Buffer, after: Buffer): Promise<number> {
  const page = await browser.newPage();
  try {
    return await page.evaluate(async ({ images, limit }) => {
      const [first, second] = await Promise.all(images.map(async (base64) => {
        const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0))], { type: "image/png" }));
        const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
        context?.drawImage(bitmap, 0, 0);
        return context?.getImageData(0, 0, bitmap.width, bitmap.height);
      }));
      if (first === undefined || second === undefined || first.width !== second.width || first.height !== second.height) return 1;
      let different = 0;
      for (let pixel = 0; pixel < first.data.length; pixel += 4) {
        const isDifferent = [0, 1, 2].some((channel) => Math.abs((first.data[pixel + channel] ?? 0) - (second.data[pixel + channel] ?? 0)) > limit);
        if (isDifferent) different += 1;
      }
      return (different * 4) / first.data.length;
    }, { images: [before.toString("base64"), after.toString("base64")], limit: CHANNEL_MAX });
  } finally {
    await page.close();
  }
}
