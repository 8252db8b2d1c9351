/** The short form of an agent's key, by which lists of peers name it. The function and the agent use the same one. */
import { createHash } from "node:crypto";

/** The first 16 hex digits of the SHA-256 of the raw key, for a key that `sluice.dev/agent-key` may have. */
export function fingerprintOf(publicKey: string): string {
  return createHash("sha256").update(Buffer.from(publicKey, "base64url")).digest("hex").slice(0, 16);
}
