/** A guarded namespace: the accounts that write in it, what each of them may do, and objects with all of our words. */
import { loadAll } from "js-yaml";
import type { Api } from "../controlplane/api.ts";
import type { Built } from "../support/kubectl.ts";
import { finalizers, type Kind, type Rule, rules } from "./guard-rights.ts";

export const namespace = "guarded";

/** Verbs on resources by which RBAC lets a request come as far as the guard. */
export type Reach = `${"create" | "patch"} ${Kind}` | `${"create" | "patch" | "delete"} lease`;

export interface Account {
  readonly name: string;
  readonly user: string;
  readonly reaches: readonly Reach[];
  /** The rules that its rights satisfy. */
  readonly satisfies: readonly Rule[];
  /** True for what the guard leaves out, whatever it writes. */
  readonly isFree?: true;
}

const ofKind = (kind: Kind): readonly Reach[] => [`create ${kind}`, `patch ${kind}`];
const ofLeases: readonly Reach[] = ["create lease", "patch lease", "delete lease"];
const custom = [...ofKind("rabbitmqcluster"), ...ofKind("foundationdbcluster")];
const everything = [...ofKind("claim"), ...custom, ...ofLeases];
const patches: readonly Reach[] = ["patch claim", "patch rabbitmqcluster", "patch foundationdbcluster"];
const ofEdit: readonly Rule[] = ["free", "delete", "finalizer", "labels"];
const all: readonly Rule[] = [...ofEdit, "repair", "edit"];
const controller = (name: string) => `system:serviceaccount:kube-system:${name}`;

export const accounts: readonly Account[] = [
  { name: "claims", user: "narrow-claims", reaches: ofKind("claim"), satisfies: ["free"] },
  {
    name: "claims-deleted",
    user: "narrow-claims-deleted",
    reaches: ofKind("claim"),
    satisfies: ["free", "finalizer"],
  },
  { name: "pods-deleted", user: "narrow-pods-deleted", reaches: ofKind("claim"), satisfies: ["free"] },
  { name: "rabbit", user: "narrow-rabbit", reaches: ofKind("rabbitmqcluster"), satisfies: ["free"] },
  { name: "fdb", user: "narrow-fdb", reaches: ofKind("foundationdbcluster"), satisfies: ["free"] },
  { name: "leases", user: "narrow-leases", reaches: ofLeases, satisfies: ["free"] },
  { name: "view", user: "a-viewer", reaches: [], satisfies: [] },
  { name: "edit", user: "an-editor", reaches: [...ofKind("claim"), ...ofLeases], satisfies: ofEdit },
  { name: "edit+kinds", user: "an-editor-of-kinds", reaches: everything, satisfies: ofEdit },
  { name: "edit+operator", user: "an-operator", reaches: everything, satisfies: all },
  {
    name: "claims+operator",
    user: "a-narrow-operator",
    reaches: ofKind("claim"),
    satisfies: ["free", "finalizer", "repair", "edit"],
  },
  { name: "admin", user: "an-administrator", reaches: everything, satisfies: all },
  {
    name: "collector",
    user: controller("generic-garbage-collector"),
    reaches: [...patches, "patch lease", "delete lease"],
    satisfies: ofEdit,
  },
  { name: "namespaces", user: controller("namespace-controller"), reaches: ["delete lease"], satisfies: [] },
  { name: "statefulsets", user: controller("statefulset-controller"), reaches: ["create claim"], satisfies: all },
  {
    name: "ephemeral",
    user: controller("ephemeral-volume-controller"),
    reaches: ["create claim"],
    satisfies: ["free"],
  },
  {
    name: "sluice",
    user: `system:serviceaccount:${namespace}:sluice`,
    reaches: [...patches, ...ofLeases],
    satisfies: all,
    isFree: true,
  },
];

/** Roles in the place of what operators add to `edit`, and narrow ones; who has which. */
export const rights = loadAll(`
apiVersion: v1
kind: List
items:
${[
  ["claims", "''", "persistentvolumeclaims", "create, patch"],
  ["claims-deleted", "''", "persistentvolumeclaims", "delete"],
  ["pods-deleted", "''", "pods", "delete"],
  ["status", "''", "persistentvolumeclaims/status", "patch"],
  ["rabbit", "rabbitmq.com", "rabbitmqclusters", "create, patch"],
  ["fdb", "apps.foundationdb.org", "foundationdbclusters", "create, patch"],
  ["leases", "coordination.k8s.io", "leases", "create, patch, delete"],
]
  .map(
    ([name, group, resource, verbs]) =>
      `  - { apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: { name: ${name}, namespace: ${namespace} }, rules: [{ apiGroups: [${group}], resources: [${resource}], verbs: [${verbs}] }] }`,
  )
  .join("\n")}
`).flatMap((list) => (list as unknown as { items: Built[] }).items);

