/** What cases of updates share: webhooks that see them, and a StatefulSet that no other client writes. */
import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { type Case, type Fixture, type FullStatefulSet, statefulSetAtRest } from "./fixture.ts";
import { type Review, type WebhookKind, WebhookServer } from "./webhook-server.ts";

export const scaled = ["statefulsets", "deployments", "replicasets"] as const;
/** Marks the updates of a case, to distinguish them from the writes of others. */
export const ours = { metadata: { annotations: { ours: "1" } } };

const update = { apiVersions: ["v1"], operations: ["UPDATE"] };
/** An unrelated rule, by which a case notices that the API server knows a registration. */
const probe = { ...update, apiGroups: [""], resources: ["configmaps"] };
const probeName = "probe";

export class UpdateStage<F extends Fixture = Fixture> {
  readonly fixture: F;
  readonly webhooks: WebhookServer;
  readonly key: { readonly namespace: string; readonly name: "set" };

  constructor(fixture: F, webhooks: WebhookServer) {
    this.fixture = fixture;
    this.webhooks = webhooks;
    this.key = { namespace: fixture.namespace, name: "set" };
  }

  /** Registers a webhook for updates of these resources. Resolves when the API server asks it. */
  async register(
    kind: WebhookKind,
    name: string,
    resources: readonly string[] = scaled.flatMap((one) => [one, `${one}/scale`]),
    more: object = {},
  ): Promise<string> {
    const rules = [{ ...update, apiGroups: ["apps"], resources }, probe];
    const webhook = await this.webhooks.register(this.fixture, kind, name, { rules, ...more });
    const { cluster, namespace } = this.fixture;
    const metadata = { name: probeName, labels: { probe: "1" }, annotations: { ours: "1" } };
    await cluster.create("configmaps", namespace, { metadata }).catch(() => undefined);
    // The webhook was asked even if it refused or failed.
    const write = () => cluster.patch("configmaps", { namespace, name: probeName }, {}).catch(() => undefined);
    await this.webhooks.askedBy(write, [name]);
    return webhook;
  }

  /** The StatefulSet, once the API server's own memory is up to date, because the server first reviews what it remembers. */
  async statefulSet(): Promise<FullStatefulSet> {
    const set = await statefulSetAtRest(this.fixture);
    await this.remembered("statefulsets", set.metadata.resourceVersion);
    return set;
  }

  async remembered(resource: Resource, notOlderThan: string): Promise<void> {
    await this.fixture.cluster.list(resource, { namespace: this.fixture.namespace, notOlderThan });
  }

  /** The reviews of {@link ours} since the last call, by one webhook or by all. */
  take(name = ""): readonly Review[] {
    return this.webhooks.take().filter(({ url, request }) => {
      const isOurs = request.object.kind === "Scale" || request.object.metadata.annotations?.ours !== undefined;
      return isOurs && url.startsWith(`/${name}`);
    });
  }
}

export function withUpdates<F extends Fixture = Fixture>(
  name: string,
  run: (stage: UpdateStage<F>) => Promise<void>,
): Case<F> {
  return {
    name,
    async run(fixture) {
      const webhooks = await WebhookServer.start();
      try {
        await run(new UpdateStage(fixture, webhooks));
      } finally {
        await webhooks.close();
      }
    },
  };
}
