/** The files that the page loads. Another content has another path, so that no cache can have an older one. */
import { createHash } from "node:crypto";
import { script } from "./script.ts";
import { style } from "./style.ts";

export interface Asset {
  /** Relative to the folder of the page. */
  readonly path: string;
  readonly contentType: string;
  readonly text: string;
}

export const styleAsset = assetOf("style", "css", "text/css", style);
export const scriptAsset = assetOf("refresh", "js", "text/javascript", script);

function assetOf(name: string, ending: string, mediaType: string, text: string): Asset {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
  return { path: `assets/${name}-${hash}.${ending}`, contentType: `${mediaType}; charset=UTF-8`, text };
}
