/** Pods of a fake cluster that are asked before they go, and each pod's answer. */
import type { PodHttp } from "../../../../functions/shared/http/pod-http.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { PodReply } from "../../../fake-cluster/pod-http.ts";
import { createWorldPodHttp } from "../../../fake-cluster/pod-http.ts";
import { type Harness, namespace } from "../reconcile/harness.ts";

export const healthPath = "/api/health/checks/node-is-quorum-critical";
export const yes: PodReply = { status: 200, body: '{"status":"ok"}' };
export const critical: PodReply = {
  status: 503,
  body: '{"status":"failed","queues":[{"name":"orders","readable_name":"queue \'orders\' in vhost \'/\'"}]}',
};

/** The annotations that RabbitMQ's users write. */
export const rabbit = { "health-question": "rabbitmq", "health-secret": "rabbit-user" };

export class AskedPods {
  /** `POD at PORT: PATH AUTHORIZATION`, in the order of the requests. */
  readonly asked: string[] = [];
  readonly replies = new Map<string, PodReply>();
  /** Answer of all other pods. */
  others: PodReply = yes;
  /** Time in milliseconds that a pod takes for its answer. */
  slowMs = 1;
  readonly #harness: Harness;

  /** Makes these StatefulSets ask their pods, and creates a Service and a Secret. */
  constructor(
    harness: Harness,
    sets: readonly string[] = ["group-a"],
    annotations: Readonly<Record<string, string>> = rabbit,
  ) {
    this.#harness = harness;
    const { world } = harness;
    for (const name of sets) {
      const texts = Object.fromEntries(Object.entries(annotations).map(([key, text]) => [`sluice.dev/${key}`, text]));
      world.annotate({ namespace, name }, texts);
    }
    if (world.store.find("secrets", { namespace, name: "rabbit-user" }) === undefined) {
      const data = { username: btoa("user"), password: btoa("pass") };
      world.store.create("secrets", namespace, { metadata: { name: "rabbit-user" }, data } as never);
    }
  }

  /** The HTTP client to the pods for a process with this connection and its clock. */
  http(cluster: Cluster): PodHttp {
    return createWorldPodHttp({
      world: this.#harness.world,
      clock: cluster,
      way: (leg) => (leg === "reply" ? this.slowMs : 1),
      answer: ({ metadata }, { port, path, headers }) => {
        this.asked.push(`${metadata.name} at ${port}: ${path} ${headers.authorization ?? ""}`.trimEnd());
        return this.replies.get(metadata.name) ?? this.others;
      },
    });
  }

  /** Names of the pods that were asked since the last call. */
  takeAsked(): string[] {
    return this.asked.splice(0).map((line) => line.replace(/ .*$/, ""));
  }
}
