/** The order of one review: what it asks for, the answers that need no ledger, and the preparation of the pods that leave. */

import { allow, askAgain, badRequest, internalError, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, AdmissionHandler, AdmissionRequest, Denied } from "../shared/admission/definition.ts";
import { recordRefusal } from "../shared/admission/refusal-events.ts";
import { refuseBesideOperator } from "../shared/admission/stand-by.ts";
import { prepareDownscale } from "../shared/annotations/scaling.ts";
import { read } from "../shared/annotations/table.ts";
import { messageOf } from "../shared/base/error-message.ts";
import { Deadlines, withinDeadline } from "../shared/clock/deadlines.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import type { Blocked } from "../shared/groups/refuse-claim.ts";
import { type Downscale, readDownscale, refuseUnread } from "../shared/scaling/downscale-review.ts";
import { prepareEndpointOf } from "../shared/scaling/prepared.ts";
import { originOf, refuseDropped, refuseProtected } from "../shared/scaling/refused-downscales.ts";
import type { Size } from "../shared/scaling/size-changes.ts";
import { waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { messageFor, type RequestedDownscale, refuseOutdated } from "./decide.ts";
import type { Work } from "./ledger-writes.ts";
import { name as by, readKey, readStatefulSet } from "./observe.ts";
import { prepare } from "./prepare.ts";

/** Opens the function for the reviews of one process. */
export function createHandler(context: Context): AdmissionHandler {
  const deadlines = new Deadlines(context.cluster);
  return { review: (request) => review(context, deadlines, request) };
}

async function review(context: Context, deadlines: Deadlines, request: AdmissionRequest): Promise<AdmissionAnswer> {
  if (request.dryRun) return allow("dry-run");
  const downscale = readDownscale(request);
  if ("allowed" in downscale) return downscale;
  const statefulSet = await withinDeadline<StatefulSet | AdmissionAnswer>(
    deadlines,
    request.deadlineMs,
    () => findStatefulSet(context, downscale),
    tooLate,
  );
  if ("allowed" in statefulSet) return statefulSet;
  if (statefulSet.scaling?.preparesDownscale !== true) return allow("not-prepared");
  // The API server asks guard-downscale only after the pods were told: they would be prepared, and stay.
  const { refusesDownscale } = statefulSet.scaling;
  const never = refusesDownscale ? refuseProtected(downscale) : refuseDropped(downscale, originOf(downscale, request));
  if (never !== undefined) return reportAnswer(context, statefulSet, never);
  const asked = requestedOf(downscale, statefulSet.start);
  // From here on whatever breaks is a refusal, because no pod may leave that was not told.
  try {
    const { deadlineMs } = request;
    const work = { asked, statefulSet, deadlineMs };
    return reportAnswer(
      context,
      statefulSet,
      await withinDeadline(deadlines, deadlineMs, () => prepareOrDeny(context, work), tooLate),
    );
  } catch (error) {
    return reportAnswer(context, statefulSet, refuseError(asked, error));
  }
}

/** Reports a refusal in an Event on the StatefulSet, because an autoscaler shows its user none. */
function reportAnswer(context: Context, statefulSet: StatefulSet, answer: AdmissionAnswer): AdmissionAnswer {
  if (!answer.allowed) recordRefusal(context, by, statefulSet, answer, eventReasons.downscaleRefused);
  return { ...answer, zone: statefulSet.name };
}

/**
 * The stored StatefulSet, or the answer if no pod has to be told. The answer refuses a scale whose StatefulSet cannot be read,
 * because its pods may have to be told.
 */
async function findStatefulSet({ cluster }: Context, downscale: Downscale): Promise<StatefulSet | AdmissionAnswer> {
  const { resource, namespace, name } = downscale;
  if (resource !== "statefulsets") {
    const message = `whether the pods of ${resource}/${name} in ${namespace} are to be told could not be found out, and it goes through: only pods of a StatefulSet are told`;
    return allow("settings-unread", { warnings: [message] });
  }
  // A scale brings no object of the StatefulSet, only a number.
  const { old } = downscale;
  if (old !== undefined && read(prepareDownscale, old.metadata) !== true) return allow("not-prepared");
  try {
    const stored = await readStatefulSet(cluster, downscale);
    return refuseOutdated(requestedOf(downscale, stored.start), old, stored) ?? stored;
  } catch (error) {
    return refuseError(requestedOf(downscale), error);
  }
}

/** `start`: the first ordinal of the stored StatefulSet, which a scale does not say. */
function requestedOf({ resource, namespace, name, from, to, isScale }: Downscale, start = 0): RequestedDownscale {
  const at = (size: Size) => (isScale ? { ...size, start } : size);
  return { resource, namespace, name, from: at(from), to: at(to) };
}

function refuseError(asked: RequestedDownscale, error: unknown): Denied {
  const unread = refuseUnread(error, asked.resource, asked.name);
  if (unread?.code === 404) return { ...unread, message: messageFor(asked, unread.message) };
  const blocked: Blocked | undefined = waitForLedger(error) ?? unread;
  if (blocked !== undefined) return askAgain(blocked.guard, messageFor(asked, blocked.message));
  return internalError("prepare-broken", messageFor(asked, messageOf(error)));
}

async function prepareOrDeny(
  context: Context,
  question: Pick<Work, "asked" | "statefulSet" | "deadlineMs">,
): Promise<AdmissionAnswer> {
  const { asked, statefulSet } = question;
  const endpoint = prepareEndpointOf(statefulSet);
  if ("guard" in endpoint) return badRequest(endpoint.guard, messageFor(asked, endpoint.message));
  const { namespaces, pods } = context;
  if (namespaces !== undefined && !namespaces.includes(asked.namespace)) {
    const cause = `the namespace is not served here, only ${namespaces.join(", ")}: give the webhook a namespaceSelector`;
    return badRequest("namespace-not-served", messageFor(asked, cause));
  }
  if (pods === undefined) return internalError("prepare-broken", messageFor(asked, "this process calls no pods"));
  const key = await readKey(context, asked, statefulSet);
  if ("allowed" in key) return key;
  const refused = await refuseBesideOperator(context, key.namespace, statefulSet.name, (cause) =>
    messageFor(asked, cause),
  );
  return refused ?? prepare({ context, pods, key, endpoint, ...question });
}
