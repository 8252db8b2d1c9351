/** Admission: registered webhooks see what is asked, change it and refuse it, as in k8s.io/apiserver v0.36. */

import { randomUUID } from "node:crypto";
import { ApiStatusError, internalError } from "./api-errors.ts";
import { applyJsonPatch } from "./json-patch.ts";
import { type RegisteredWebhook, webhooksFor } from "./registered-webhooks.ts";
import { type AdmissionResponse, WebhookCallError, WebhookCalls } from "./webhook-calls.ts";
import type { World } from "./world.ts";

/** An Eviction on its way to a pod. */
export interface EvictionAttributes {
  readonly namespace: string;
  readonly name: string;
  /** As the request's query says; the Eviction may ask for a dry run by itself, and does not count here. */
  readonly isDryRun: boolean;
}

export class Admission {
  readonly #world: World;
  readonly #calls = new WebhookCalls();

  constructor(world: World) {
    this.#world = world;
  }

  /**
   * Shows an Eviction to the mutating webhooks, one after another: the Eviction as they leave it.
   *
   * @throws ApiStatusError what a webhook answers, and 500 when one cannot be asked and is to fail.
   */
  async mutate<E extends object>(attributes: EvictionAttributes, eviction: E): Promise<E> {
    let mutated = eviction;
    for (const webhook of this.#webhooks("mutatingwebhookconfigurations", attributes)) {
      const response = await this.#review(webhook, true, attributes, mutated);
      if (response?.patch) mutated = patched(mutated, response);
    }
    return mutated;
  }

  /**
   * Shows an Eviction to the validating webhooks, all at once.
   *
   * @throws ApiStatusError the first refusal, as {@link mutate}, when all have answered.
   */
  async validate(attributes: EvictionAttributes, eviction: object): Promise<void> {
    const webhooks = this.#webhooks("validatingwebhookconfigurations", attributes);
    const refusals: unknown[] = [];
    await Promise.all(
      webhooks.map((webhook) =>
        this.#review(webhook, false, attributes, eviction).catch((error) => refusals.push(error)),
      ),
    );
    if (refusals.length > 0) throw refusals[0];
  }

  /** Ends all connections to webhooks. */
  close(): Promise<void> {
    return this.#calls.close();
  }

  #webhooks(
    resource: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
    { namespace }: EvictionAttributes,
  ): RegisteredWebhook[] {
    const asked = { operation: "CREATE", group: "", version: "v1", resource: "pods", subresource: "eviction" };
    return webhooksFor(this.#world.store, resource, { ...asked, namespace });
  }

  /** The response of a webhook that allows; undefined when it cannot be asked and that is to be ignored. */
  async #review(
    webhook: RegisteredWebhook,
    isMutating: boolean,
    attributes: EvictionAttributes,
    eviction: object,
  ): Promise<AdmissionResponse | undefined> {
    const { name, failurePolicy } = webhook;
    try {
      const response = await this.#calls.ask(webhook, isMutating, requestFor(attributes, eviction));
      if (!response.allowed) throw denial(name, response.status);
      return response;
    } catch (error) {
      if (!(error instanceof WebhookCallError)) throw error;
      if (failurePolicy === "Ignore") return undefined;
      throw internalError("create", "pods", error.message);
    }
  }
}

function requestFor({ namespace, name, isDryRun }: EvictionAttributes, eviction: object): { readonly uid: string } {
  const kind = { group: "policy", version: "v1", kind: "Eviction" };
  const resource = { group: "", version: "v1", resource: "pods" };
  const dryRun = isDryRun ? { dryRun: ["All"] } : undefined;
  const request = {
    uid: randomUUID(),
    kind,
    resource,
    subResource: "eviction",
    requestKind: kind,
    requestResource: resource,
    requestSubResource: "eviction",
    name,
    namespace,
    operation: "CREATE",
    // Whoever asks: the world authenticates nobody.
    userInfo: { username: "system:anonymous", groups: ["system:unauthenticated"] },
    object: eviction,
    oldObject: null,
    dryRun: isDryRun,
    options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", ...dryRun },
  };
  return request;
}

function patched<E extends object>(eviction: E, { patch = "", patchType }: AdmissionResponse): E {
  try {
    if (patchType !== "JSONPatch") throw new Error(`unsupported patch type "${patchType}"`);
    return applyJsonPatch(eviction, JSON.parse(Buffer.from(patch, "base64").toString()));
  } catch (error) {
    throw internalError("create", "pods", (error as Error).message);
  }
}

/** What a webhook says is passed on, but never as a success. */
function denial(webhook: string, status: AdmissionResponse["status"] = {}): ApiStatusError {
  const { code = 0, reason = "", details } = status;
  const why = status.message || reason;
  const denied = `admission webhook "${webhook}" denied the request`;
  const message = why === "" ? `${denied} without explanation` : `${denied}: ${why}`;
  return new ApiStatusError({ code: Math.max(code, 400), reason, message, verb: "create", resource: "pods" }, details);
}
