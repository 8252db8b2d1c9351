/** Calls of admission webhooks over HTTPS, and the rules for their answers (k8s.io/apiserver v0.36). */

import { Agent, buildConnector } from "undici";
import type { StatusDetails } from "./api-errors.ts";
import type { RegisteredWebhook } from "./registered-webhooks.ts";

export interface AdmissionRequest {
  readonly uid: string;
  readonly [field: string]: unknown;
}

/** A response that follows the rules. */
export interface AdmissionResponse {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: {
    readonly code?: number;
    readonly reason?: string;
    readonly message?: string;
    readonly details?: StatusDetails;
  };
  /** A JSON patch in base64. */
  readonly patch?: string;
  readonly patchType?: string;
}

/** The webhook gave no valid answer. Its failurePolicy decides whether that refuses the request. */
export class WebhookCallError extends Error {
  override readonly name = "WebhookCallError";

  constructor(webhook: string, why: string) {
    super(`failed calling webhook "${webhook}": ${why}`);
  }
}

export class WebhookCalls {
  /** Connections are kept for each address and authority, as the API server does. */
  readonly #agents = new Map<string, Agent>();

  /**
   * Asks a webhook.
   *
   * @throws WebhookCallError
   */
  async ask(webhook: RegisteredWebhook, isMutating: boolean, request: AdmissionRequest): Promise<AdmissionResponse> {
    const { name, admissionReviewVersions } = webhook;
    if (admissionReviewVersions?.includes("v1") !== true) {
      throw new WebhookCallError(name, "could not create admission objects: the embedded world knows v1 only");
    }
    const review = { kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1", request };
    let text: string;
    try {
      text = await this.#post(webhook, JSON.stringify(review));
    } catch (error) {
      throw new WebhookCallError(name, `failed to call webhook: ${(error as Error).message}`);
    }
    try {
      return acceptedResponse(text, request.uid, isMutating);
    } catch (error) {
      throw new WebhookCallError(name, `received invalid webhook response: ${(error as Error).message}`);
    }
  }

  /** Ends all connections. Calls under way fail. */
  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
    this.#agents.clear();
  }

  async #post({ clientConfig, timeoutSeconds }: RegisteredWebhook, body: string): Promise<string> {
    const { url, service, caBundle } = clientConfig;
    const timeout = `timeout=${timeoutSeconds}s`;
    if (url === undefined) {
      const host = `${service?.name}.${service?.namespace}.svc:${service?.port ?? 443}`;
      throw new Error(`Post "https://${host}${service?.path ?? "/"}?${timeout}": service "${service?.name}" not found`);
    }
    const { origin, pathname } = new URL(url);
    const path = `${pathname}?${timeout}`;
    const signal = AbortSignal.timeout(timeoutSeconds * 1000);
    const headers = { "content-type": "application/json", "user-agent": "kube-apiserver-admission" };
    try {
      const agent = this.#agentFor(origin, caBundle);
      const answer = await agent.request({ origin, path, method: "POST", headers, body, signal });
      const text = await answer.body.text();
      if (answer.statusCode < 300) return text;
      throw new Error(`an error on the server (${JSON.stringify(text)}) has prevented the request from succeeding`);
    } catch (error) {
      if (error instanceof Error && error.message.startsWith("an error on the server")) throw error;
      const why = signal.aborted ? "context deadline exceeded" : (error as Error).message;
      throw new Error(`Post "${origin}${path}": ${why}`);
    }
  }

  #agentFor(origin: string, caBundle: string | undefined): Agent {
    const key = `${origin} ${caBundle}`;
    let agent = this.#agents.get(key);
    if (agent === undefined) {
      // The call's own time limit is the only one.
      agent = new Agent({ connect: connectorFor(caBundle), headersTimeout: 0, bodyTimeout: 0 });
      this.#agents.set(key, agent);
    }
    return agent;
  }
}

/**
 * Trusts each certificate of a bundle, as Go does. OpenSSL alone takes the first certificate of the issuer's name, and refuses
 * if another one of that name has signed, as happens after a rotation.
 */
function connectorFor(caBundle: string | undefined): buildConnector.connector {
  const limits = { timeout: 0, allowH2: false };
  if (caBundle === undefined) return buildConnector(limits);
  const pem = Buffer.from(caBundle, "base64").toString();
  const authorities = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g);
  if (authorities === null) throw new Error("unable to load root certificates: unable to parse bytes as PEM block");
  const connectors = authorities.map((ca) => buildConnector({ ...limits, ca }));
  return (options, callback) => {
    const tryFrom = (index: number): void =>
      connectors[index]?.(options, (...[error, socket]) => {
        if (error === null) callback(null, socket);
        else if (index + 1 < connectors.length) tryFrom(index + 1);
        else callback(error, null);
      });
    tryFrom(0);
  };
}

function acceptedResponse(text: string, uid: string, isMutating: boolean): AdmissionResponse {
  const review = JSON.parse(text) as { apiVersion?: string; kind?: string; response?: AdmissionResponse };
  const { response } = review;
  if (response === undefined) throw new Error("webhook response was absent");
  if (response.uid !== uid) throw new Error(`expected response.uid="${uid}", got "${response.uid}"`);
  if (review.apiVersion !== "admission.k8s.io/v1" || review.kind !== "AdmissionReview") {
    const got = `${review.apiVersion}, Kind=${review.kind}`;
    throw new Error(`expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${got}`);
  }
  const { patch, patchType } = response;
  if (!isMutating) {
    if (patch) throw new Error("validating webhook may not return response.patch");
    if (patchType !== undefined) throw new Error("validating webhook may not return response.patchType");
  } else if (patch && patchType === undefined) {
    throw new Error("webhook returned response.patch but not response.patchType");
  } else if (!patch && patchType !== undefined) {
    throw new Error("webhook returned response.patchType but not response.patch");
  }
  return response;
}
