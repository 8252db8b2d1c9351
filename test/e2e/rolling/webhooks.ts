/** The reviews of the API server while Sluice is rolled: by each version's own manifest, and without end. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { placeholderNamespace, reviewService } from "../../../knative/render/object.ts";
import { eventually } from "../../controlplane/api.ts";
import { runKubectl } from "../../support/drain.ts";
import { evict } from "../../support/drain-webhook.ts";
import type { Scene } from "../../support/scene.ts";

/** The rendered webhook configurations of a checkout. */
const manifest = "knative/base/webhooks/webhooks.yaml";

/** A Service that stands for a port of this machine: an API server without kube-proxy finds it by its external name. */
export async function makeService({ api, group: { namespace } }: Scene): Promise<void> {
  const spec = { type: "ExternalName", externalName: "localhost" };
  const service = { apiVersion: "v1", kind: "Service", metadata: { name: reviewService }, spec };
  await api.post(`/api/v1/namespaces/${namespace}/services`, service);
}

/**
 * Applies the webhook configurations of a checkout with kubectl, as the upgrade notes do. They lead to `port`. Throws kubectl's
 * error output if it fails.
 */
export async function applyWebhooks({ controlPlane, group }: Scene, checkout: string, port: number): Promise<void> {
  const { namespace } = group;
  const rendered = await readFile(join(checkout, manifest), "utf8");
  const text = rendered.replaceAll(placeholderNamespace, namespace).replaceAll("port: 443", `port: ${port}`);
  const file = join(controlPlane.directory, `${namespace}-webhooks.yaml`);
  await writeFile(file, text);
  const { code, stderr } = await runKubectl(controlPlane, "apply", "-f", file);
  if (code !== 0) throw new Error(`kubectl apply: ${stderr}`);
}

/** Removes the objects of {@link applyWebhooks}, because other namespaces could not be used any more. */
export async function removeWebhooks({ controlPlane, group }: Scene): Promise<void> {
  const kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
  await runKubectl(controlPlane, "delete", kinds, "-l", `grafana.com/namespace=${group.namespace}`);
}

/** A review that the API server could not have answered. */
export interface Failed {
  readonly atMs: number;
  readonly answer: string;
}

/** Sends dry runs of evictions and of sizes to the API server, until it is stopped. */
export class Asker {
  readonly failed: Failed[] = [];
  asked = 0;
  #isAsking = true;
  readonly #loops: Promise<unknown>;

  private constructor(loops: (asker: Asker) => Promise<unknown>) {
    this.#loops = loops(this);
  }

  /** Resolves when the webhook has answered the first dry run of each. */
  static async start(scene: Scene): Promise<Asker> {
    const { api, group } = scene;
    const { namespace, statefulSets } = group;
    const [name = ""] = statefulSets.slice(-1);
    const evictOne = async () => (await evict(api, namespace, `${name}-0`, "in the body")).message;
    const scaleOne = async () => {
      const path = `${scene.statefulSetPath(name)}/scale?dryRun=All`;
      const answer = await api.send("PATCH", path, { spec: { replicas: 1 } }, "application/merge-patch+json");
      return ((await answer.body.json()) as { message?: string }).message ?? "";
    };
    const asks = [evictOne, scaleOne];
    await eventually("every webhook answers", 60_000, async () => {
      const outcome = await Promise.all(asks.map((ask) => ask()));
      return outcome.some(isFailure) ? undefined : true;
    });
    return new Asker((asker) => Promise.all(asks.map((ask) => asker.#repeat(ask))));
  }

  async stop(): Promise<void> {
    this.#isAsking = false;
    await this.#loops;
  }

  async #repeat(ask: () => Promise<string>): Promise<void> {
    for (; this.#isAsking; await delay(20)) {
      const atMs = performance.now();
      const outcome = await ask();
      this.asked++;
      if (isFailure(outcome)) this.failed.push({ atMs, answer: outcome });
    }
  }
}

/** The API server's message if a webhook gave it no usable answer. */
function isFailure(message: string): boolean {
  return message.includes("failed calling webhook");
}
