/** Labels that an annotation names, as `LABEL=VALUE,LABEL=VALUE`. */
import { BoundedMap } from "../base/bounded-map.ts";
import { mostEntries } from "./bounds.ts";

export const labelValue = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
export const labelKey =
  /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Each reconcile reads a volume claim again, and the volume claims of a group mostly have the same annotations. */
const readLabels = new BoundedMap<string, ReadonlyMap<string, string> | undefined>(1_000);

/** Undefined if one of them is no label, or if there are too many. */
export function parseLabels(text: string): ReadonlyMap<string, string> | undefined {
  if (!readLabels.has(text)) readLabels.set(text, splitLabels(text));
  return readLabels.get(text);
}

function splitLabels(text: string): ReadonlyMap<string, string> | undefined {
  const labels = new Map<string, string>();
  const parts = text.split(",", mostEntries + 1);
  if (parts.length > mostEntries) return undefined;
  for (const part of parts) {
    const [key = "", value = "", ...rest] = part.split("=");
    if (rest.length > 0 || !labelKey.test(key) || !labelValue.test(value)) return undefined;
    labels.set(key, value);
  }
  return labels;
}
