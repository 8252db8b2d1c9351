/** Whether a request has the token of the pod. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

/**
 * Compares in constant time. The file is read for each request, because Kubernetes replaces it. Throws if it cannot be read, or
 * is empty.
 *
 * @param authorization the header of the request
 */
export function hasToken(authorization: string | undefined, tokenFile: string): boolean {
  const token = readFileSync(tokenFile, "utf8").trim();
  if (token === "") throw new Error(`${tokenFile} is empty`);
  const [, given] = /^Bearer +(\S+) *$/i.exec(authorization ?? "") ?? [];
  return timingSafeEqual(digestOf(given ?? ""), digestOf(token)) && given !== undefined;
}
