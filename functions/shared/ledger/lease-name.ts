/** The name of a group's Lease. */
import { createHash } from "node:crypto";
import { isObjectName } from "../base/dns-names.ts";

/** The beginning of the name of every ledger. */
export const ledgerPrefix = "sluice-";

/** Rule R1: `sluice-GROUP` where that is a valid object name, otherwise 16 hex digits of the group's SHA-256. */
export function ledgerName(group: string): string {
  const plain = `${ledgerPrefix}${group}`;
  if (isObjectName(plain)) return plain;
  return `${ledgerPrefix}${createHash("sha256").update(group).digest("hex").slice(0, 16)}`;
}