/** What Kubernetes puts together to the role `edit`; the controller that does so does not run here. */
const edit = ["ClusterRole/system:aggregate-to-edit", "ClusterRole/system:aggregate-to-view"];

/** Users whose names are like that of an account of Sluice, and who may write volume claims alone. */
export const lookalikes = [
  "system:serviceaccount:elsewhere:sluice",
  `system:serviceaccount:${namespace}:sluice:other`,
  `system:serviceaccount:${namespace}:sluices`,
  `system:serviceaccount:${namespace}x:sluice`,
];

/** By user: the roles that are bound to it in the namespace. */
const bound: Readonly<Record<string, readonly string[]>> = {
  "narrow-claims": ["Role/claims"],
  "narrow-claims-deleted": ["Role/claims", "Role/claims-deleted"],
  "narrow-pods-deleted": ["Role/claims", "Role/pods-deleted"],
  "narrow-status": ["Role/status"],
  "narrow-rabbit": ["Role/rabbit"],
  "narrow-fdb": ["Role/fdb"],
  "narrow-leases": ["Role/leases"],
  "a-viewer": ["ClusterRole/system:aggregate-to-view"],
  "an-editor": [...edit],
  "an-editor-of-kinds": [...edit, "Role/rabbit", "Role/fdb"],
  "an-operator": [...edit, "Role/rabbit", "Role/fdb", "ClusterRole/sluice-operator"],
  "a-narrow-operator": ["Role/claims", "ClusterRole/sluice-operator"],
  "an-administrator": ["ClusterRole/cluster-admin"],
  ...Object.fromEntries(lookalikes.map((user) => [user, ["Role/claims"]])),
};

export const bindings: readonly Built[] = Object.entries(bound).flatMap(([user, roles]) =>
  roles.map((role) => {
    const [kind, name = ""] = role.split("/");
    const apiGroup = "rbac.authorization.k8s.io";
    return {
      apiVersion: `${apiGroup}/v1`,
      kind: "RoleBinding",
      metadata: { name: `${user}-${name}`.replaceAll(":", "."), namespace },
      roleRef: { apiGroup, kind, name },
      subjects: [{ apiGroup, kind: "User", name: user }],
    } as Built;
  }),
);

const forms = {
  claim: { at: "/api/v1", apiVersion: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims" },
  rabbitmqcluster: {
    at: "/apis/rabbitmq.com/v1beta1",
    apiVersion: "rabbitmq.com/v1beta1",
    kind: "RabbitmqCluster",
    plural: "rabbitmqclusters",
  },
  foundationdbcluster: {
    at: "/apis/apps.foundationdb.org/v1beta2",
    apiVersion: "apps.foundationdb.org/v1beta2",
    kind: "FoundationDBCluster",
    plural: "foundationdbclusters",
  },
  lease: {
    at: "/apis/coordination.k8s.io/v1",
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    plural: "leases",
  },
} as const;

export function pathOf(kind: keyof typeof forms, name?: string): string {
  const { at, plural } = forms[kind];
  return `${at}/namespaces/${namespace}/${plural}${name === undefined ? "" : `/${name}`}`;
}

export function bodyOf(kind: keyof typeof forms, name: string, metadata: object): object {
  const { apiVersion, kind: named } = forms[kind];
  const size = { storage: "1Gi" };
  const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: size }, storageClassName: "no-class" };
  return { apiVersion, kind: named, metadata: { name, ...metadata }, spec: kind === "claim" ? claim : {} };
}

/** The words whose keys are those of labels. */
export const labelled = ["sluice.dev/suspended", "sluice.dev/protected"];
/** Where a word stands in metadata. */
export function withWord(key: string, value: string | null): object {
  return { [labelled.includes(key) ? "labels" : "annotations"]: { [key]: value } };
}

/** Makes an object of each kind that has no word of ours and one that has all of them, ledgers, and Leases that are none. */
export async function furnish(api: Api): Promise<void> {
  for (const kind of ["claim", "rabbitmqcluster", "foundationdbcluster"] as const) {
    const keys = [...Object.keys(rules), "sluice.dev/of-a-later-version", "example.com/note"];
    const on = (isLabel: boolean) =>
      Object.fromEntries(keys.filter((key) => labelled.includes(key) === isLabel).map((key) => [key, "true"]));
    await api.post(pathOf(kind), bodyOf(kind, "bare", {}));
    const fields = { annotations: on(false), labels: on(true) };
    await api.post(pathOf(kind), bodyOf(kind, "worded", { ...fields, ...(kind === "claim" ? { finalizers } : {}) }));
  }
  const marks = { labels: { "app.kubernetes.io/managed-by": "sluice" }, annotations: { "sluice.dev/group": "db" } };
  for (const [name, metadata] of Object.entries({ "sluice-db": marks, "sluice-bare": {}, marked: marks, leader: {} }))
    await api.post(pathOf("lease"), bodyOf("lease", name, metadata));
}
