/** Admission: registered webhooks see what is asked, change it and refuse it, as in k8s.io/apiserver v0.36. */

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

/** The user of a request that names none: the world authenticates no client. */
export const anonymous: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/** What is asked, but for the object that it is about: an Eviction on its way to a pod, or an update. */
export interface AdmissionAttributes {
  readonly operation: "CREATE" | "UPDATE";
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  readonly resource: Resource;
  readonly subresource?: string;
  readonly namespace: string;
  readonly name: string;
  /** What is there, in the terms of `kind`; null for what is new. */
  readonly oldObject: object | null;
  /** As the request's query says; an Eviction may ask for a dry run by itself, and does not count here. */
  readonly isDryRun: boolean;
  readonly user: UserInfo;
}

type Configurations = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

/** How webhooks are asked: over HTTPS, or as a test answers by itself. */
export type WebhookCaller = Pick<WebhookCalls, "ask" | "close">;

export class Admission {
  readonly #world: World;
  readonly #calls: WebhookCaller;

  constructor(world: World, calls: WebhookCaller = new WebhookCalls()) {
    this.#world = world;
    this.#calls = calls;
  }

  /**
   * Shows an object to the mutating webhooks, one after another: the object as they leave it.
   *
   * @throws ApiStatusError what a webhook answers, and 500 when one cannot be asked and is to fail.
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
   * @throws ApiStatusError the first refusal, as {@link mutate}, when all have answered.
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

  /** The response of a webhook that allows; undefined when it cannot be asked and that is to be ignored. */
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

/** As a rule and a review name it: the group, the version and the plural. */
function resourceOf(resource: Resource): {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
} {
  const { group, apiVersion, plural } = traitsOf(resource);
  return { group, version: apiVersion.replace(/^.*\//, ""), resource: plural };
}

/** A review has a uid of its own, whenever it is asked for. */
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
    // Of a patch, too, the API server tells the options of an update.
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

/** What a webhook says is passed on, but never as a success. */
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
