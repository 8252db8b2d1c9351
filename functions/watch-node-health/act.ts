/** Writes the mark, or takes it away, on condition that the Node is as it was read, and sends an Event about that. */

import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { markOf } from "../shared/fencing/mark.ts";
import {
  describeRefusal,
  type ObjectAttempt,
  reportWrite,
  type WriteResult,
} from "../shared/reconcile/reconcile-object.ts";
import type { HealthSnapshot, HealthStep, HealthVerdict } from "./decide.ts";
import { name } from "./observe.ts";

type HealthAttempt = ObjectAttempt<HealthSnapshot, HealthVerdict>;

/** Throws ClusterError where trying again later can help. */
export async function carryOut(attempt: HealthAttempt, step: HealthStep): Promise<WriteResult> {
  const { context, key, verdict, notAfterMs } = attempt;
  const { uid, resourceVersion } = step.node;
  const text = step.kind === "mark" ? step.text : null;
  const body = { metadata: { uid, resourceVersion, annotations: { [markOf(context).key]: text } } };
  const result = await reportWrite(
    context,
    { key, function: name, action: step.kind, object: key.name, reason: verdict.message },
    () => context.cluster.patch("nodes", key, body, { notAfterMs }),
    (error) => {
      const message = `${step.kind} of ${key.name} is refused: ${describeRefusal(error)}`;
      context.reporter.problem(key, name, message, error);
    },
  );
  if (result === "done") await recordStep(attempt, step);
  return result;
}

async function recordStep({ context, key, verdict }: HealthAttempt, { kind, node }: HealthStep): Promise<void> {
  const how =
    kind === "mark"
      ? ({ type: "Warning", reason: eventReasons.nodeMarked } as const)
      : ({ type: "Normal", reason: eventReasons.nodeUnmarked } as const);
  const about = { resource: "nodes", namespace: "", name: key.name, uid: node.uid } as const;
  const identity = `${node.uid} ${kind} ${node.resourceVersion}`;
  await recordOnce(context, name, key, { about, ...how, message: verdict.message, identity });
}
