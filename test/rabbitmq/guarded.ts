/** Sluice beside a broker: the shipped server, which rolls the broker's StatefulSet and reviews its evictions. */
import { eventually } from "../controlplane/api.ts";
import { type EvictionAnswer, evict, registerWebhook } from "../support/drain-webhook.ts";
import type { EvictionStage } from "../support/eviction-stage.ts";
import { Server } from "../support/server.ts";
import { type Broker, nameOf, type SetOptions } from "./broker.ts";

const secret = "rabbitmq-default-user";

/** Annotations of a user, by which Sluice asks the nodes before one of them goes, and rolls out new templates. */
export function askedSet({ nodes }: Broker): SetOptions {
  return {
    strategy: "OnDelete",
    labels: { "rollout-group": "rabbitmq" },
    annotations: {
      "sluice.dev/health-question": "rabbitmq",
      "sluice.dev/health-url": `http://:${nodes.managementPort}/api/health/checks/node-is-quorum-critical`,
      "sluice.dev/health-secret": secret,
    },
  };
}

/** Starts a server, and registers it as rollout-operator's users do. Resolves when the API server asks it. */
export async function guard(
  { api, namespace, pods }: Broker,
  { controlPlane, certificate }: EvictionStage,
): Promise<Server> {
  await api.post(`/api/v1/namespaces/${namespace}/secrets`, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secret },
    stringData: { username: "guest", password: "guest" },
  });
  const settings = { ...certificate.settings, NODE_OPTIONS: pods.nodeOptions };
  const server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings });
  await server.ready();
  await registerWebhook(api, namespace, "Validating", { port: server.tlsPort, ca: certificate.ca });
  return server;
}

/**
 * Repeats a dry run of an eviction until it gets the expected answer, because an answer about health is used for two seconds.
 */
export function answered(
  { api, namespace }: Pick<Broker, "api" | "namespace">,
  ordinal: number,
  expected: { readonly code: number; readonly message: RegExp },
): Promise<EvictionAnswer> {
  let last = "";
  const ask = async () => {
    const answer = await evict(api, namespace, nameOf(ordinal), "in the body");
    last = `${answer.code} ${answer.message}`;
    return answer.code === expected.code && expected.message.test(answer.message) ? answer : undefined;
  };
  const what = `${nameOf(ordinal)} answered with ${expected.code} ${expected.message}`;
  return eventually(what, 120_000, ask, 500).catch((error: Error) => {
    throw new Error(`${error.message}, but with ${last}`, { cause: error });
  });
}
