/** What a failing look-up makes of a review of a size: the object behind a scale is known only by it. */

import { notFound } from "../admission/answers.ts";
import type { Denied } from "../admission/definition.ts";
import { refuseFailure } from "../admission/failures.ts";
import { hasCode } from "../kubernetes/cluster.ts";

/**
 * The refusal of a review whose object could not be looked up; undefined for a fault of ours. A 404 is 404: the API server, which
 * is asked for the object next, says so as well, unless another one of that name has come meanwhile, of which nothing is known.
 */
export function refuseUnread(error: unknown, resource: string, name: string): Denied | undefined {
  const isGone = hasCode(error, 404) && error.resource === resource;
  return isGone
    ? notFound("object-gone", `there is no ${resource}/${name} any more`)
    : refuseFailure(error, `${resource}/${name}`);
}
