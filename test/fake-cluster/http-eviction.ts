/** `POST …/pods/NAME/eviction`: a deletion that webhooks and PodDisruptionBudgets may refuse. */

import type { Admission } from "./admission.ts";
import { badRequest } from "./api-errors.ts";
import { checkDisruptionBudgets } from "./disruption-budgets.ts";
import { type ApiRequest, checkDryRun } from "./http-request.ts";
import type { World } from "./world.ts";
import { type DeleteOptions, planDeletion } from "./write-rules.ts";

interface Eviction {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name?: string; readonly namespace: string };
  readonly deleteOptions?: DeleteOptions & { readonly dryRun?: readonly string[] };
}

/**
 * Evicts a pod. Resolves to the Status of a success. Webhooks see the Eviction before the server reads the pod. A failed
 * precondition is refused at once, even for pending or terminating pods, where a real server tries again for ten seconds.
 *
 * @throws ApiStatusError 404, 409 for a failed precondition, and what webhooks and budgets refuse with.
 */
export async function answerEviction(
  world: World,
  admission: Admission,
  asked: ApiRequest,
  body: Readonly<Record<string, unknown>>,
): Promise<object> {
  const { namespace = "", name = "", query, user } = asked;
  const asksDryRun = query.getAll("dryRun");
  checkDryRun("create", "pods", "CreateOptions", asksDryRun);
  const attributes = {
    operation: "CREATE",
    kind: { group: "policy", version: "v1", kind: "Eviction" },
    resource: "pods",
    subresource: "eviction",
    namespace,
    name,
    oldObject: null,
    isDryRun: asksDryRun.length > 0,
    user,
  } as const;
  const mutated = await admission.mutate(attributes, evictionOf(namespace, body));
  if (mutated.metadata.name !== name) {
    throw badRequest("create", "pods", "name in URL does not match name in Eviction object");
  }
  await admission.validate(attributes, mutated);

  const { dryRun = [], ...options } = mutated.deleteOptions ?? {};
  checkDryRun("create", "pods", "DeleteOptions", dryRun);
  const key = { namespace, name };
  const pod = world.store.get("pods", key);
  checkDisruptionBudgets(world.store, pod);
  // A dry run gets the same refusals as a deletion.
  if (attributes.isDryRun || dryRun.length > 0) planDeletion("pods", pod, options, world.timeline.nowMs());
  else world.store.delete("pods", key, options);
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
}

function evictionOf(namespace: string, body: Readonly<Record<string, unknown>>): Eviction {
  const { apiVersion = "policy/v1", kind = "Eviction", metadata, ...rest } = body as Partial<Eviction>;
  if (kind !== "Eviction" || apiVersion !== "policy/v1") {
    throw badRequest("create", "pods", `${kind} in version "${apiVersion}" cannot be handled as a Eviction`);
  }
  if (metadata?.namespace !== undefined && metadata.namespace !== namespace) {
    const message = "the namespace of the provided object does not match the namespace sent on the request";
    throw badRequest("create", "pods", message);
  }
  return { kind, apiVersion, metadata: { ...metadata, namespace }, ...rest };
}
