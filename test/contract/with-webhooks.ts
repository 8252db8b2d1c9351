/** What cases of evictions share: a pod, webhooks that answer as a case wants, and checks of the pod afterwards. */
import assert from "node:assert/strict";
import { ClusterError, type PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Case, createPod, type EvictionFixture, readyPod } from "./fixture.ts";
import { type Response, type Review, WebhookServer } from "./webhook-server.ts";

export const mutating = "mutatingwebhookconfigurations";
export const validating = "validatingwebhookconfigurations";
/** A uid that no pod has. */
export const otherUid = "00000000-0000-4000-8000-000000000000";

export type EvictionCase = Case<EvictionFixture>;

/** A case with a webhook server of its own, and a ready pod. */
export function withWebhooks(
  name: string,
  run: (fixture: EvictionFixture, webhooks: WebhookServer, pod: PodObject) => Promise<void>,
): EvictionCase {
  return {
    name,
    async run(fixture) {
      const webhooks = await WebhookServer.start();
      try {
        await createPod(fixture, "pod", { labels: { app: "set" } });
        await run(fixture, webhooks, await readyPod(fixture, "pod"));
      } finally {
        await webhooks.close();
      }
    },
  };
}

/** An allowing response that changes the Eviction. */
export function patching(operations: readonly object[]): Response {
  const patch = Buffer.from(JSON.stringify(operations)).toString("base64");
  return { allowed: true, patchType: "JSONPatch", patch };
}

/** An allowing response that pins a uid, and adds the objects around it if they are missing. */
export function pinning({ request }: Review, uid: string): Response {
  const { deleteOptions } = request.object;
  const path = "/deleteOptions/preconditions";
  return patching([
    ...(deleteOptions === undefined ? [{ op: "add", path: "/deleteOptions", value: {} }] : []),
    ...(deleteOptions?.preconditions === undefined ? [{ op: "add", path, value: {} }] : []),
    { op: "add", path: `${path}/uid`, value: uid },
  ]);
}

export function wrongUid({ metadata: { name, uid } }: PodObject): string {
  const mismatch = `the UID in the precondition (${otherUid}) does not match the UID in record (${uid})`;
  const guess = "The object might have been deleted and then recreated";
  return `Operation cannot be fulfilled on Pod "${name}": ${mismatch}. ${guess}`;
}

export async function isUntouched({ cluster, namespace }: EvictionFixture, pod: PodObject): Promise<void> {
  const now = await cluster.get("pods", { namespace, name: pod.metadata.name });
  assert.equal(now.metadata.resourceVersion, pod.metadata.resourceVersion);
}

/** Asserts that the pod is terminating or gone. */
export async function terminates({ cluster, namespace }: EvictionFixture): Promise<void> {
  try {
    const { metadata } = await cluster.get("pods", { namespace, name: "pod" });
    assert.notEqual(metadata.deletionTimestamp, undefined);
  } catch (error) {
    if (!(error instanceof ClusterError && error.code === 404)) throw error;
  }
}
