/** Refusals of reviews for which the API server fails a read or a write. */

import { TooManyLookUps } from "../cache/look-ups.ts";
import { apiMessage, ClusterError, hasCode, isTransient } from "../kubernetes/cluster.ts";
import { askAgain, notYet } from "./answers.ts";
import type { Denied } from "./definition.ts";

/** The refusal if the API server fails, or a look-up gets no slot, during a review of `what`; undefined for any other error. */
export function refuseFailure(error: unknown, what: string): Denied | undefined {
  if (error instanceof TooManyLookUps)
    return askAgain("look-ups-busy", `${what} must be looked up, but ${error.message}`);
  if (!(error instanceof ClusterError)) return undefined;
  const { verb, resource } = error;
  const message = `to decide about ${what}, Sluice has to ${verb} ${resource}, and that failed: ${apiMessage(error)}`;
  if (hasCode(error, 401)) return askAgain("credentials-refused", message);
  return isTransient(error) ? notYet("api-server-away", message) : askAgain("right-missing", message);
}
