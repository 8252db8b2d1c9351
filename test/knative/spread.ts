/** RabbitMQ of an operator, whose queues are rebalanced: what the account needs for that, besides a Role of its user. */
import { join } from "node:path";
import { eventually } from "../controlplane/api.ts";
import type { Ingesters } from "../support/ingester.ts";
import type { Kubectl } from "../support/kubectl.ts";
import { changed, post, tick } from "../support/posted.ts";
import type { Scene } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

const name = "queues";
const secret = "queues-default-user";
const rabbitmq = "rabbitmq.com/v1beta1";
const rbac = "rbac.authorization.k8s.io/v1";

/** The operator's CRD, as far as Sluice reads it. */
export async function serveRabbitmqClusters(kubectl: Kubectl): Promise<void> {
  await kubectl.run("apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
}

/** An account, which may be of another namespace than the scene. */
interface Account {
  readonly namespace: string;
  readonly name: string;
}

/** Its pods answer as RabbitMQ does. `account`: whom the user lets read one Secret. */
export async function spread(scene: Scene, server: Server, ingesters: Ingesters, account: Account): Promise<void> {
  const { api, group } = scene;
  const { namespace } = group;
  for (const ordinal of [0, 1]) ingesters.behave(`${name}-${ordinal}`, { status: 204 });
  await letRead(scene, account);
  const owner = await api.post<{ metadata: { uid: string } }>(
    `/apis/${rabbitmq}/namespaces/${namespace}/rabbitmqclusters`,
    {
      apiVersion: rabbitmq,
      kind: "RabbitmqCluster",
      metadata: { name },
      spec: {},
    },
  );
  const labels = { app: name };
  const { uid } = owner.metadata;
  await api.post(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: {
      name,
      labels: { "sluice.dev/rebalance-queues": "true" },
      annotations: {
        "sluice.dev/health-question": "rabbitmq",
        "sluice.dev/health-url": `http://:${ingesters.port}/api/health/checks/node-is-quorum-critical`,
        "sluice.dev/health-secret": secret,
      },
      ownerReferences: [{ apiVersion: rabbitmq, kind: "RabbitmqCluster", name, uid, controller: true }],
    },
    spec: {
      replicas: 2,
      serviceName: name,
      podManagementPolicy: "Parallel",
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { nodeName: "node-1", containers: [{ name: "rabbitmq", image: "rabbitmq:4.1-management" }] },
      },
    },
  });
  await eventually(
    "its queues rebalanced",
    60_000,
    async () => {
      await post(server, tick);
      await post(server, changed("StatefulSet", namespace, name));
      const { metadata } = await scene.statefulSet(name);
      return /"balancedAt"/.test(metadata.annotations?.["sluice.dev/rebalance-state"] ?? "") ? true : undefined;
    },
    1_000,
  );
  await scene.waitForEvent("QueuesRebalanced");
}

/** The Secret, and what its user writes so that Sluice may read it. */
async function letRead({ api, group: { namespace } }: Scene, account: Account): Promise<void> {
  await api.post(`/api/v1/namespaces/${namespace}/secrets`, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secret },
    stringData: { username: "admin", password: "s3cret" },
  });
  const [path, metadata] = [`/apis/${rbac}/namespaces/${namespace}`, { name: "sluice-asks-rabbit" }];
  const rules = [{ apiGroups: [""], resources: ["secrets"], resourceNames: [secret], verbs: ["get"] }];
  await api.post(`${path}/roles`, { apiVersion: rbac, kind: "Role", metadata, rules });
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
  const subjects = [{ kind: "ServiceAccount", ...account }];
  await api.post(`${path}/rolebindings`, { apiVersion: rbac, kind: "RoleBinding", metadata, roleRef, subjects });
}
