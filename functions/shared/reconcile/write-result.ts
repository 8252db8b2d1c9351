/** What becomes of a write of one object that was decided on a read of it. */

import { messageOf } from "../base/error-message.ts";
import type { Context } from "../contract/context.ts";
import type { ActReport } from "../contract/reporter.ts";
import { ClusterError, isRefused, wordsOf } from "../kubernetes/cluster.ts";

/** The write was made, the object is another one by now, or the API server does not want it. */
export type WriteResult = "done" | "changed" | "refused";

/** 404 and 409 say that there is something new to look at. Throws what may be better the next time. */
export function resultOfFailure(error: unknown): Exclude<WriteResult, "done"> {
  if (error instanceof ClusterError && [404, 409].includes(error.code)) return "changed";
  if (error instanceof ClusterError && error.code !== 429 && isRefused(error)) return "refused";
  throw error;
}

/** The API server's own words, for a sentence. */
export function sayRefusal(error: unknown): string {
  if (!(error instanceof ClusterError)) return messageOf(error);
  return `the API server refused it with ${error.code}: ${wordsOf(error)}`;
}

/**
 * Sends one write that was decided on, and reports what became of it; `refused` is told of a refusal. Throws what may be better
 * the next time.
 */
export async function reportWrite(
  { reporter }: Pick<Context, "reporter">,
  act: Omit<ActReport, "zone" | "result">,
  write: () => Promise<unknown>,
  refused: (error: unknown) => void | Promise<void> = () => {},
): Promise<WriteResult> {
  try {
    await write();
  } catch (error) {
    const result = resultOfFailure(error);
    reporter.act({ ...act, zone: "", result, reason: messageOf(error) });
    if (result === "refused") await refused(error);
    return result;
  }
  reporter.act({ ...act, zone: "", result: "done" });
  return "done";
}
