/** Admission: registered webhooks see requests, change them and refuse them, as in k8s.io/apiserver v0.36. */

import { randomUUID } from "node:crypto";
import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { ApiStatusError, internalError, type Verb } from "./api-errors.ts";
import { applyJsonPatch } from "./json-patch.ts";
import { traitsOf } from "./objects.ts";
import { type RegisteredWebhook, webhooksFor } from "./registered-webhooks.ts";
import { type AdmissionRequest, type AdmissionResponse, WebhookCallError, WebhookCalls } from "./webhook-calls.ts";
import type { World } from "./world.ts";

export interface UserInfo {
  readonly username: string;
  readonly groups: readonly string[];
}

/** The user of a request that names none, because the fake cluster authenticates no client. */
export const anonymous: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/** A request without its new object: an Eviction on its way to a pod, or an update. */
export interface AdmissionAttributes {
  readonly operation: "CREATE" | "UPDATE";
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  readonly resource: Resource;
  readonly subresource?: string;
  readonly namespace: string;
  readonly name: string;
  /** The existing object, as a type of `kind`; null for a new one. */
  readonly oldObject: object | null;
  /** As the request's query says. An Eviction may also ask for a dry run in its body, which does not count here. */
  readonly isDryRun: boolean;
  readonly user: UserInfo;
}

type Configurations = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

/** Calls webhooks: over HTTPS, or with the answers of a test. */
export type WebhookCaller = Pick<WebhookCalls, "ask" | "close">;

export class Admission {
  readonly #world: World;
  readonly #calls: WebhookCaller;

  constructor(world: World, calls: WebhookCaller = new WebhookCalls()) {
    this.#world = world;
    this.#calls = calls;
  }

  /**
   * Shows an object to the mutating webhooks, one after another. Resolves to the changed object.
   *
   * @throws ApiStatusError what a webhook answers, and 500 if a webhook that must not fail cannot be asked.
   */
  async mutate<O extends object>(attributes: AdmissionAttributes, object: O): Promise<O> {
    let mutated = object;
    for (const webhook of this.#webhooks("mutatingwebhookconfigurations", attributes, object)) {
      const response = await this.#review(webhook, true, attributes, mutated);
      if (response?.patch) mutated = patched(attributes, mutated, response);
    }
    return mutated;
  }

  /**
   * Shows an object to the validating webhooks, all at once.
   *
   * @throws ApiStatusError the first refusal when all have answered, as {@link mutate} does.
   */
  async validate(attributes: AdmissionAttributes, object: object): Promise<void> {
    const webhooks = this.#webhooks("validatingwebhookconfigurations", attributes, object);
    const refusals: unknown[] = [];
    await Promise.all(
      webhooks.map((webhook) =>
        this.#review(webhook, false, attributes, object).catch((error) => refusals.push(error)),
      ),
    );
    if (refusals.length > 0) throw refusals[0];
  }

  /** Ends all connections to webhooks. */
  close(): Promise<void> {
    return this.#calls.close();
  }

  #webhooks(configurations: Configurations, attributes: AdmissionAttributes, object: object): RegisteredWebhook[] {
    const { operation, namespace, resource, subresource = "", oldObject } = attributes;
    const asked = { operation, ...resourceOf(resource), subresource, namespace, object, oldObject };
    return webhooksFor(this.#world.store, configurations, asked);
  }

  /** The response of a webhook that allows; undefined if it cannot be asked and its failurePolicy ignores that. */
  async #review(
    webhook: RegisteredWebhook,
    isMutating: boolean,
    attributes: AdmissionAttributes,
    object: object,
  ): Promise<AdmissionResponse | undefined> {
    const { name, failurePolicy } = webhook;
    try {
      const response = await this.#calls.ask(webhook, isMutating, requestFor(attributes, object));
      if (!response.allowed) throw denial(name, attributes, response.status);
      return response;
    } catch (error) {
      if (!(error instanceof WebhookCallError)) throw error;
      if (failurePolicy === "Ignore") return undefined;
      throw internalError(verbOf(attributes), attributes.resource, error.message);
    }
  }
}

/** The group, version and plural that rules and reviews use. */
function resourceOf(resource: Resource): {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
} {
  const { group, apiVersion, plural } = traitsOf(resource);
  return { group, version: apiVersion.replace(/^.*\//, ""), resource: plural };
}

/** Each review has a uid of its own, even if a webhook is asked again. */
function requestFor(attributes: AdmissionAttributes, object: object): AdmissionRequest {
  const { operation, kind, subresource, name, namespace, oldObject, isDryRun, user } = attributes;
  const resource = resourceOf(attributes.resource);
  const dryRun = isDryRun ? { dryRun: ["All"] } : undefined;
  return {
    uid: randomUUID(),
    kind,
    resource,
    ...(subresource === undefined ? undefined : { subResource: subresource }),
    requestKind: kind,
    requestResource: resource,
    ...(subresource === undefined ? undefined : { requestSubResource: subresource }),
    name,
    ...(namespace === "" ? undefined : { namespace }),
    operation,
    userInfo: user,
    object,
    oldObject,
    dryRun: isDryRun,
    // The API server sends the options of an update also for a patch.
    options: {
      kind: operation === "CREATE" ? "CreateOptions" : "UpdateOptions",
      apiVersion: "meta.k8s.io/v1",
      ...dryRun,
    },
  };
}

function patched<O extends object>(
  attributes: AdmissionAttributes,
  object: O,
  { patch = "", patchType }: AdmissionResponse,
): O {
  try {
    if (patchType !== "JSONPatch") throw new Error(`unsupported patch type "${patchType}"`);
    return applyJsonPatch(object, JSON.parse(Buffer.from(patch, "base64").toString()));
  } catch (error) {
    throw internalError(verbOf(attributes), attributes.resource, (error as Error).message);
  }
}

/** The webhook's status, which becomes a refusal even if it says success. */
function denial(
  webhook: string,
  attributes: AdmissionAttributes,
  status: AdmissionResponse["status"] = {},
): ApiStatusError {
  const { code = 0, reason = "", details } = status;
  const why = status.message || reason;
  const denied = `admission webhook "${webhook}" denied the request`;
  const message = why === "" ? `${denied} without explanation` : `${denied}: ${why}`;
  const { resource } = attributes;
  return new ApiStatusError(
    { code: Math.max(code, 400), reason, message, verb: verbOf(attributes), resource },
    details,
  );
}

function verbOf({ operation }: AdmissionAttributes): Verb {
  return operation === "CREATE" ? "create" : "patch";
}
