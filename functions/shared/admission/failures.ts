/** What a failing API server makes of a review: a refusal that says so. */

import { TooManyLookUps } from "../cache/look-ups.ts";
import { ClusterError, hasCode, isTransient, wordsOf } from "../kubernetes/cluster.ts";
import { askAgain, notYet } from "./answers.ts";
import type { Denied } from "./definition.ts";

/** The refusal that a failing API server, or a look-up without a turn, makes of a decision about `what`; else undefined. */
export function refuseFailure(error: unknown, what: string): Denied | undefined {
  if (error instanceof TooManyLookUps)
    return askAgain("look-ups-busy", `${what} must be looked up, but ${error.message}`);
  if (!(error instanceof ClusterError)) return undefined;
  const { verb, resource } = error;
  const sentence = `to judge ${what}, Sluice has to ${verb} ${resource}, and that failed: ${wordsOf(error)}`;
  if (hasCode(error, 401)) return askAgain("credentials-refused", sentence);
  return isTransient(error) ? notYet("api-server-away", sentence) : askAgain("right-missing", sentence);
}
