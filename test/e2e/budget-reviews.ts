/**
 * Reviews of budgets: the webhook that the API server asks, and the certificate and the answer that a new connection to it
 * gets.
 */
import { once } from "node:events";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { connect, type PeerCertificate } from "node:tls";

const host = { host: "127.0.0.1", servername: "localhost" };
/** The path of reviews of budgets, without a review key. */
export const path = "/admission/zpdb-validation";

/**
 * An entry of a validating webhook configuration, as rollout-operator's users have it, but by address, because there is no
 * Service.
 */
export function budgetWebhook(name: string, server: { readonly url: string; readonly ca?: string }): object {
  const caBundle = server.ca === undefined ? {} : { caBundle: Buffer.from(server.ca).toString("base64") };
  return {
    name,
    clientConfig: { url: `${server.url}${path}`, ...caBundle },
    rules: [
      {
        apiGroups: ["rollout-operator.grafana.com"],
        apiVersions: ["v1"],
        operations: ["CREATE", "UPDATE"],
        resources: ["zoneawarepoddisruptionbudgets"],
        scope: "Namespaced",
      },
    ],
    admissionReviewVersions: ["v1"],
    failurePolicy: "Fail",
    sideEffects: "None",
  };
}

/** The certificate that a new connection gets, trusted or not. */
export function certificateShown(port: number): Promise<PeerCertificate> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...host, port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate());
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

/**
 * Posts a review of a budget on a connection of its own, because the API server keeps its connections. The connection is made
 * only if the bundle is trusted. Resolves to the answer's body; its uid is `anew`.
 */
export function reviewAnew(port: number, ca: string, budget: object): Promise<string> {
  const headers = { "content-type": "application/json" };
  const options = { ...host, port, ca, headers, path, method: "POST", agent: false };
  return new Promise((resolve, reject) => {
    const asked = request(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.once("end", () => resolve(text));
    });
    asked.once("error", reject);
    const review = { uid: "anew", operation: "CREATE", object: budget };
    asked.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: review }));
  });
}

/** An entry as the manifests have it, by a Service that stands for `localhost`. */
export function serviceWebhook(name: string, namespace: string, port: number): object {
  const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": namespace } };
  const service = { name: "rollout-operator", namespace, port, path };
  return { ...budgetWebhook(name, { url: "" }), namespaceSelector, clientConfig: { service } };
}

/** A server that allows every review, and keeps the path of each. */
export class PathServer {
  /** Without the query, in the order of the reviews. */
  readonly paths: string[] = [];
  readonly #server;

  private constructor(pair: { readonly cert: string; readonly key: string }) {
    this.#server = createServer(pair, (asked, response) => {
      this.paths.push(new URL(asked.url ?? "", "https://localhost").pathname);
      let text = "";
      asked.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      asked.once("end", () => {
        const { apiVersion, kind, request: review } = JSON.parse(text);
        const answer = { apiVersion, kind, response: { uid: review.uid, allowed: true } };
        response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
      });
    });
  }

  static async start(pair: { readonly cert: string; readonly key: string }): Promise<PathServer> {
    const server = new PathServer(pair);
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}
