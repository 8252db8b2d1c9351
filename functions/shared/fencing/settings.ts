/** The settings that the functions of fencing have in common. The agent imports this file as well. Pure. */

import { isNamespaceName } from "../base/dns-names.ts";
import { setting } from "../base/settings.ts";

export const fenceNamespace = setting<string>({
  name: "FENCE_NAMESPACE",
  fallback: "sluice-fencing",
  meaning: "the namespace of the Leases of fence-node and its agents",
  grammar: "the name of a namespace",
  parse: (text) => (isNamespaceName(text) ? text : undefined),
});

export const fenceStormPercent = setting<number>({
  name: "FENCE_STORM",
  fallback: "40%",
  meaning: "no fence begins while more nodes than this are marked or not Ready, and two at least; nor is a node marked",
  grammar: "a whole percentage from 0% to 100%; 100% for never",
  parse: (text) => (text.endsWith("%") ? parseWhole(text.slice(0, -1), 0, 100) : undefined),
});

/** A whole number without a sign; undefined beyond the bounds. */
export function parseWhole(text: string, least: number, most: number): number | undefined {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  return number >= least && number <= most ? number : undefined;
}
