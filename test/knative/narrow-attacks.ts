/** What accounts with few rights write to have Sluice act for them, and the place in which they do. */
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import type { Api } from "../controlplane/api.ts";
import type { FixtureGroup } from "../controlplane/fixtures.ts";
import type { Built } from "../support/kubectl.ts";

export interface Attack {
  readonly user: string;
  readonly what: string;
  readonly method: "PATCH" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: object;
}

const broker = "broker";
const roles = [
  ["claims", "", "persistentvolumeclaims", ["patch"]],
  ["rabbit", "rabbitmq.com", "rabbitmqclusters", ["patch"]],
  ["leases", "coordination.k8s.io", "leases", ["create", "patch", "delete"]],
] as const;
const apiGroup = "rbac.authorization.k8s.io";

/** An account for each narrow right, and those of the built-in roles, which no controller puts together here. */
export function accountsOf(namespace: string): readonly Built[] {
  const made = roles.map(([name, group, resource, verbs]) => ({
    apiVersion: `${apiGroup}/v1`,
    kind: "Role",
    metadata: { name, namespace },
    rules: [{ apiGroups: [group], resources: [resource], verbs }],
  }));
  const bound = [
    ...roles.map(([name]) => [name, "Role", name] as const),
    ...["view", "edit"].flatMap((role) =>
      (role === "edit" ? ["edit", "view"] : ["view"]).map(
        (part) => [role, "ClusterRole", `system:aggregate-to-${part}`] as const,
      ),
    ),
  ];
  const bindings = bound.map(([user, kind, name]) => ({
    apiVersion: `${apiGroup}/v1`,
    kind: "RoleBinding",
    metadata: { name: `${user}-${name}`.replaceAll(":", "."), namespace },
    roleRef: { apiGroup, kind, name },
    subjects: [{ apiGroup, kind: "User", name: user }],
  }));
  return [...made, ...bindings];
}

/** An owner whose pods Sluice may label, and one of its pods. */
export function place(namespace: string, group: string): readonly Built[] {
  const owner = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster", metadata: { name: broker, namespace } };
  const labels = { "app.kubernetes.io/name": broker, "app.kubernetes.io/component": "rabbitmq", tier: "isolated" };
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `${broker}-server-0`, namespace, labels },
    spec: { containers: [{ name: "rabbitmq", image: `app:1-${group}` }] },
  };
  return [owner, pod] as unknown as readonly Built[];
}

/** The label of the pod of that owner that users of the network policy rely on. */
export async function tierOf(api: Api, namespace: string): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${namespace}/pods/${broker}-server-0`;
  return (await api.get<{ metadata: Metadata }>(path)).metadata.labels?.tier;
}

/** What each of them may write as far as RBAC goes, but for those of `view`, and would have Sluice act on or stand still by. */
export function attacksOf({ name, namespace, statefulSets }: FixtureGroup): readonly Attack[] {
  const drained = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
  const claims = statefulSets.map((set) => `/api/v1/namespaces/${namespace}/persistentvolumeclaims/data-${set}-1`);
  const texts: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
    "a suspension of no time": { ...drained, "sluice.dev/suspend-duration": "0" },
    "a pod of another owner": { ...drained, "sluice.dev/owner": "Foreign/x", "sluice.dev/zone": "a" },
    "a removal that seems begun": { "sluice.dev/suspend-state": "Removing", "sluice.dev/removal-claim": "x" },
  };
  const rabbit = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters/${broker}`;
  const labels: typeof texts = {
    "a label of its choice": { "sluice.dev/skip-label": "tier=trusted", "sluice.dev/stop-all": "true" },
    "a status of ours": { "sluice.dev/skip-status": '{"key":"tier"}' },
  };
  const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const ledger = `${leases}/sluice-${name}`;
  const claim = JSON.stringify({ id: "x", kind: "later", zone: statefulSets[0], by: "x", stampMs: Date.now() });
  const forged: typeof texts = {
    "a claim of an unknown kind": { "sluice.dev/claims": claim },
    "reservations that are no JSON": { "sluice.dev/reservations": "[" },
  };
  const patches = (user: string, path: string, all: typeof texts): Attack[] =>
    Object.entries(all).map(([what, annotations]) => ({
      user,
      what,
      method: "PATCH",
      path,
      body: { metadata: { annotations } },
    }));
  const onLedger = (user: string): Attack[] => [
    ...patches(user, ledger, forged),
    { user, what: "the ledger away", method: "DELETE", path: ledger },
  ];
  return [
    ...claims.flatMap((path) => patches("claims", path, texts)),
    ...patches("rabbit", rabbit, labels),
    ...["leases", "edit"].flatMap(onLedger),
    ...patches("edit", claims[0] ?? "", { "a state of ours": texts["a removal that seems begun"] ?? {} }),
    ...["view"].flatMap((user) => [...patches(user, claims[0] ?? "", texts), ...onLedger(user)]),
  ];
}
