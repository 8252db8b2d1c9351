/** The order of one review: the request, the stored object, and the answer. */

import { allow, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, AdmissionHandler, AdmissionRequest } from "../shared/admission/definition.ts";
import { messageOf } from "../shared/base/error-message.ts";
import { Deadlines, withinDeadline } from "../shared/clock/deadlines.ts";
import type { Context } from "../shared/contract/context.ts";
import { type Downscale, readDownscale, refuseUnread, type SizedObject } from "../shared/scaling/downscale-review.ts";
import { decide, refuseUnknown } from "./decide.ts";
import { observe } from "./observe.ts";

type Stored = SizedObject["metadata"];

/** Opens the function for the reviews of one process. */
export function createHandler(context: Context): AdmissionHandler {
  const deadlines = new Deadlines(context.cluster);
  return { review: (request) => review(context, deadlines, request) };
}

async function review(context: Context, deadlines: Deadlines, request: AdmissionRequest): Promise<AdmissionAnswer> {
  const change = readDownscale(request);
  if ("allowed" in change) return change;
  const stored = change.old?.metadata ?? (await lookUpInTime(context, deadlines, change, request.deadlineMs));
  if ("allowed" in stored) return stored;
  return decide(observe(change, request, stored));
}

/**
 * The object that a scale belongs to, or the answer. If the API server does not return the object in time, the answer refuses
 * the scale, because the object may be protected. After any other error, which is a bug, the downscale goes through.
 */
async function lookUpInTime(
  { cluster, lookUps = cluster }: Context,
  deadlines: Deadlines,
  change: Downscale,
  deadlineMs: number,
): Promise<Stored | AdmissionAnswer> {
  const { resource, namespace, name } = change;
  const lookUp = async (): Promise<Stored | AdmissionAnswer> => {
    try {
      return (await lookUps.get(resource, { namespace, name }, { notAfterMs: deadlineMs })).metadata;
    } catch (error) {
      const refusal = refuseUnread(error, resource, name);
      if (refusal !== undefined) return refuseUnknown(change, refusal);
      const warning = `${resource}/${name} could not be looked up, so that its labels are not known, and it goes through: ${messageOf(error)}`;
      return allow("object-unknown", { warnings: [warning] });
    }
  };
  return withinDeadline(deadlines, deadlineMs, lookUp, () => refuseUnknown(change, tooLate()));
}
